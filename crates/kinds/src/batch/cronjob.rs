//! Cron jobs: jobs that are made again and again.

use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, Strategy, columns as cells};

use super::job::{drop_scheduling, spec};
use super::schedule;
use crate::apps::{name_warning, selector_cell};
use crate::common::checks::Checks;
use crate::common::versioned::{self, LABEL_SELECTOR};
use crate::common::{columns, pod_template};

const SPEC: &str = "io.k8s.api.batch.v1.CronJobSpec";
const JOB: [&str; 3] = ["spec", "jobTemplate", "spec"];
const TEMPLATE: [&str; 4] = ["spec", "jobTemplate", "spec", "template"];
/// Jobs get a suffix of 11 characters, and their names are used where 63 are allowed.
const NAME_MAX_BYTES: usize = names::DNS1035_LABEL_MAX_BYTES - 11;
const ZONE_PART_MAX_BYTES: usize = 14;

pub struct CronJob;

const FACTS: Facts = Facts {
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    ..Facts::WITH_STATUS
};

impl Strategy for CronJob {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if let Some(template) = object.at_mut(&TEMPLATE) {
            pod_template::default(template);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object, None);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, Some(old));
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, object, None, errors);
        let name = object.at(&["metadata", "name"]);
        if name.str().len() > NAME_MAX_BYTES {
            name.bad(errors, format!("must be no more than {NAME_MAX_BYTES} characters"));
        }
        declared(cx, object, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(cx, new, Some(old), errors);
        declared(cx, new, Some(old), errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings: Vec<String> = match old {
            None => name_warning(object).into_iter().collect(),
            Some(_) => Vec::new(),
        };
        if old.is_none_or(|old| old.generation() != object.generation()) {
            let path = Path::of("spec.jobTemplate.spec");
            warnings.extend(spec::warnings(cx, &path, object.at(&JOB), old.map(|old| old.at(&JOB))));
        }
        if old.is_some() && object.str_at(&["spec", "schedule"]).contains("TZ") {
            // Upstream's path has the spec twice.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_string(),
            );
        }
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let spec = object.field("spec");
        let suspended = match spec.field("suspend").as_bool() {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        };
        let last = match object.at(&["status", "lastScheduleTime"]).as_str() {
            Some(time) => cells::since(cx, time),
            None => "<none>".to_string(),
        };
        let job = object.at(&JOB);
        let (containers, images) = columns::containers(job.at(&["template", "spec"]));
        vec![
            object.name().into(),
            spec.str_at(&["schedule"]).into(),
            spec.field("timeZone").as_str().unwrap_or("<none>").into(),
            suspended.into(),
            object.list_at(&["status", "active"]).len().into(),
            last.into(),
            cells::age(cx, object),
            containers.into(),
            images.into(),
            selector_cell(job.field("selector")),
        ]
    }
}

fn drop_disabled(cx: &Context, object: &mut Value, old: Option<&Value>) {
    if let Some(job) = object.at_mut(&JOB) {
        drop_scheduling(cx, job, old.map(|old| old.at(&JOB)));
    }
    if let Some(template) = object.at_mut(&TEMPLATE) {
        pod_template::drop_disabled(cx, template, old.map(|old| old.at(&TEMPLATE)));
    }
}

/// Upstream's declarative rules, which come last.
fn declared(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    object.at(&["spec", "schedule"]).require(errors);
    let old = old.map(|old| old.at(&JOB));
    spec::declared(cx, &object.at(&JOB), old.as_ref().map(Cursor::value), errors);
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate_schedule(&spec, old, errors);
    spec.field("startingDeadlineSeconds").non_negative(errors);
    let zone = spec.field("timeZone");
    if old.is_none_or(|old| old.at(&["spec", "timeZone"]).value() != zone.value()) {
        validate_zone(&zone, errors);
    }
    spec.field("concurrencyPolicy").require_one_of(errors, &["Allow", "Forbid", "Replace"]);
    let old_template = old.map(|old| old.at(&TEMPLATE));
    let options = pod_template::options(cx, object.at(&TEMPLATE).value(), old_template.map(|old| old.value()));
    let job = object.at(&JOB);
    spec::validate(&job, &options, errors);
    let selector = job.field("selector");
    if selector.is_set() {
        let shown = versioned::shown(LABEL_SELECTOR, selector.value());
        selector.invalid_as(errors, shown, "`selector` will be auto-generated");
    }
    if job.field("manualSelector").bool() {
        job.field("manualSelector").not_supported(errors, &["nil", "false"]);
    }
    spec.field("successfulJobsHistoryLimit").non_negative(errors);
    spec.field("failedJobsHistoryLimit").non_negative(errors);
}

fn validate_schedule(spec: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let text = spec.field("schedule");
    if text.is_empty() {
        return;
    }
    if let Err(why) = schedule::check(text.str()) {
        text.bad(errors, why);
    }
    if !text.str().contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|old| old.at(&["spec", "schedule"]).str().contains("TZ"));
    if !had_zone {
        text.bad(errors, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if spec.field("timeZone").is_set() {
        text.bad(errors, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn validate_zone(zone: &Cursor, errors: &mut Errors) {
    let Some(text) = zone.opt_str() else { return };
    if text.is_empty() {
        return zone.bad(errors, "timeZone must be nil or non-empty string");
    }
    if !text.split('/').all(is_zone_part) {
        return zone.bad(errors, format!("unknown time zone {text}"));
    }
    if text.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.bad(errors, detail);
    }
    if let Err(why) = schedule::check_zone(text) {
        zone.bad(errors, why);
    }
}

fn is_zone_part(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    !matches!(part, "" | "." | "..")
        && !part.starts_with('-')
        && part.len() <= ZONE_PART_MAX_BYTES
        && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            CronJob,
            "
            apiVersion: batch/v1
            kind: CronJob
            metadata: {name: tick}
            spec:
              schedule: '* * * * *'
              concurrencyPolicy: Allow
              suspend: false
              jobTemplate:
                spec:
                  template:
                    spec:
                      restartPolicy: Never
                      dnsPolicy: ClusterFirst
                      terminationGracePeriodSeconds: 30
                      containers:
                      - {name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File}
            ",
        )
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("spec: {timeZone: Europe/Berlin}", ""),
            (
                "spec: {schedule: '', startingDeadlineSeconds: -1, concurrencyPolicy: Some, successfulJobsHistoryLimit: -1, failedJobsHistoryLimit: -1}",
                r#"spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
                   spec.concurrencyPolicy: Unsupported value: "Some": supported values: "Allow", "Forbid", "Replace"
                   spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0
                   spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0
                   spec.schedule: Required value"#,
            ),
            (
                "spec: {jobTemplate: {spec: {selector: {matchLabels: {a: b}}, manualSelector: true}}}",
                r#"spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated
                   spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
            ),
            (
                &format!("metadata: {{name: {}}}", "a".repeat(53)),
                &format!(r#"metadata.name: Invalid value: "{}": must be no more than 52 characters"#, "a".repeat(53)),
            ),
        ]);
    }

    #[test]
    fn zones_are_checked() {
        check().create(&[
            ("spec: {timeZone: ''}", r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#),
            ("spec: {timeZone: Nope}", r#"spec.timeZone: Invalid value: "Nope": unknown time zone Nope"#),
            ("spec: {timeZone: ../x}", r#"spec.timeZone: Invalid value: "../x": unknown time zone ../x"#),
            (
                "spec: {timeZone: LOCAL}",
                r#"spec.timeZone: Invalid value: "LOCAL": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones
                   spec.timeZone: Invalid value: "LOCAL": unknown time zone LOCAL"#,
            ),
            (
                "spec: {schedule: 'TZ=UTC * * * * *'}",
                r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#,
            ),
        ]);
        let zoned = "spec: {schedule: 'TZ=UTC * * * * *'}";
        check().update(&[
            (zoned, zoned, ""),
            ("spec: {timeZone: Old/Zone}", "spec: {timeZone: Old/Zone}", ""),
            (
                zoned,
                "spec: {schedule: 'TZ=UTC * * * * *', timeZone: UTC}",
                r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule"#,
            ),
        ]);
    }

    #[test]
    fn cells_show_the_schedule() {
        check().cells(&[
            ("", "tick * * * * * <none> False 0 <none> <unknown> c i <none>"),
            (
                "{spec: {suspend: true, timeZone: UTC}, status: {active: [{name: a}], lastScheduleTime: '2023-11-14T22:13:15Z'}}",
                "tick * * * * * UTC True 1 5s <unknown> c i <none>",
            ),
        ]);
    }
}
