//! What an update of a pod may change, which is next to nothing.

use std::collections::BTreeMap;

use object::{Cursor, Errors, Path, Value, names};

use super::metadata_and_spec;
use crate::common::checks::Checks;
use crate::common::pod_spec::visit::change_each;
use crate::common::pod_spec::{PodValidationOptions, annotations, containers, tolerations};
use crate::common::{diff, internal, named};

const NODE_AFFINITY: [&str; 2] = ["affinity", "nodeAffinity"];
const REQUIRED_TERMS: [&str; 2] = ["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
const MAY_CHANGE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                          `spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn validate(new: &Cursor, old: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    metadata_and_spec(new, options, errors);
    let (spec, old_spec) = (new.field("spec"), old.field("spec").value());
    let old_annotations = old.at(&["metadata", "annotations"]);
    annotations::validate_update(
        &new.at(&["metadata", "annotations"]),
        old_annotations.value(),
        &spec,
        options,
        errors,
    );
    for list in ["containers", "initContainers"] {
        if !images(&spec.field(list), old_spec.list_at(&[list]).len(), errors) {
            return;
        }
    }
    if !deadline(&spec.field("activeDeadlineSeconds"), old_spec, errors) {
        return;
    }
    tolerations::only_added(&spec.field("tolerations"), old_spec.field("tolerations"), options, errors);
    gates_only_removed(&spec.field("schedulingGates"), old_spec, errors);
    let munged = without_changes(&spec, old_spec, errors);
    if !internal::same("PodSpec", &munged, old_spec) {
        let difference = diff::unified(&internal::pretty("PodSpec", old_spec), &internal::pretty("PodSpec", &munged));
        spec.forbidden(errors, format!("pod updates may not change fields other than {MAY_CHANGE}\n{difference}"));
    }
}

/// Images may change, containers may not come and go. False ends the checks.
fn images(list: &Cursor, old_length: usize, errors: &mut Errors) -> bool {
    if list.len() != old_length {
        list.forbidden(errors, "pod updates may not add or remove containers");
        return false;
    }
    for container in list.each() {
        container.field("image").require(errors);
        containers::image_of_pod(&container, errors);
    }
    true
}

/// A deadline may be set and brought forward. False ends the checks.
fn deadline(deadline: &Cursor, old_spec: &Value, errors: &mut Errors) -> bool {
    let before = old_spec.field("activeDeadlineSeconds").as_int();
    match (deadline.opt_int(), before) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            deadline.invalid(errors, names::inclusive_range_error(0, i64::from(i32::MAX)));
            false
        }
        (Some(now), Some(before)) if before < now => {
            deadline.invalid(errors, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            deadline.invalid(errors, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn gates_only_removed(gates: &Cursor, old_spec: &Value, errors: &mut Errors) {
    let old = named::names(old_spec.list_at(&["schedulingGates"]));
    let added: BTreeMap<&str, Cursor> =
        gates.each().map(|gate| (gate.field("name").str(), gate)).filter(|(name, _)| !old.contains(name)).collect();
    for (name, gate) in added {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        gate.field("name").forbidden(errors, detail);
    }
}

/// The new spec with everything that may change put back. Gated pods may also narrow down their nodes.
fn without_changes(spec: &Cursor, old: &Value, errors: &mut Errors) -> Value {
    let mut munged = spec.value().clone();
    for list in ["containers", "initContainers"] {
        let mut before = old.list_at(&[list]).iter();
        change_each(&mut munged, list, |container| {
            container.keep(&["image"], before.next().unwrap_or(&Value::Null));
        });
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        munged.keep(&[field], old);
    }
    const GRACE: [&str; 1] = ["terminationGracePeriodSeconds"];
    if old.at(&GRACE).as_int().is_some_and(|seconds| seconds < 0) && munged.at(&GRACE).as_int() == Some(1) {
        munged.keep(&GRACE, old);
    }
    if !old.list_at(&["schedulingGates"]).is_empty() {
        node_selector(&mut munged, spec, old, errors);
        node_affinity(&mut munged, spec, old, errors);
    }
    munged
}

fn node_selector(munged: &mut Value, spec: &Cursor, old: &Value, errors: &mut Errors) {
    let (new, before) = (spec.field("nodeSelector"), old.field("nodeSelector"));
    let kept = |(key, value): (&str, &Value)| new.value().field(key) == value;
    if !before.as_map().is_none_or(|before| before.iter().all(kept)) {
        new.invalid(errors, "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
    }
    munged.keep(&["nodeSelector"], old);
}

fn node_affinity(munged: &mut Value, spec: &Cursor, old: &Value, errors: &mut Errors) {
    let (new, before) = (spec.at(&NODE_AFFINITY), old.at(&NODE_AFFINITY));
    if internal::same("*NodeAffinity", new.value(), before) {
        return;
    }
    only_narrowed(&new, before, errors);
    let affinity = munged.field("affinity");
    let only_nodes = affinity.field("podAffinity").is_null() && affinity.field("podAntiAffinity").is_null();
    if old.field("affinity").is_null() && only_nodes {
        munged.remove(&["affinity"]);
    } else {
        munged.keep(&NODE_AFFINITY, old);
    }
}

/// Terms that are required may not come or go, only get more requirements.
fn only_narrowed(affinity: &Cursor, old: &Value, errors: &mut Errors) {
    let (new_terms, old_terms) = (affinity.at(&REQUIRED_TERMS), old.at(&REQUIRED_TERMS));
    let old_terms = old_terms.as_list().unwrap_or(&[]);
    if old_terms.is_empty() {
        return;
    }
    if old_terms.len() != new_terms.len() {
        let shown = internal::shown("[]NodeSelectorTerm", new_terms.value());
        return new_terms.invalid_as(
            errors,
            shown,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
    }
    for (new, old) in new_terms.each().zip(old_terms) {
        if !has_only_additions(new.value(), old) {
            let shown = internal::shown("NodeSelectorTerm", new.value());
            new.invalid_as(errors, shown, "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn has_only_additions(new: &Value, old: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| LISTS.iter().all(|list| term.list_at(&[list]).is_empty());
    // A term without requirements matches nothing; requirements would make it match something.
    if is_empty(old) && !is_empty(new) {
        return false;
    }
    LISTS.iter().all(|list| {
        let (new, old) = (new.list_at(&[list]), old.list_at(&[list]));
        let same = |(a, b): (&Value, &Value)| internal::same("NodeSelectorRequirement", a, b);
        new.len() >= old.len() && new.iter().zip(old).all(same)
    })
}

/// The error for things that pods run by kubelets themselves cannot do; it replaces all others.
pub fn refuse(errors: &mut Errors, why: &str) {
    *errors = Errors::new();
    errors.forbidden(&Path::root().key(""), why);
}
