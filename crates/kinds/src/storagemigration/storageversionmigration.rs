//! StorageVersionMigrations: rewrite every object of a resource in its present storage version.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy};

use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::{conditions, internal, metadata, versioned};

const CONDITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition";

pub struct Migration;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    ..Facts::WITH_STATUS
};

impl Strategy for Migration {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (resource, group) =
            (object.at(&["spec", "resource", "resource"]), object.at(&["spec", "resource", "group"]));
        if resource.is_empty() {
            resource.required(errors, "resource is required to be set");
        }
        for (field, check) in [(&resource, names::dns1035_label as fn(&str) -> _), (&group, names::dns1123_subdomain)] {
            let messages = check(field.str());
            if !field.is_empty() && !messages.is_empty() {
                field.bad(errors, messages.join(","));
            }
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
        let spec = new.field("spec");
        if !versioned::same(
            "io.k8s.api.storagemigration.v1.StorageVersionMigrationSpec",
            spec.value(),
            old.field("spec").value(),
        ) {
            let shown = internal::shown("StorageVersionMigrationSpec", spec.value());
            spec.invalid_as(errors, shown, IMMUTABLE);
        }
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        let (version, list) = (status.field("resourceVersion"), status.field("conditions"));
        if let Err(problem) = check_version(version.str()) {
            version.bad(errors, problem);
        }
        conditions::validate(&list, errors);
        let old_version = old.at(&["status", "resourceVersion"]);
        if !old_version.is_empty() && old_version.str() != version.str() {
            version.bad(errors, IMMUTABLE);
        }
        let is = |object: &Cursor, kind: &str| {
            let found = conditions::find(object.value().list_at(&["status", "conditions"]), kind);
            found.is_some_and(|condition| condition.str_at(&["status"]) == "True")
        };
        let shown = || versioned::shown(CONDITION, list.value());
        if is(new, "Succeeded") && is(new, "Failed") {
            list.invalid_as(errors, shown(), "Both success and failed conditions cannot be true at the same time");
        }
        for (kind, name) in [("Succeeded", "Success"), ("Failed", "Failed")] {
            if is(old, kind) && !is(new, kind) {
                let why = format!("{name} condition cannot be set to false once it is true");
                list.invalid_as(errors, shown(), why);
            }
        }
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let resource = object.at(&["spec", "resource"]);
        let (group, name) = (resource.str_at(&["group"]), resource.str_at(&["resource"]));
        let shown = if group.is_empty() { name.to_string() } else { format!("{name}.{group}") };
        let conditions = object.list_at(&["status", "conditions"]).iter();
        let states = conditions.filter(|condition| condition.str_at(&["status"]) == "True");
        let mut states = states.map(|condition| condition.str_at(&["type"]));
        let state = states.rfind(|kind| ["Running", "Failed", "Succeeded"].contains(kind));
        vec![object.name().into(), shown.into(), state.unwrap_or("Unknown").into()]
    }
}

/// A resource version that can be compared: digits, without leading zeros.
fn check_version(version: &str) -> Result<(), String> {
    let fine = version.bytes().all(|b| b.is_ascii_digit()) && !version.starts_with('0');
    if fine { Ok(()) } else { Err(format!("resource version is not well formed: {version}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn migrations_are_checked() {
        let check = Check::new(Migration, "{metadata: {name: a}, spec: {resource: {resource: pods}}}");
        check.create(&[
            ("", ""),
            (
                "spec: {resource: {resource: null}}",
                "spec.resource.resource: Required value: resource is required to be set",
            ),
            (
                "spec: {resource: {resource: '', group: B_}}",
                "spec.resource.resource: Required value: resource is required to be set
                 spec.resource.group: Invalid value: \"B_\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ]);
        check.cells(&[
            ("", "a pods Unknown"),
            (
                "{spec: {resource: {group: g}}, status: {conditions: [{type: Running, status: 'True'}]}}",
                "a pods.g Running",
            ),
        ]);
    }
}
