//! What every object's metadata must look like, on creation and across updates.

use std::collections::HashSet;

use object::{BadValue, Cursor, Errors, GroupVersion, Meta, Value, names};
use schema::{Node, Schema, Shape};

/// Upstream's cap on all annotation keys and values of an object together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const FIELD_MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Checks metadata on its own. `check_name` is the kind's name rule: (name, is it a generateName prefix).
pub fn validate(
    object: &Cursor,
    namespaced: bool,
    check_name: &dyn Fn(&str, bool) -> Vec<String>,
    errors: &mut Errors,
) {
    let metadata = object.field("metadata");
    validate_generate_name(&metadata, check_name, errors);
    let name = metadata.field("name");
    if name.is_empty() {
        name.required(errors, "name or generateName is required");
    } else {
        name.invalid_each(errors, check_name(name.str(), false));
    }
    let namespace = metadata.field("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => namespace.required(errors, ""),
        (true, false) => namespace.invalid_each(errors, names::name_is_dns_label(namespace.str(), false)),
        (false, false) => namespace.forbidden(errors, "not allowed on this type"),
        (false, true) => {}
    }
    metadata.field("generation").non_negative(errors);
    validate_labels(&metadata.field("labels"), errors);
    validate_annotations(&metadata.field("annotations"), errors);
    validate_owners(&metadata.field("ownerReferences"), errors);
    validate_finalizers(&metadata.field("finalizers"), errors);
    validate_managed_fields(&metadata.field("managedFields"), errors);
}

/// Checks a generateName by the kind's name rule.
pub fn validate_generate_name(metadata: &Cursor, check_name: &dyn Fn(&str, bool) -> Vec<String>, errors: &mut Errors) {
    let generate_name = metadata.field("generateName");
    if !generate_name.is_empty() {
        generate_name.invalid_each(errors, check_name(generate_name.str(), true));
    }
}

/// Checks that the names can be part of a path, which upstream does for every kind once all else is fine.
pub fn validate_path_segments(object: &Cursor, errors: &mut Errors) {
    let metadata = object.field("metadata");
    for (field, is_prefix) in [("generateName", true), ("name", false)] {
        let name = metadata.field(field);
        name.invalid_each(errors, names::name_is_path_segment(name.str(), is_prefix));
    }
}

/// Checks metadata against what it was before.
pub fn validate_update(new: &Cursor, old: &Value, errors: &mut Errors) {
    let metadata = new.field("metadata");
    if old.is_deleting() {
        no_new_finalizers(&metadata.field("finalizers"), old, errors);
    }
    let version = metadata.field("resourceVersion");
    if version.is_empty() {
        version.invalid_as(errors, "", "must be specified for an update");
    }
    let generation = metadata.field("generation");
    if generation.int() < old.generation() {
        generation.invalid(errors, "must not be decremented");
    }
    let fields = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for name in fields {
        immutable(&metadata.field(name), old.metadata().field(name), errors);
    }
    validate_labels(&metadata.field("labels"), errors);
    validate_annotations(&metadata.field("annotations"), errors);
    validate_owners(&metadata.field("ownerReferences"), errors);
    validate_managed_fields(&metadata.field("managedFields"), errors);
}

/// Reports `field is immutable` if the field is not what it was.
pub fn immutable(new: &Cursor, old: &Value, errors: &mut Errors) {
    if new.value() != old && !(new.is_empty() && old.is_empty()) {
        let shown = if new.value().is_null() && old.as_str().is_some() { Value::from("") } else { new.value().clone() };
        new.invalid_as(errors, shown, "field is immutable");
    }
}

/// Checks keys and values of labels.
pub fn validate_labels(labels: &Cursor, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        for message in names::label_key(key) {
            labels.invalid_as(errors, key, message);
        }
        for message in names::label_value(value.str()) {
            labels.invalid_as(errors, value.str(), message);
        }
    }
}

/// Checks keys and the size of annotations.
pub fn validate_annotations(annotations: &Cursor, errors: &mut Errors) {
    let mut total = 0usize;
    for (key, value) in annotations.entries() {
        // Qualified names, except that case does not matter.
        for message in names::label_key(&key.to_lowercase()) {
            annotations.invalid_as(errors, key, message);
        }
        total += key.len() + value.str().len();
    }
    if total > ANNOTATIONS_MAX_BYTES {
        errors.too_long(annotations.path(), ANNOTATIONS_MAX_BYTES);
    }
}

/// An owner, or a list of them, as Go prints the type.
fn shown(owners: &Cursor) -> BadValue {
    let types = schema::builtin().types();
    let Some(id) = types.find("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference") else {
        return BadValue::Value(owners.value().clone());
    };
    let owner = Node { shape: Shape::Struct(id), ..Node::default() };
    let node = match owners.value() {
        Value::List(_) => Node { shape: Shape::List(Box::new(owner)), ..Node::default() },
        _ => owner,
    };
    let mut out = Vec::new();
    codec::json::encode(owners.value(), Some(Schema::new(types, &node)), &mut out);
    BadValue::Raw(String::from_utf8_lossy(&out).into_owned())
}

fn validate_owners(owners: &Cursor, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in owners.each() {
        let api_version = owner.field("apiVersion");
        let group_version = GroupVersion::parse(api_version.str());
        if api_version.is_empty() {
            api_version.required(errors, "must not be empty");
        } else if group_version.as_ref().is_ok_and(|gv| gv.version.is_empty()) || group_version.is_err() {
            api_version.invalid(errors, "must be <group>/<version> or <version>");
        }
        for name in ["kind", "name", "uid"] {
            owner.field(name).must_be_set(errors, "must not be empty");
        }
        if api_version.str() == "v1" && owner.field("kind").str() == "Event" {
            owner.invalid_as(errors, shown(&owner), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.field("controller").bool() {
            let this = format!("{}/{}", owner.field("kind").str(), owner.field("name").str());
            match &controller {
                // The error shows all owners, so those of very many are not all made.
                Some(_) if errors.is_full() => {}
                Some(first) => owners.invalid_as(
                    errors,
                    shown(owners),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ),
                None => controller = Some(this),
            }
        }
    }
}

/// Finalizers of built-in kinds are qualified, but for the few that are older than the rule.
pub fn validate_finalizer_names(object: &Cursor, errors: &mut Errors) {
    for finalizer in object.at(&["metadata", "finalizers"]).each() {
        let name = finalizer.str();
        if !name.contains('/') && !matches!(name, "kubernetes" | ORPHAN | FOREGROUND) {
            finalizer.invalid(errors, "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
}

fn validate_finalizers(finalizers: &Cursor, errors: &mut Errors) {
    for name in finalizers.strs() {
        for message in names::label_key(name) {
            finalizers.invalid_as(errors, name, message);
        }
    }
    let has = |wanted: &str| finalizers.strs().any(|name| name == wanted);
    if has(ORPHAN) && has(FOREGROUND) {
        finalizers.invalid(errors, format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set"));
    }
}

fn no_new_finalizers(finalizers: &Cursor, old: &Value, errors: &mut Errors) {
    let known: HashSet<&str> = old.finalizers().collect();
    let mut extra: Vec<&str> = finalizers.strs().filter(|name| !known.contains(name)).collect();
    extra.sort_unstable();
    extra.dedup();
    if !extra.is_empty() {
        let shown: Vec<String> = extra.iter().map(|name| object::quote(name)).collect();
        finalizers.forbidden(
            errors,
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            ),
        );
    }
}

fn validate_managed_fields(entries: &Cursor, errors: &mut Errors) {
    for entry in entries.each() {
        let operation = entry.field("operation");
        match operation.str() {
            "" => operation.required(errors, "must not be empty"),
            "Apply" | "Update" => {}
            _ => operation.not_supported(errors, &["Apply", "Update"]),
        }
        let fields_type = entry.field("fieldsType");
        if !matches!(fields_type.str(), "" | "FieldsV1") {
            fields_type.invalid(errors, "must be `FieldsV1`");
        }
        validate_field_manager(&entry.field("manager"), errors);
        let subresource = entry.field("subresource");
        if subresource.str().len() > SUBRESOURCE_MAX_BYTES {
            errors.too_long(subresource.path(), SUBRESOURCE_MAX_BYTES);
        }
    }
}

/// A field manager's name: short and printable.
pub fn validate_field_manager(manager: &Cursor, errors: &mut Errors) {
    if manager.str().len() > FIELD_MANAGER_MAX_BYTES {
        errors.too_long(manager.path(), FIELD_MANAGER_MAX_BYTES);
    }
    for (position, c) in manager.str().char_indices() {
        if !object::is_print(c) {
            manager.invalid(errors, format!("invalid character U+{:04X} (at position {position})", c as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::value;

    fn check(object: Value, want: &[&str]) {
        let mut errors = Errors::new();
        let any = |name: &str, prefix: bool| names::name_is_dns_subdomain(name, prefix);
        validate(&Cursor::root(&object), false, &any, &mut errors);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn metadata_errors_are_upstreams() {
        check(value!({"metadata": {"name": "ok"}}), &[]);
        check(value!({"metadata": {}}), &["metadata.name: Required value: name or generateName is required"]);
        check(
            value!({"metadata": {"name": "a", "namespace": "x"}}),
            &["metadata.namespace: Forbidden: not allowed on this type"],
        );
        check(
            value!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": ""}]}}),
            &[
                "metadata.ownerReferences[0].name: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ],
        );
        check(
            value!({"metadata": {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}}),
            &[
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#,
            ],
        );
    }

    #[test]
    fn generate_names_follow_the_rule_for_names() {
        for (prefix, fine) in [("", true), ("ok-", true), ("ok", true), ("A_", false), (&"a".repeat(300), false)] {
            let metadata = value!({"generateName": (prefix)});
            let mut errors = Errors::new();
            let rule = |name: &str, prefix: bool| names::name_is_dns_subdomain(name, prefix);
            validate_generate_name(&Cursor::new(&metadata, object::Path::of("metadata")), &rule, &mut errors);
            assert_eq!(errors.is_empty(), fine, "{prefix}: {}", errors.aggregate());
        }
    }

    #[test]
    fn names_and_uids_never_change() {
        let old = value!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "5"}});
        let new = value!({"metadata": {"name": "b", "uid": "2", "resourceVersion": "5"}});
        let mut errors = Errors::new();
        validate_update(&Cursor::root(&new), &old, &mut errors);
        assert_eq!(
            errors.aggregate(),
            r#"[metadata.name: Invalid value: "b": field is immutable, metadata.uid: Invalid value: "2": field is immutable]"#
        );
    }
}
