//! Environment variables of containers, and the fields of a pod that they and downward API volumes can show.

use object::quantity::Quantity;
use object::{Cursor, Errors, names};

use super::{PodValidationOptions, visit};
use crate::common::checks::{Checks, report};
use crate::common::{named, paths};

const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What can be shown at all, in variables or files.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub fn validate(variables: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    for variable in variables.each() {
        let name = variable.field("name");
        if name.require(errors) {
            name.check(errors, name_rule(options));
        }
        let source = variable.field("valueFrom");
        if source.is_set() {
            value_from(&source, !variable.field("value").str().is_empty(), options, errors);
        }
    }
}

fn name_rule(options: &PodValidationOptions) -> fn(&str) -> Vec<String> {
    if options.allow_relaxed_env_names { names::relaxed_env_var_name } else { names::env_var_name }
}

fn value_from(source: &Cursor, has_value: bool, options: &PodValidationOptions, errors: &mut Errors) {
    let mut sources = 0;
    let mut with = |field: &str, rule: &dyn Fn(&Cursor, &mut Errors), errors: &mut Errors| {
        let reference = source.field(field);
        if reference.is_set() {
            sources += 1;
            rule(&reference, errors);
        }
    };
    with("fieldRef", &|field, errors| field_reference(field, &VARIABLE_FIELDS, errors), errors);
    with("resourceFieldRef", &|field, errors| resource_reference(field, false, errors), errors);
    with("configMapKeyRef", &key_reference, errors);
    with("secretKeyRef", &key_reference, errors);
    with("fileKeyRef", &file_reference, errors);
    let problem = match sources {
        0 if options.env_files => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    source.invalid_as(errors, "", problem);
}

/// A field of the pod itself; `allowed` are those that can be shown here.
pub fn field_reference(reference: &Cursor, allowed: &[&str], errors: &mut Errors) {
    let (version, field) = (reference.field("apiVersion"), reference.field("fieldPath"));
    if !version.require(errors) || !field.require(errors) {
        return;
    }
    if version.str() != "v1" {
        let problem = format!("error converting fieldPath: unsupported pod version: {}", version.str());
        return field.bad(errors, problem);
    }
    if let Some((path, key)) = subscript(field.str()) {
        return match path {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                report(errors, reference.path(), &key, names::label_key(&key));
            }
            "metadata.labels" => report(errors, reference.path(), key, names::label_key(key)),
            _ => {
                let text = field.str();
                field
                    .bad(errors, format!("error converting fieldPath: field label does not support subscript: {text}"));
            }
        };
    }
    // What old clients call the node's name.
    let path = if field.str() == "spec.host" { "spec.nodeName" } else { field.str() };
    if !KNOWN_FIELDS.contains(&path) {
        field.bad(errors, format!("error converting fieldPath: field label not supported: {path}"));
    } else if !allowed.contains(&path) {
        errors.not_supported(field.path(), path, allowed);
    }
}

/// Splits `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (path, key) = path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A container's resource. In a volume the container must be named.
pub fn resource_reference(reference: &Cursor, in_volume: bool, errors: &mut Errors) {
    let (container, resource) = (reference.field("containerName"), reference.field("resource"));
    let name = resource.str();
    if in_volume && container.str().is_empty() {
        container.required(errors, "");
    } else if name.is_empty() {
        resource.required(errors, "");
    } else if !RESOURCES.contains(&name) && !is_huge_pages(name) {
        resource.not_supported(errors, &RESOURCES);
    }
    divisor(reference, name, errors);
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

fn divisor(reference: &Cursor, resource: &str, errors: &mut Errors) {
    const BYTES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let divisor = reference.field("divisor");
    let quantity: Quantity = divisor.quantity();
    if quantity.is_zero() {
        return;
    }
    let text = quantity.to_string();
    let (allowed, problem) = match resource {
        "limits.cpu" | "requests.cpu" => {
            (&["1m", "1"][..], "only divisor's values 1m and 1 are supported with the cpu resource".to_string())
        }
        "limits.memory" | "requests.memory" => {
            (&BYTE_DIVISORS[..], format!("only divisor's values {BYTES} are supported with the memory resource"))
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            &BYTE_DIVISORS[..],
            format!("only divisor's values {BYTES} are supported with the local ephemeral storage resource"),
        ),
        name if is_huge_pages(name) => {
            (&BYTE_DIVISORS[..], format!("only divisor's values {BYTES} are supported with the hugepages resource"))
        }
        _ => return,
    };
    if !allowed.contains(&text.as_str()) {
        divisor.invalid_as(errors, resource, problem);
    }
}

fn key_reference(reference: &Cursor, errors: &mut Errors) {
    reference.field("name").check_name(errors, names::name_is_dns_subdomain);
    let key = reference.field("key");
    if key.require(errors) {
        key.check(errors, names::config_map_key);
    }
}

fn file_reference(reference: &Cursor, errors: &mut Errors) {
    let (key, volume, path) = (reference.field("key"), reference.field("volumeName"), reference.field("path"));
    if key.require(errors) {
        key.check(errors, names::relaxed_env_var_name);
    }
    if volume.require(errors) {
        volume.check(errors, names::dns1123_label);
    }
    if path.require(errors) {
        paths::no_backsteps(path.str(), path.path(), errors);
    }
}

/// Variables taken from whole ConfigMaps and Secrets.
pub fn from(sources: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    for source in sources.each() {
        let prefix = source.field("prefix");
        if !prefix.str().is_empty() {
            prefix.check(errors, name_rule(options));
        }
        let references = ["configMapRef", "secretRef"].map(|field| source.field(field));
        let set = references.iter().filter(|reference| reference.is_set());
        for name in set.clone().map(|reference| reference.field("name")) {
            if name.require(errors) {
                report(errors, name.path(), name.str(), names::name_is_dns_subdomain(name.str(), true));
            }
        }
        // Upstream reports these at the list.
        match set.count() {
            0 => sources.invalid_as(errors, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => sources.invalid_as(errors, "", "may not have more than one field specified at a time"),
        }
    }
}

/// Files that variables come from must be in volumes that live as long as the pod.
pub fn file_key_volumes(spec: &Cursor, errors: &mut Errors) {
    const REFERENCE: [&str; 2] = ["valueFrom", "fileKeyRef"];
    // Upstream looks volumes up by name, where the last one of a name wins.
    let volumes = named::last_by_name(spec.value().list_at(&["volumes"]));
    let variables = visit::containers(spec).flat_map(|container| container.field("env").each());
    // Nearly no variable has one, so the values are looked at before paths are made.
    for variable in variables.filter(|variable| !variable.value().at(&REFERENCE).is_null()) {
        let reference = variable.at(&REFERENCE);
        let name = reference.field("volumeName");
        match volumes.get(name.str()) {
            None => errors.not_found(name.path(), name.str()),
            Some(volume) if volume.field("emptyDir").is_null() => {
                name.bad(errors, "referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}
