//! Jobs: pods that run until enough of them have succeeded.

mod failure_policy;
mod indexes;
pub mod spec;
mod status;
mod success_policy;
mod template;

use object::duration::Duration;
use object::timestamp::Time;
use object::{Cursor, Errors, Map, Meta, Path, Value};
use registry::{Context, Facts, FieldRefusal, GarbageCollection, Strategy, columns as cells};

use crate::apps::{name_warning, selector_cell};
use crate::common::{columns, pod_template, versioned};

const SPEC: &str = "io.k8s.api.batch.v1.JobSpec";
const TEMPLATE: [&str; 2] = ["spec", "template"];
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];
/// Labels that a job's pods have, with and without the domain they were given later.
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const BACKOFF_LIMIT: i64 = 6;
const PODS_ARE_KEPT: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                             remove them or set propagationPolicy=Orphan to suppress this warning";

pub struct Job;

const FACTS: Facts = Facts {
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    garbage_collection: GarbageCollection::Orphan,
    undecided_warning: Some(PODS_ARE_KEPT),
    selectable_fields: object::strs!["status.successful"],
    selected_paths: Some(object::strs!["status.succeeded"]),
    field_refusal: FieldRefusal::ForKind,
    ..Facts::WITH_STATUS
};

impl Strategy for Job {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if let Some(template) = object.at_mut(&TEMPLATE) {
            pod_template::default(template);
        }
        default_spec(object.slot(&["spec"]));
        let labels = object.at(&TEMPLATE_LABELS).clone();
        if !labels.is_empty() && object.at(&["metadata", "labels"]).is_empty() {
            object.set(&["metadata", "labels"], labels);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if !object.at(&["spec", "manualSelector"]).as_bool().unwrap_or(false) {
            generate_selector(object);
        }
        drop_disabled(cx, object, None);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, Some(old));
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        template::has_generated_selector(object, errors);
        let options = pod_template::options(cx, object.at(&TEMPLATE).value(), None);
        spec::validate_with_selector(&object.field("spec"), &options, errors);
        template::name_allows_completions(object, errors);
        spec::declared(cx, &object.field("spec"), None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        template::validate_update(cx, new, old, errors);
        template::name_allows_completions(new, errors);
        spec::declared(cx, &new.field("spec"), Some(old.field("spec").value()), errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        status::validate_update(new, old, errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let path = Path::of("spec");
        match old {
            Some(old) if old.generation() == object.generation() => Vec::new(),
            Some(old) => spec::warnings(cx, &path, object.field("spec"), Some(old.field("spec"))),
            None => {
                let name = name_warning(object).into_iter();
                name.chain(spec::warnings(cx, &path, object.field("spec"), None)).collect()
            }
        }
    }

    fn select_field(&self, object: &Value, _field: &str) -> String {
        object.at(&["status", "succeeded"]).as_int().unwrap_or(0).to_string()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (containers, images) = columns::containers(object.at(&TEMPLATE).field("spec"));
        vec![
            object.name().into(),
            state(object).into(),
            completions(object).into(),
            duration(cx, object).into(),
            cells::age(cx, object),
            containers.into(),
            images.into(),
            selector_cell(object.at(&["spec", "selector"])),
        ]
    }
}

/// Scheduling of a job's pods as a group is a feature of its own.
pub fn drop_scheduling(cx: &Context, spec: &mut Value, old: Option<&Value>) {
    let in_use = old.is_some_and(|old| !old.field("scheduling").is_null());
    if !in_use && !cx.features.enabled("WorkloadWithJob") {
        spec.remove(&["scheduling"]);
    }
}

fn drop_disabled(cx: &Context, object: &mut Value, old: Option<&Value>) {
    if let Some(spec) = object.get_mut("spec") {
        drop_scheduling(cx, spec, old.map(|old| old.field("spec")));
    }
    if let Some(template) = object.at_mut(&TEMPLATE) {
        pod_template::drop_disabled(cx, template, old.map(|old| old.at(&TEMPLATE)));
    }
}

fn default_spec(spec: &mut Value) {
    if spec.field("completions").is_null() && spec.field("parallelism").is_null() {
        spec.set(&["completions"], 1);
    }
    spec.set_default(&["parallelism"], 1);
    let per_index = !spec.field("backoffLimitPerIndex").is_null();
    spec.set_default(&["backoffLimit"], if per_index { i64::from(i32::MAX) } else { BACKOFF_LIMIT });
    spec.set_default(&["completionMode"], "NonIndexed");
    spec.set_default(&["suspend"], false);
    let has_policy = !spec.field("podFailurePolicy").is_null();
    spec.set_default(&["podReplacementPolicy"], if has_policy { "Failed" } else { "TerminatingOrFailed" });
    spec.set_default(&["manualSelector"], false);
}

/// A job's pods are labelled with its uid, which no other job has, and found by that.
fn generate_selector(object: &mut Value) {
    let (uid, name) = (object.uid().to_string(), object.name().to_string());
    let given = object.at(&TEMPLATE_LABELS).clone();
    let labels = object.slot(&TEMPLATE_LABELS).make_map();
    let add = |labels: &mut Map, keys: [&'static str; 2], value: &str| {
        for key in keys.into_iter().filter(|key| labels.get(key).is_none()).collect::<Vec<_>>() {
            labels.insert(key, value);
        }
    };
    add(labels, JOB_NAME, &name);
    add(labels, CONTROLLER_UID, &uid);
    // Labels that were defaulted from the template's follow the template's.
    let own = object.at(&["metadata", "labels"]);
    if !given.is_empty() && *own == given {
        let labels = object.at(&TEMPLATE_LABELS).clone();
        object.set(&["metadata", "labels"], labels);
    }
    object.set_default(&["spec", "selector", "matchLabels", CONTROLLER_UID[1]], uid);
}

/// Whether a condition of a job is true.
fn is_true(job: &Value, condition: &str) -> bool {
    let conditions = job.list_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == condition && c.str_at(&["status"]) == "True")
}

fn state(job: &Value) -> &'static str {
    // Tables go by the first condition of a type.
    let first = |condition: &str| {
        let conditions = job.list_at(&["status", "conditions"]);
        conditions.iter().find(|c| c.str_at(&["type"]) == condition).is_some_and(|c| c.str_at(&["status"]) == "True")
    };
    match () {
        () if first("Complete") => "Complete",
        () if first("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if first("Suspended") => "Suspended",
        () if first("FailureTarget") => "FailureTarget",
        () if first("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = job.at(&["status", "succeeded"]).as_int().unwrap_or(0);
    let parallelism = job.at(&["spec", "parallelism"]).as_int().unwrap_or(0);
    match job.at(&["spec", "completions"]).as_int() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(cx: &Context, job: &Value) -> String {
    let time = |field| Time::parse(job.str_at(&["status", field])).ok().map(|Time(time)| time);
    let Some(start) = time("startTime") else { return String::new() };
    let taken: Duration = time("completionTime").unwrap_or(cx.now).since(start);
    taken.human()
}

#[cfg(test)]
mod tests;
