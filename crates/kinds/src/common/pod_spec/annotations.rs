//! Annotations that say something about how a pod runs.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value};

use super::visit::container_values;
use super::{PodValidationOptions, toleration_annotation, visit};
use crate::common::paths;

/// On the API's copy of a pod that a kubelet runs by itself.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";
const RUNTIME_DEFAULT: &str = "runtime/default";
const DOCKER_DEFAULT: &str = "docker/default";
const UNCONFINED: &str = "unconfined";

/// Checks a pod's annotations against its spec.
pub fn validate(annotations: &Cursor, spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").str().is_empty() {
        mirror.invalid(errors, "must set spec.nodeName if mirror pod annotation is set");
    }
    toleration_annotation::validate(annotations, options, errors);
    if !options.allow_invalid_deletion_cost && deletion_cost_is_bad(annotations.value()) {
        annotations.key(DELETION_COST).invalid(errors, "must be a 32bit integer");
    }
    seccomp(annotations, errors);
    apparmor(annotations, spec, errors);
}

/// Whether there is a cost of deletion that is no number as one writes it.
pub fn deletion_cost_is_bad(annotations: &Value) -> bool {
    let Some(cost) = annotations.field(DELETION_COST).as_str() else { return false };
    let canonical_start = match cost.as_bytes() {
        [b'-', ..] | [b'1'..=b'9', ..] => true,
        start => start == b"0",
    };
    !canonical_start || cost.parse::<i32>().is_err()
}

fn seccomp(annotations: &Cursor, errors: &mut Errors) {
    let of_containers = annotations.entries().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER));
    let of_pod = annotations.entries().filter(|(key, _)| *key == SECCOMP_POD);
    for (key, profile) in of_pod.chain(of_containers) {
        let (profile, path) = (profile.str(), annotations.path().field(key));
        if let Some(file) = profile.strip_prefix(LOCALHOST) {
            paths::local_descending(file, &path, errors);
        } else if !matches!(profile, RUNTIME_DEFAULT | DOCKER_DEFAULT | UNCONFINED) {
            errors.invalid(&path, profile, "must be a valid seccomp profile");
        }
    }
}

fn apparmor(annotations: &Cursor, spec: &Cursor, errors: &mut Errors) {
    let containers: BTreeSet<&str> = container_values(spec.value()).map(|c| c.str_at(&["name"])).collect();
    for (key, profile) in annotations.entries() {
        let Some(name) = key.strip_prefix(APPARMOR_CONTAINER) else { continue };
        if !containers.contains(name) {
            profile.invalid_as(errors, name, "container not found");
        }
        let text = profile.str();
        if !matches!(text, "" | RUNTIME_DEFAULT | UNCONFINED) && !text.starts_with(LOCALHOST) {
            profile.invalid(errors, format!("invalid AppArmor profile name: {}", object::quote(text)));
        }
    }
}

/// Where a seccomp profile is both annotated and in its field, they must be the same.
pub fn seccomp_must_match(annotations: &Cursor, spec: &Cursor, errors: &mut Errors) {
    let profile = spec.at(&["securityContext", "seccompProfile"]);
    if let Some(annotation) = annotations.field(SECCOMP_POD).opt_str() {
        must_match("seccomp", annotation, &[RUNTIME_DEFAULT, DOCKER_DEFAULT], profile.value(), &profile, errors);
    }
    for container in visit::containers(spec) {
        let profile = container.at(&["securityContext", "seccompProfile"]);
        let key = format!("{SECCOMP_CONTAINER}{}", container.field("name").str());
        if let Some(annotation) = annotations.field(&key).opt_str() {
            must_match("seccomp", annotation, &[RUNTIME_DEFAULT, DOCKER_DEFAULT], profile.value(), &profile, errors);
        }
    }
}

/// Where an AppArmor profile is both annotated and in a field, they must be the same.
pub fn apparmor_must_match(annotations: &Cursor, spec: &Cursor, errors: &mut Errors) {
    if spec.at(&["os", "name"]).str() == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    for container in visit::containers(spec) {
        let own = container.at(&["securityContext", "appArmorProfile"]);
        let profile = if own.is_set() { own.value() } else { of_pod.value() };
        let key = format!("{APPARMOR_CONTAINER}{}", container.field("name").str());
        if let Some(annotation) = annotations.field(&key).opt_str() {
            must_match("apparmor", annotation, &[RUNTIME_DEFAULT], profile, &own, errors);
        }
    }
}

/// `profile` is what the field says, `at` where upstream reports a difference.
fn must_match(what: &str, annotation: &str, defaults: &[&str], profile: &Value, at: &Cursor, errors: &mut Errors) {
    let same_type = match profile.str_at(&["type"]) {
        "Unconfined" => annotation == UNCONFINED,
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => annotation.starts_with(LOCALHOST),
        _ => return,
    };
    if !same_type {
        at.field("type").forbidden(errors, format!("{what} type in annotation and field must match"));
    } else if let Some(file) = annotation.strip_prefix(LOCALHOST)
        && profile.field("localhostProfile").as_str() != Some(file)
    {
        at.field("localhostProfile").forbidden(errors, format!("{what} profile in annotation and field must match"));
    }
}

/// The AppArmor profile that an annotation stands for, null if it stands for none.
pub fn apparmor_profile_of(annotation: &str) -> Value {
    match annotation.strip_prefix(LOCALHOST) {
        Some("") => Value::Null,
        Some(file) => object::value!({"type": "Localhost", "localhostProfile": file}),
        None if annotation == UNCONFINED => object::value!({"type": "Unconfined"}),
        None if annotation == RUNTIME_DEFAULT => object::value!({"type": "RuntimeDefault"}),
        None => Value::Null,
    }
}

/// What an update may not do to annotations. Upstream then checks the new ones once more.
pub fn validate_update(
    annotations: &Cursor,
    old: &Value,
    spec: &Cursor,
    options: &PodValidationOptions,
    errors: &mut Errors,
) {
    for (key, old_value) in old.as_map().into_iter().flat_map(|map| map.iter()) {
        let new = annotations.key(key);
        if new.value() == old_value {
            continue;
        }
        if key.starts_with(APPARMOR_CONTAINER) {
            new.forbidden(errors, "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            new.forbidden(errors, "may not remove or update mirror pod annotation");
        }
    }
    for (key, new) in annotations.entries().filter(|(key, _)| old.get(key).is_none()) {
        if key.starts_with(APPARMOR_CONTAINER) {
            new.forbidden(errors, "may not add AppArmor annotations");
        }
        if key == MIRROR {
            new.forbidden(errors, "may not add mirror pod annotation");
        }
    }
    validate(annotations, spec, options, errors);
}
