//! The spec of a job, in a job or in the template of a cron job.

use object::names::Problem;
use object::{Cursor, Errors, Path, Value, names};
use registry::Context;

use super::{failure_policy, success_policy};
use crate::common::checks::Checks;
use crate::common::declared::SCHEDULING;
use crate::common::pod_spec::PodValidationOptions;
use crate::common::{internal, pod_template, selector, versioned};

const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// With more completions than these, what is kept about each index gets too large.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_MAX_FOR_MANY: i64 = 10_000;
const FAILED_INDEXES_MAX_FOR_MANY: i64 = 10_000;
const MANAGED_BY_MAX_BYTES: usize = 63;
const NEEDS_INDEXES: &str = "requires indexed completion mode";

/// Checks a spec with its selector, which only jobs have.
pub fn validate_with_selector(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    validate(spec, options, errors);
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    if selected.is_set() {
        let tolerated = selector::LabelSelectorValidationOptions {
            allow_invalid_values: options.allow_invalid_selector_values,
            ..selector::LabelSelectorValidationOptions::default()
        };
        selector::validate(&selected, tolerated, errors);
    } else {
        selected.required(errors, "");
    }
    if selector::compile(selected.value()).is_ok_and(|compiled| !selector::selects(&compiled, template.value())) {
        template.at(&["metadata", "labels"]).invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Checks everything but the selector.
pub fn validate(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for field in counts {
        spec.field(field).non_negative(errors);
    }
    let per_index = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").is_set() && !per_index.is_set() {
        per_index.required(errors, "when maxFailedIndexes is specified");
    }
    validate_manager(&spec.field("managedBy"), errors);
    validate_mode(spec, errors);
    failure_policy::validate(spec, errors);
    let success = spec.field("successPolicy");
    if success.is_set() {
        if is_indexed(spec.value()) {
            success_policy::validate(spec, errors);
        } else {
            success.invalid_as(errors, internal::shown("SuccessPolicy", success.value()), NEEDS_INDEXES);
        }
    }
    validate_replacement(spec, errors);
    validate_gang(spec, errors);
    validate_disruption(&spec.field("scheduling"), errors);
    pod_template::validate(&spec.field("template"), options, errors);
    validate_restart(spec, errors);
}

/// Whether each of a job's pods has a number.
pub fn is_indexed(spec: &Value) -> bool {
    spec.str_at(&["completionMode"]) == "Indexed"
}

pub fn warnings(cx: &Context, path: &Path, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let number = |field| spec.field(field).as_int().unwrap_or(0);
    let mut warnings = Vec::new();
    let many = number("completions") > MANY_COMPLETIONS && number("parallelism") > PARALLELISM_MAX_FOR_MANY;
    if is_indexed(spec) && many {
        let what = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                    Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        warnings.push(format!("{path}: {what}"));
    }
    let template = path.field("template");
    let old = old.map(|old| old.field("template"));
    warnings.extend(pod_template::warnings(cx, &template, spec.field("template"), old));
    warnings
}

fn validate_manager(manager: &Cursor, errors: &mut Errors) {
    let Some(name) = manager.opt_str() else { return };
    for problem in names::domain_prefixed_path(name) {
        match problem {
            Problem::Required => manager.required(errors, ""),
            Problem::Invalid { value, detail } => manager.invalid_as(errors, value, detail),
            Problem::TooLong { max_bytes } => errors.too_long(manager.path(), max_bytes),
        }
    }
    if name.len() > MANAGED_BY_MAX_BYTES {
        errors.too_long(manager.path(), MANAGED_BY_MAX_BYTES);
    }
}

fn validate_mode(spec: &Cursor, errors: &mut Errors) {
    let mode = spec.field("completionMode");
    if mode.is_set() {
        mode.one_of(errors, &["NonIndexed", "Indexed"]);
    }
    if is_indexed(spec.value()) {
        validate_indexed(spec, errors);
    }
    if matches!(mode.opt_str(), None | Some("NonIndexed")) {
        for field in [spec.field("backoffLimitPerIndex"), spec.field("maxFailedIndexes")] {
            if field.is_set() {
                field.invalid(errors, NEEDS_INDEXES);
            }
        }
    }
}

fn validate_indexed(spec: &Cursor, errors: &mut Errors) {
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    let failed = spec.field("maxFailedIndexes");
    if !completions.is_set() {
        completions.required(errors, "when completion mode is Indexed");
    }
    if parallelism.int() > PARALLELISM_MAX {
        let detail = format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        parallelism.invalid(errors, detail);
    }
    if completions.is_set() && failed.opt_int().is_some_and(|failed| failed > completions.int()) {
        failed.invalid(errors, "must be less than or equal to completions");
    }
    if failed.int() > FAILED_INDEXES_MAX {
        failed.invalid(errors, format!("must be less than or equal to {FAILED_INDEXES_MAX}"));
    }
    if completions.int() <= MANY_COMPLETIONS || !spec.field("backoffLimitPerIndex").is_set() {
        return;
    }
    if !failed.is_set() {
        failed.required(errors, format!("must be specified when completions is above {MANY_COMPLETIONS}"));
    }
    for (field, max) in [(parallelism, PARALLELISM_MAX_FOR_MANY), (failed, FAILED_INDEXES_MAX_FOR_MANY)] {
        if field.int() > max {
            let when = format!("when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
            field.invalid(errors, format!("must be less than or equal to {max} {when}"));
        }
    }
}

fn validate_replacement(spec: &Cursor, errors: &mut Errors) {
    let policy = spec.field("podReplacementPolicy");
    // Pods that are going must be counted as failed before a policy can say what that means.
    if spec.field("podFailurePolicy").is_set() {
        policy.optional_one_of(errors, &["Failed"]);
    } else {
        policy.optional_one_of(errors, &["Failed", "TerminatingOrFailed"]);
    }
}

/// Pods that start together cannot be more than run together.
fn validate_gang(spec: &Cursor, errors: &mut Errors) {
    let least = spec.at(&["scheduling", "schedulingPolicy", "gang", "minCount"]);
    let parallelism = spec.field("parallelism").opt_int().unwrap_or(1);
    if least.opt_int().is_some_and(|least| least > parallelism) {
        least.invalid(errors, format!("must not be greater than parallelism ({parallelism})"));
    }
}

/// Pods that are scheduled one by one are not disrupted all at once.
fn validate_disruption(scheduling: &Cursor, errors: &mut Errors) {
    let mode = scheduling.field("disruptionMode");
    let gang = scheduling.at(&["schedulingPolicy", "gang"]).is_set();
    if mode.field("all").is_set() && !gang {
        mode.invalid_as(errors, "", "the disruptionMode `all` is not supported with the Basic scheduling policy");
    }
}

/// Upstream's declared rules, which come after all others. `old` is the spec that an update finds.
pub fn declared(cx: &Context, spec: &Cursor, old: Option<&Value>, errors: &mut Errors) {
    let scheduling = spec.field("scheduling");
    let before = old.map(|old| old.field("scheduling"));
    let is_same =
        |before| versioned::same("io.k8s.api.batch.v1.JobSchedulingConfiguration", scheduling.value(), before);
    if before.is_some_and(is_same) {
        return;
    }
    if !cx.features.enabled("WorkloadWithJob") {
        if scheduling.is_set() {
            scheduling.forbidden(errors, "");
        }
        return;
    }
    match (before.map(|before| !before.is_null()), scheduling.is_set()) {
        (Some(false), true) => scheduling.invalid_as(errors, Value::Null, "field cannot be set once created"),
        (Some(true), false) => scheduling.invalid_as(errors, Value::Null, "field cannot be cleared once set"),
        (_, true) => SCHEDULING.validate(cx, "JobScheduling", &scheduling, before, errors),
        (_, false) => {}
    }
}

fn validate_restart(spec: &Cursor, errors: &mut Errors) {
    let policy = spec.at(&["template", "spec", "restartPolicy"]);
    match policy.str() {
        "" | "Always" => policy.required(errors, r#"valid values: "OnFailure", "Never""#),
        "Never" => {}
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            policy.invalid(errors, r#"only "Never" is supported when podFailurePolicy is specified"#);
        }
        "OnFailure" => {}
        _ => policy.not_supported(errors, &["OnFailure", "Never"]),
    }
}
