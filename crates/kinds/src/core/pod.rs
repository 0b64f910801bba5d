//! Pods.
//!
//! The rules of a pod's spec are in [`crate::common::pod_spec`]; here is what only real pods have: a status, a life,
//! and subresources, of which `ephemeralcontainers` and `resize` change the one thing they are named after.

mod binding;
mod columns;
mod container;
mod ephemeral;
mod eviction;
mod levels;
mod location;
mod prepare;
mod resize;
mod status;
mod status_claims;
mod update;

#[cfg(test)]
mod tests;

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Deletion, Facts, FieldRefusal, Strategy};

use crate::common::internal;
use crate::common::pod_spec::{self, PodValidationOptions, annotations, containers, defaults, warnings};

pub use binding::{bind, validate_binding};
pub use container::{container_for, log_options};
pub use eviction::{Eviction, evict, mark_evicted};
pub use location::{Location, locate, locate_proxy, split_proxy_name};
pub use prepare::set_condition;

pub struct Pod;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    generation: Some(|new, old| !internal::same("PodSpec", new.field("spec"), old.field("spec"))),
    status_resets: &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    deletion: Deletion::Graceful(grace_period),
    returns_deleted_object: true,
    selectable_fields: object::strs![
        "spec.nodeName",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ],
    // Every kubelet lists its own.
    index: Some("spec.nodeName"),
    field_refusal: FieldRefusal::Plain,
    row_conditions: Some(columns::conditions),
    ..Facts::WITH_STATUS
};

impl Strategy for Pod {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, pod: &mut Value) {
        if let Some(spec) = pod.get_mut("spec") {
            pod_spec::default(spec);
            defaults::default_pod(spec);
        }
        status::default_addresses(pod);
    }

    fn prepare_create(&self, cx: &Context, pod: &mut Value) {
        prepare::create(cx, pod);
    }

    fn validate(&self, cx: &Context, pod: &Cursor, errors: &mut Errors) {
        let options = PodValidationOptions { is_pod: true, ..PodValidationOptions::new(cx, pod.value(), None) };
        metadata_and_spec(pod, &options, errors);
        let spec = pod.field("spec");
        let ephemeral = spec.field("ephemeralContainers");
        if !ephemeral.is_empty() {
            ephemeral.forbidden(errors, "cannot be set on create");
        }
        let node = spec.field("nodeName");
        if !node.str().is_empty() && !spec.field("schedulingGates").is_empty() {
            node.forbidden(errors, "cannot be set until all schedulingGates have been cleared");
        }
        let annotations = pod.at(&["metadata", "annotations"]);
        annotations::seccomp_must_match(&annotations, &spec, errors);
        annotations::apparmor_must_match(&annotations, &spec, errors);
    }

    /// Updates of pods come from controllers, which do not show warnings.
    fn warnings(&self, cx: &Context, pod: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut all = Vec::new();
        let problems = names::dns1123_label(pod.name());
        if !problems.is_empty() {
            all.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
                 label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        all.extend(warnings::of_pod(cx, pod));
        all
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        prepare::update(cx, new, old);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        update::validate(new, old, &update_options(cx, new, old), errors);
    }

    fn prepare_subresource(&self, cx: &Context, new: &mut Value, old: &Value) {
        match cx.subresource {
            "ephemeralcontainers" => ephemeral::prepare(cx, new, old),
            "resize" => resize::prepare(cx, new, old),
            _ => {}
        }
    }

    fn validate_subresource(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let options = update_options(cx, new, old);
        match cx.subresource {
            "ephemeralcontainers" => ephemeral::validate(new, old, &options, errors),
            "resize" => resize::validate(cx, new, old, &options, errors),
            _ => {}
        }
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        status::prepare(cx, new, old);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        status::validate(cx, new, old, &update_options(cx, new, old), errors);
    }

    fn status_warnings(&self, _cx: &Context, new: &Value, _old: &Value) -> Vec<String> {
        status::warnings(new)
    }

    fn select_field(&self, pod: &Value, field: &str) -> String {
        let path: Vec<&str> = field.split('.').collect();
        match field {
            // What old clients call the node's name.
            "spec.host" => pod.str_at(&["spec", "nodeName"]).to_string(),
            "spec.hostNetwork" => pod.at(&path).as_bool().unwrap_or(false).to_string(),
            "status.podIP" => {
                let first = pod.list_at(&["status", "podIPs"]).first();
                first.map(|ip| ip.str_at(&["ip"]).to_string()).unwrap_or_default()
            }
            _ => pod.str_at(&path).to_string(),
        }
    }

    fn cells(&self, cx: &Context, pod: &Value) -> Vec<Value> {
        columns::cells(cx, pod)
    }
}

/// The grace period asked for, else the pod's own; none for pods that nothing runs (any more).
fn grace_period(pod: &Value, options: &Value) -> i64 {
    let asked = options.field("gracePeriodSeconds").as_int();
    let own = pod.at(&["spec", "terminationGracePeriodSeconds"]).as_int();
    let idle = pod.str_at(&["spec", "nodeName"]).is_empty()
        || matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded");
    let seconds = if idle { 0 } else { asked.or(own).unwrap_or(0) };
    if seconds < 0 { 1 } else { seconds }
}

fn update_options(cx: &Context, new: &Cursor, old: &Cursor) -> PodValidationOptions {
    PodValidationOptions { is_pod: true, ..PodValidationOptions::new(cx, new.value(), Some(old.value())) }
}

/// What holds for a pod whenever its spec is checked, beyond what holds for templates.
fn metadata_and_spec(pod: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    annotations::validate(&metadata.field("annotations"), &spec, options, errors);
    pod_spec::validate(&spec, Some(&metadata), options, errors);
    if spec.field("serviceAccountName").str().is_empty() {
        let sources = spec.field("volumes").each().flat_map(|volume| volume.at(&["projected", "sources"]).each());
        for token in sources.map(|source| source.field("serviceAccountToken")).filter(Cursor::is_set) {
            token.forbidden(errors, "must not be specified when serviceAccountName is not set");
        }
    }
    spec.field("terminationGracePeriodSeconds").non_negative(errors);
    for container in ["containers", "initContainers"].iter().flat_map(|list| spec.field(list).each()) {
        containers::image_of_pod(&container, errors);
    }
}
