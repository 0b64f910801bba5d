//! IPAddresses: one object for each cluster address that is taken.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::versioned;

pub struct IpAddress;

const FACTS: Facts = Facts {
    name: |name, _| names::ip(name),
    generates_names: false,
    checks_updated_generate_name: true,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for IpAddress {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let parent = object.at(&["spec", "parentRef"]);
        if !parent.is_set() {
            return parent.required(errors, "");
        }
        if !parent.field("group").is_empty() {
            parent.field("group").check(errors, names::dns1123_subdomain);
        }
        for field in ["resource", "name", "namespace"] {
            parent.field(field).check(errors, names::path_segment_name);
        }
        for field in ["resource", "name"] {
            parent.field(field).require(errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
        let parent = new.at(&["spec", "parentRef"]);
        if !versioned::same(
            "io.k8s.api.networking.v1.ParentReference",
            parent.value(),
            old.at(&["spec", "parentRef"]).value(),
        ) {
            parent.invalid_as(errors, Value::Null, IMMUTABLE);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), parent_cell(object.at(&["spec", "parentRef"])).into(), columns::age(cx, object)]
    }
}

fn parent_cell(parent: &Value) -> String {
    if parent.is_null() {
        return "<none>".to_string();
    }
    let (group, namespace) = (parent.str_at(&["group"]), parent.str_at(&["namespace"]));
    let mut cell = parent.str_at(&["resource"]).to_lowercase();
    if !group.is_empty() {
        cell = format!("{cell}.{}", group.to_lowercase());
    }
    if !namespace.is_empty() {
        cell = format!("{cell}/{namespace}");
    }
    format!("{cell}/{}", parent.str_at(&["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn parents_are_checked() {
        let check = Check::new(
            IpAddress,
            "{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, name: a, namespace: b}}}",
        );
        check.create(&[
            ("", ""),
            ("spec: {parentRef: null}", "spec.parentRef: Required value"),
            (
                "spec: {parentRef: {resource: a/b, name: null}}",
                "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'
                 spec.parentRef.name: Required value",
            ),
        ]);
        check.cells(&[("", "10.0.0.1 services/b/a <unknown>")]);
    }
}
