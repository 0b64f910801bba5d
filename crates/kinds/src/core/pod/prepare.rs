//! What the server fills in and takes away before a pod is checked.

use object::{Timestamp, Value, value};
use registry::Context;

use super::levels;
use crate::common::pod_spec::visit::{change_containers, change_each, container_values};
use crate::common::pod_spec::{affinity, annotations, drop_disabled, security, usage, warnings};
use crate::common::{conditions, internal};

const APPARMOR: [&str; 2] = ["securityContext", "appArmorProfile"];

pub fn create(cx: &Context, pod: &mut Value) {
    cx.warn(apparmor_warnings(pod));
    pod.set(&["status"], value!({"phase": "Pending"}));
    drop_disabled(cx, pod, None);
    gated_condition(cx.now, pod);
    merge_label_keys(cx, pod);
    apparmor_fields(pod);
    if cx.features.enabled("H2CContainerProbe")
        && let Some(spec) = pod.get_mut("spec")
    {
        change_containers(spec, default_http_protocol);
    }
    if let Some(spec) = pod.get_mut("spec") {
        levels::default(cx, spec);
    }
    let class = usage::qos_class(cx.features, pod.field("spec"));
    pod.set(&["status", "qosClass"], class);
}

pub fn update(cx: &Context, new: &mut Value, old: &Value) {
    levels::keep(cx, new, old);
    drop_disabled(cx, new, Some(old));
}

/// A pod with scheduling gates says so.
fn gated_condition(now: Timestamp, pod: &mut Value) {
    if !pod.list_at(&["spec", "schedulingGates"]).is_empty() {
        let condition = value!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        set_condition(now, pod, condition);
    }
}

/// Sets a condition of a pod.
pub fn set_condition(now: Timestamp, pod: &mut Value, condition: Value) {
    conditions::set(now, pod.slot(&["status", "conditions"]), condition);
}

/// Label keys become requirements that the pod's own labels meet or do not, so that schedulers need only the selectors.
fn merge_label_keys(cx: &Context, pod: &mut Value) {
    let labels = pod.at(&["metadata", "labels"]).clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    affinity::change_pod_terms(spec, |term| {
        merge_keys(term, "matchLabelKeys", "In", &labels);
        merge_keys(term, "mismatchLabelKeys", "NotIn", &labels);
    });
    let merges = ["MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge"];
    if merges.iter().all(|gate| cx.features.enabled(gate)) {
        change_each(spec, "topologySpreadConstraints", |constraint| {
            merge_keys(constraint, "matchLabelKeys", "In", &labels);
        });
    }
}

/// A selector that is not there matches nothing, and stays so.
fn merge_keys(owner: &mut Value, field: &str, operator: &str, labels: &Value) {
    let keys = owner.list_at(&[field]).iter().filter_map(Value::as_str);
    let requirements: Vec<Value> = keys
        .filter_map(|key| Some((key, labels.field(key).as_str()?)))
        .map(|(key, label)| value!({"key": key, "operator": operator, "values": [label]}))
        .collect();
    if !requirements.is_empty() && !owner.field("labelSelector").is_null() {
        owner.slot(&["labelSelector", "matchExpressions"]).make_list().extend(requirements);
    }
}

/// Kubelets read fields, so AppArmor annotations become fields.
fn apparmor_fields(pod: &mut Value) {
    if is_windows(pod) {
        return;
    }
    let annotations = pod.at(&["metadata", "annotations"]).clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    let of_pod = spec.at(&APPARMOR).clone();
    change_containers(spec, |container| {
        let profile = annotated_profile(&annotations, container);
        if !profile.is_null() && !internal::same("*AppArmorProfile", &profile, &of_pod) {
            container.set(&APPARMOR, profile);
        }
    });
}

/// The profile that the annotation of a container without a field stands for; null if there is none or it is no good.
fn annotated_profile(annotations: &Value, container: &Value) -> Value {
    let key = format!("{}{}", annotations::APPARMOR_CONTAINER, container.str_at(&["name"]));
    let Some(annotation) = annotations.field(&key).as_str().filter(|_| container.at(&APPARMOR).is_null()) else {
        return Value::Null;
    };
    let profile = annotations::apparmor_profile_of(annotation);
    let mut errors = object::Errors::new();
    security::apparmor_profile(&object::Cursor::root(&profile), &mut errors);
    if errors.is_empty() { profile } else { Value::Null }
}

/// A warning for each annotation that [`create`] will turn into a field, or that stands for none.
fn apparmor_warnings(pod: &Value) -> Vec<String> {
    if is_windows(pod) {
        return Vec::new();
    }
    let (spec, annotations) = (pod.field("spec"), pod.at(&["metadata", "annotations"]));
    let mut all = Vec::new();
    for container in container_values(spec).filter(|container| container.at(&APPARMOR).is_null()) {
        let key = format!("{}{}", annotations::APPARMOR_CONTAINER, container.str_at(&["name"]));
        if annotations.field(&key).is_null() {
            continue;
        }
        let profile = annotated_profile(annotations, container);
        if profile.is_null() || !internal::same("*AppArmorProfile", &profile, spec.at(&APPARMOR)) {
            all.push(format!("metadata.annotations[{key}]: {}", warnings::USE_APPARMOR_FIELD));
        }
    }
    all
}

fn is_windows(pod: &Value) -> bool {
    pod.str_at(&["spec", "os", "name"]) == "windows"
}

fn default_http_protocol(container: &mut Value) {
    let handlers: [&[&str]; 5] = [
        &["livenessProbe", "httpGet"],
        &["readinessProbe", "httpGet"],
        &["startupProbe", "httpGet"],
        &["lifecycle", "postStart", "httpGet"],
        &["lifecycle", "preStop", "httpGet"],
    ];
    for path in handlers {
        if let Some(action) = container.at_mut(path).filter(|action| !action.is_null()) {
            action.set_default(&["protocol"], "HTTP1");
        }
    }
}

/// Puts back the metadata that only writes to the object itself may change.
pub fn keep_metadata(new: &mut Value, old: &Value) {
    for field in
        ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"]
    {
        new.keep(&["metadata", field], old);
    }
}
