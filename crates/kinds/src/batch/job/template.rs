//! A job's pod template: the labels its pods are found by, and what may change while it is suspended.

use object::{Cursor, Errors, Map, Meta, Value, names};
use registry::Context;

use super::{CONTROLLER_UID, JOB_NAME, TEMPLATE, is_true, spec};
use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::versioned::{self, LABEL_SELECTOR};
use crate::common::{internal, pod_template, selector};

/// A selector that clients did not write must be the one that is generated, and the template must have its labels.
pub fn has_generated_selector(job: &Cursor, errors: &mut Errors) {
    let selected = job.at(&["spec", "selector"]);
    if job.at(&["spec", "manualSelector"]).bool() || !selected.is_set() {
        return;
    }
    let (uid, name) = (job.value().uid(), job.value().name());
    if uid.is_empty() {
        job.at(&["metadata", "uid"]).required(errors, "");
    }
    let labels = job.at(&["spec", "template", "metadata", "labels"]);
    let expected = [(CONTROLLER_UID[0], uid), (JOB_NAME[0], name), (CONTROLLER_UID[1], uid), (JOB_NAME[1], name)];
    for (key, value) in expected {
        let label = labels.key(key);
        match label.opt_str() {
            None => label.required(errors, format!("must be '{value}'")),
            Some(actual) if actual != value => {
                label.invalid_as(errors, labels.value().clone(), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let mut pod = Value::map();
    pod.set(&["metadata", "labels"], expected.into_iter().collect::<Map>());
    if selector::compile(selected.value()).is_ok_and(|compiled| !selector::selects(&compiled, &pod)) {
        let shown = versioned::shown(LABEL_SELECTOR, selected.value());
        selected.invalid_as(errors, shown, "`selector` not auto-generated");
    }
}

/// Pods of an indexed job have their index in their hostname.
pub fn name_allows_completions(job: &Cursor, errors: &mut Errors) {
    let completions = job.at(&["spec", "completions"]).int();
    if !spec::is_indexed(job.field("spec").value()) || completions <= 0 {
        return;
    }
    let name = job.at(&["metadata", "name"]);
    let longest = format!("{}-{}", name.str(), completions - 1);
    if !names::dns1123_label(&longest).is_empty() {
        name.bad(errors, format!("will not able to create pod with invalid DNS label: {longest}"));
    }
}

/// Checks the spec of a job against what it was.
pub fn validate_update(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let mut options = pod_template::options(cx, new.at(&TEMPLATE).value(), Some(old.at(&TEMPLATE).value()));
    options.allow_invalid_selector_values |= selector::has_invalid_value(old.at(&["spec", "selector"]).value());
    let (new, old_spec) = (new.field("spec"), old.field("spec"));
    spec::validate_with_selector(&new, &options, errors);
    completions_stay(&new, &old_spec, errors);
    let selected = new.field("selector");
    if !versioned::same(LABEL_SELECTOR, selected.value(), old_spec.field("selector").value()) {
        selected.invalid_as(errors, versioned::shown(LABEL_SELECTOR, selected.value()), IMMUTABLE);
    }
    template_stays(cx, &new, old.value(), errors);
    let fixed: [(&str, &'static str); 5] = [
        ("completionMode", "*string"),
        ("podFailurePolicy", "*PodFailurePolicy"),
        ("backoffLimitPerIndex", "*int"),
        ("managedBy", "*string"),
        ("successPolicy", "*SuccessPolicy"),
    ];
    for (name, of) in fixed {
        let (field, old) = (new.field(name), old_spec.field(name));
        if !internal::same(of, field.value(), old.value()) {
            field.invalid_as(errors, internal::shown(of, field.value()), IMMUTABLE);
        }
    }
    scheduling_stays(&new, &old_spec, errors);
}

/// The completions of an indexed job may grow and shrink with its parallelism.
fn completions_stay(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let completions = new.field("completions");
    if completions.value() == old.field("completions").value() {
        return;
    }
    if !spec::is_indexed(new.value()) {
        completions.invalid(errors, IMMUTABLE);
    } else if completions.is_set() && completions.int() != new.field("parallelism").int() {
        completions.invalid(errors, "can only be modified in tandem with spec.parallelism");
    }
}

fn scheduling_stays(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let path = ["scheduling", "schedulingPolicy"];
    let (new, old) = (new.at(&path), old.at(&path));
    if new.is_set() && old.is_set() && new.field("basic").is_set() != old.field("basic").is_set() {
        let detail = "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may \
                      be updated";
        new.invalid_as(errors, Value::Null, detail);
    }
}

/// Where and with what pods run may change while none of them does.
fn template_stays(cx: &Context, new: &Cursor, old_job: &Value, errors: &mut Errors) {
    let template = new.field("template");
    let mut old = old_job.at(&TEMPLATE).clone();
    let suspended = old_job.at(&["spec", "suspend"]).as_bool().unwrap_or(false);
    let not_started = old_job.at(&["status", "startTime"]).is_null();
    let none_active = old_job.at(&["status", "active"]).as_int().unwrap_or(0) == 0;
    let idle = suspended && (not_started || is_true(old_job, "Suspended")) && none_active;
    let directives = match cx.features.enabled("MutableSchedulingDirectivesForSuspendedJobs") {
        true => idle,
        false => suspended && not_started,
    };
    if directives {
        take_directives(&mut old, template.value());
    }
    if suspended && idle && cx.features.enabled("MutablePodResourcesForSuspendedJobs") {
        take_resources(&mut old, template.value());
        let pod = template.field("spec");
        if !internal::same("PodSpec", pod.value(), old.field("spec")) {
            pod.invalid_as(errors, internal::shown("PodSpec", pod.value()), IMMUTABLE);
        }
    } else if !internal::same("PodTemplateSpec", template.value(), &old) {
        template.invalid_as(errors, internal::shown("PodTemplateSpec", template.value()), IMMUTABLE);
    }
}

/// Copies the fields about node placement from the new template to the old one, so that a comparison ignores them.
fn take_directives(old: &mut Value, new: &Value) {
    let affinity = ["spec", "affinity"];
    let wanted = new.at(&["spec", "affinity", "nodeAffinity"]);
    match (new.at(&affinity).is_null(), old.at(&affinity).is_null()) {
        (true, false) => {
            old.remove(&["spec", "affinity", "nodeAffinity"]);
            if old.at(&affinity).is_empty() {
                old.remove(&affinity);
            }
        }
        (false, true) => {
            old.set(&affinity, Map::new());
            if !wanted.is_null() {
                old.set(&["spec", "affinity", "nodeAffinity"], wanted.clone());
            }
        }
        (false, false) => old.keep(&["spec", "affinity", "nodeAffinity"], new),
        (true, true) => {}
    }
    for path in [["spec", "nodeSelector"], ["spec", "tolerations"], ["spec", "schedulingGates"]] {
        old.keep(&path, new);
    }
    for path in [["metadata", "annotations"], ["metadata", "labels"]] {
        old.keep(&path, new);
    }
}

/// The same for what containers ask for, where the containers are still the same.
fn take_resources(old: &mut Value, new: &Value) {
    for list in ["containers", "initContainers"] {
        let new = new.list_at(&["spec", list]);
        let Some(containers) = old.at_mut(&["spec", list]).and_then(Value::as_list_mut) else { continue };
        if containers.len() != new.len() {
            continue;
        }
        for (container, new) in containers.iter_mut().zip(new) {
            if container.str_at(&["name"]) == new.str_at(&["name"]) {
                container.keep(&["resources"], new);
            }
        }
    }
}
