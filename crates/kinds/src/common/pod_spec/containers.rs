//! Containers: regular ones, init containers and sidecars, ephemeral ones.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names};

use super::{Scope, env, mounts, ports, probes, resources, restart, security, visit};
use crate::common::checks::Checks;

pub const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

pub fn regular(containers: &Cursor, scope: &Scope, errors: &mut Errors) {
    if containers.is_empty() {
        return containers.required(errors, "");
    }
    let mut seen = BTreeSet::new();
    for container in containers.each() {
        common(&container, scope, errors);
        let name = container.field("name");
        if !seen.insert(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        probes::validate(&container, scope, errors);
        restart::of_container(&container, scope, errors);
    }
    ports::host_conflicts(containers.each(), errors);
}

pub fn init(spec: &Cursor, scope: &Scope, errors: &mut Errors) {
    let containers = spec.field("initContainers");
    let mut seen: BTreeSet<&str> = names_in(spec.value(), "containers").collect();
    for container in containers.each() {
        common(&container, scope, errors);
        restart::of_init_container(&container, scope, errors);
        let name = container.field("name");
        if seen.contains(name.str()) {
            errors.duplicate(name.path(), name.str());
        } else if !name.str().is_empty() {
            seen.insert(name.str());
        }
        // Init containers run one by one, so each has the host's ports to itself. Upstream checks a list of this one
        // container, whose index is always 0.
        let alone = Cursor::new(container.value(), containers.path().index(0));
        ports::host_conflicts(std::iter::once(alone), errors);
        if visit::is_sidecar(container.value()) {
            probes::validate(&container, scope, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                let field = container.field(field);
                if field.is_set() {
                    field.forbidden(errors, "may not be set for init containers without restartPolicy=Always");
                }
            }
        }
        restart::init_resize_policies(&container, scope, errors);
    }
}

pub fn ephemeral(spec: &Cursor, scope: &Scope, errors: &mut Errors) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    /// Debugging tools are no part of the workload, so they have no part in how it is run.
    const FORBIDDEN: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    let others: BTreeSet<&str> =
        ["containers", "initContainers"].iter().flat_map(|list| names_in(spec.value(), list)).collect();
    let mut seen = others.clone();
    for container in spec.field("ephemeralContainers").each() {
        common(&container, scope, errors);
        image_of_pod(&container, errors);
        let (name, target) = (container.field("name"), container.field("targetContainerName"));
        if !seen.insert(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        if !target.str().is_empty() && !others.contains(target.str()) {
            target.not_found(errors);
        }
        for name in FORBIDDEN {
            let field = container.field(name);
            if is_used(name, field.value()) {
                field.forbidden(errors, WHY);
            }
        }
        for mount in container.field("volumeMounts").each() {
            for path in ["subPath", "subPathExpr"].map(|field| mount.field(field)) {
                if !path.str().is_empty() {
                    path.forbidden(errors, WHY);
                }
            }
        }
    }
}

/// Whether a field is set, also to an empty value. `resources` is always set, and counts only if it is not empty.
fn is_used(field: &str, value: &Value) -> bool {
    match value {
        Value::Map(map) if field == "resources" => map.values().any(|value| !value.is_null()),
        value => !value.is_null(),
    }
}

fn names_in<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    spec.list_at(&[list]).iter().map(|container| container.str_at(&["name"]))
}

/// What all containers have to keep to.
fn common(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let name = container.field("name");
    if name.require(errors) {
        name.check(errors, names::dns1123_label);
    }
    container.field("image").require(errors);
    let policy = container.field("terminationMessagePolicy");
    policy.require_one_of(errors, &["File", "FallbackToLogsOnError"]);
    ports::validate(&container.field("ports"), errors);
    env::validate(&container.field("env"), scope.options, errors);
    env::from(&container.field("envFrom"), scope.options, errors);
    mounts::validate(container, scope, errors);
    mounts::devices(container, scope, errors);
    container.field("imagePullPolicy").require_one_of(errors, &PULL_POLICIES);
    resources::of_container(container, scope, errors);
    restart::resize_policies(&container.field("resizePolicy"), scope, errors);
    security::of_container(container, scope, errors);
}

/// Templates may have blanks around an image, pods may not.
pub fn image_of_pod(container: &Cursor, errors: &mut Errors) {
    let image = container.field("image");
    if image.str().trim() != image.str() {
        image.bad(errors, "must not have leading or trailing whitespace");
    }
}
