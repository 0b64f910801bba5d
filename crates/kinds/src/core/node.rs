//! Nodes: the machines pods run on. Kubelets register them with a status, which other kinds do not allow.

mod annotations;
mod cells;
mod config;

use std::collections::BTreeSet;

use object::{BadValue, Cursor, ErrorType, Errors, FieldError, Path, Value, names};
use registry::{Context, Facts, FieldRefusal, Strategy};

use super::address;
use crate::common::checks::{Checks, same};
use crate::common::{internal, resources};

const DECLARED_FEATURE_MAX_BYTES: usize = 253;
const DISABLE_PREEMPTION_MAX: usize = 20;

pub struct Node;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    keeps_status_on_create: true,
    selectable_fields: object::strs!["spec.unschedulable"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Strategy for Node {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if object.at(&["status", "allocatable"]).is_null() {
            allocate_everything(object);
        }
        unite_pod_cidrs(object);
    }

    /// An empty list is none once it is stored, and none means everything.
    fn canonicalize(&self, object: &mut Value) {
        if object.at(&["status", "allocatable"]).is_empty() {
            allocate_everything(object);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        object.remove(&["spec", "configSource"]);
        object.remove(&["status", "config"]);
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if old.at(&["spec", "configSource"]).is_null() {
            new.remove(&["spec", "configSource"]);
        }
        drop_disabled(cx, new, old);
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if old.at(&["status", "config"]).is_null() {
            new.remove(&["status", "config"]);
        }
        let in_user_namespace = ["status", "nodeInfo", "runningInUserNamespace"];
        if !cx.features.enabled("KubeletInUserNamespace") && old.at(&in_user_namespace).is_null() {
            new.remove(&in_user_namespace);
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_node(cx, object, errors);
        validate_preemption_policy(&object.at(&["spec", "podPreemptionPolicy"]), None, cx, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_node(cx, new, errors);
        validate_change(new, old, errors);
        let path = ["spec", "podPreemptionPolicy"];
        validate_preemption_policy(&new.at(&path), Some(old.at(&path).value()), cx, errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_change(new, old, errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if !object.at(&["spec", "configSource"]).is_null() {
            warnings.push("spec.configSource: the feature is removed".to_string());
        }
        if !object.str_at(&["spec", "externalID"]).is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_string());
        }
        let networks = Cursor::root(object).at(&["spec", "podCIDRs"]).each();
        warnings.extend(networks.flat_map(|cidr| names::cidr_warnings(&cidr.path().to_string(), cidr.str())));
        warnings
    }

    fn select_field(&self, object: &Value, _field: &str) -> String {
        object.at(&["spec", "unschedulable"]).as_bool().unwrap_or(false).to_string()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        cells::cells(cx, object)
    }
}

/// A node that does not say otherwise gives all it has.
fn allocate_everything(object: &mut Value) {
    let capacity = object.at(&["status", "capacity"]);
    if !capacity.is_empty() {
        let capacity = capacity.clone();
        object.set(&["status", "allocatable"], capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`; where an old client sets only the one, or they disagree, it is the one that counts.
fn unite_pod_cidrs(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    let single = spec.str_at(&["podCIDR"]).to_string();
    let first = spec.list_at(&["podCIDRs"]).first().and_then(Value::as_str).map(str::to_string);
    match first {
        Some(first) if single.is_empty() => spec.set(&["podCIDR"], first),
        Some(first) if first == single => {}
        None if single.is_empty() => {}
        _ => spec.set(&["podCIDRs"], vec![single]),
    }
}

/// Takes away fields of features that are off, unless the old node has them.
fn drop_disabled(cx: &Context, node: &mut Value, old: &Value) {
    let on = |feature: &str| cx.features.enabled(feature);
    if !on("RecursiveReadOnlyMounts") && !on("UserNamespacesSupport") {
        node.remove(&["status", "runtimeHandlers"]);
    }
    for (feature, path) in [
        ("SupplementalGroupsPolicy", ["status", "features"]),
        ("NodeDeclaredFeatures", ["status", "declaredFeatures"]),
        ("InPlacePodVerticalScalingSchedulerPreemption", ["spec", "podPreemptionPolicy"]),
    ] {
        if !on(feature) && old.at(&path).is_null() {
            node.remove(&path);
        }
    }
}

fn validate_node(cx: &Context, node: &Cursor, errors: &mut Errors) {
    annotations::validate(node.value(), errors);
    // Upstream reports taints, and swap below, as if they stood in the metadata.
    let metadata = Path::of("metadata");
    validate_taints(&Cursor::new(node.at(&["spec", "taints"]).value(), metadata.field("taints")), errors);
    validate_resources(node, errors);
    let swap = node.at(&["status", "nodeInfo", "swap", "capacity"]);
    if swap.opt_int().is_some_and(|capacity| capacity <= 0) {
        let path = metadata.field("nodeSwapStatus").field("capacity");
        errors.invalid(&path, swap.value().clone(), "must be greater than zero");
    }
    validate_declared_features(&node.at(&["status", "declaredFeatures"]), errors);
    validate_pod_cidrs(cx, &node.at(&["spec", "podCIDRs"]), errors);
}

fn validate_pod_cidrs(cx: &Context, networks: &Cursor, errors: &mut Errors) {
    for cidr in networks.each() {
        address::legacy_cidr(cx, &cidr, cidr.str(), &address::Known::new(), errors);
    }
    if networks.len() < 2 {
        return;
    }
    let parsed: Vec<_> = networks.strs().map(names::parse_cidr_sloppy).collect();
    let bad = networks.strs().enumerate().find(|(_, cidr)| names::parse_cidr_sloppy(cidr).is_none());
    if let Some((index, cidr)) = bad {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidr})"
        );
        errors.internal(networks.path(), detail);
    }
    let is_v4 = |wanted: bool| parsed.iter().flatten().any(|cidr| cidr.address.to_canonical().is_ipv4() == wanted);
    let is_dual_stack = bad.is_none() && is_v4(true) && is_v4(false);
    if !is_dual_stack || networks.len() > 2 {
        networks.invalid(errors, "may specify no more than one CIDR for each IP family");
    }
}

/// Taints, in the spec or in the annotation that came before it.
fn validate_taints(taints: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for taint in taints.each() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        key.check(errors, names::label_key);
        let messages = names::label_value(value.str());
        if !messages.is_empty() {
            value.bad(errors, messages.join(";"));
        }
        effect.require_one_of(errors, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        if !seen.insert((effect.str(), key.str())) {
            let detail = "taints must be unique by key and effect pair";
            errors.push(FieldError::new(
                ErrorType::Duplicate,
                taint.path(),
                internal::shown("Taint", taint.value()),
                detail,
            ));
        }
    }
}

fn validate_resources(node: &Cursor, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in node.at(&["status", list]).entries() {
            let path = node.at(&["status", list]).path().field(name);
            resources::amount(name, &Cursor::new(amount.value(), path), errors);
        }
    }
}

fn validate_declared_features(features: &Cursor, errors: &mut Errors) {
    for (index, feature) in features.each().enumerate() {
        let name = feature.str();
        if name.len() > DECLARED_FEATURE_MAX_BYTES {
            feature.bad(
                errors,
                format!(
                    "invalid feature name {}: must be no more than {DECLARED_FEATURE_MAX_BYTES} characters",
                    object::quote(name)
                ),
            );
        } else if !is_feature_name(name) {
            let detail = format!(
                "invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                object::quote(name)
            );
            feature.bad(errors, detail);
        }
        let next = features.index(index + 1);
        match next.opt_str() {
            Some(after) if after == name => next.duplicate(errors),
            Some(after) if name > after => next.bad(errors, "list must be sorted alphabetically"),
            _ => {}
        }
    }
}

/// `UpperCamelCase` segments, of which all but the first may start in lower case.
fn is_feature_name(name: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphabetic()) && segment.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment)
}

/// What an update of the node or of its status may not do.
fn validate_change(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    annotations::validate(new.value(), errors);
    validate_resources(new, errors);
    validate_declared_features(&new.at(&["status", "declaredFeatures"]), errors);
    let mut addresses = BTreeSet::new();
    for address in new.at(&["status", "addresses"]).each() {
        if !addresses.insert((address.field("type").str(), address.field("address").str())) {
            errors.duplicate(address.path(), internal::shown("NodeAddress", address.value()));
        }
    }
    validate_fixed_fields(new, old, errors);
    config::validate_spec(&new.at(&["spec", "configSource"]), errors);
    config::validate_status(&new.at(&["status", "config"]), errors);
    let taints = Cursor::new(new.at(&["spec", "taints"]).value(), Path::of("metadata.taints"));
    validate_taints(&taints, errors);
    if new.at(&["spec", "externalID"]).str() != old.at(&["spec", "externalID"]).str() {
        new.at(&["spec", "externalID"]).forbidden(errors, "may not be updated");
    }
}

/// Fields that may be set once.
fn validate_fixed_fields(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (now, before) = (new.at(&["spec", "podCIDRs"]), old.at(&["spec", "podCIDRs"]));
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    if !before.is_empty() && before.len() != now.len() {
        now.forbidden(errors, detail);
    } else {
        for _ in before.strs().zip(now.strs()).filter(|(before, now)| before != now) {
            now.forbidden(errors, detail);
        }
    }
    let (now, before) = (new.at(&["spec", "providerID"]), old.at(&["spec", "providerID"]));
    if before.str().is_empty() || before.str() == now.str() {
        return;
    }
    let detail =
        if now.str().is_empty() { "field cannot be cleared once set" } else { "field cannot be modified once set" };
    errors.invalid(now.path(), BadValue::Value(Value::Null), detail);
}

/// A policy that did not change is left alone, whatever it says.
fn validate_preemption_policy(policy: &Cursor, old: Option<&Value>, cx: &Context, errors: &mut Errors) {
    if !policy.is_set() || old.is_some_and(|old| same(old, policy.value())) {
        return;
    }
    if !cx.features.enabled("InPlacePodVerticalScalingSchedulerPreemption") {
        return policy.forbidden(errors, "");
    }
    let names_list = policy.field("disableResizePreemption");
    if names_list.len() > DISABLE_PREEMPTION_MAX {
        return errors.too_many(names_list.path(), names_list.len(), DISABLE_PREEMPTION_MAX);
    }
    for name in names_list.each() {
        name.check(errors, names::label_key);
    }
    let mut seen = BTreeSet::new();
    for name in names_list.each().filter(|name| !seen.insert(name.str())) {
        name.duplicate(errors);
    }
}

#[cfg(test)]
mod tests;
