//! ResourceClaims and their templates.

use async_trait::async_trait;
use object::{BadValue, Cursor, Errors, Meta, Value};
use registry::{Context, Effects, Facts, Strategy, columns};

use super::{claim, rights, status};
use crate::common::checks::IMMUTABLE;
use crate::common::declared::RESOURCE;
use crate::common::{internal, metadata, versioned};

pub struct ResourceClaim;

const RESOURCE_CLAIM: Facts = Facts {
    checks_updated_generate_name: true,
    status_resets: Facts::METADATA_AND_SPEC,
    returns_deleted_object: true,
    shows_parts_as_tables: false,
    ..Facts::WITH_STATUS
};

impl Strategy for ResourceClaim {
    fn facts(&self) -> &Facts {
        &RESOURCE_CLAIM
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            claim::default(spec);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            claim::drop_disabled(cx, spec, None);
        }
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if let Some(spec) = new.get_mut("spec") {
            claim::drop_disabled(cx, spec, Some(old.field("spec")));
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        claim::validate(cx, &object.field("spec"), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        immutable_spec("io.k8s.api.resource.v1.ResourceClaimSpec", new, old, Value::Null, errors);
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
        status::prepare(cx, new, old);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        status::validate(cx, new, old, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), state_cell(object).into(), columns::age(cx, object)]
    }
}

#[async_trait]
impl Effects for ResourceClaim {
    fn authorize_create(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        claim::admin_access(cx, &object.field("spec"), errors);
    }

    async fn authorize_status_update(&self, cx: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
        rights::authorize(cx, new, old, errors).await;
    }
}

pub struct ResourceClaimTemplate;

const RESOURCE_CLAIM_TEMPLATE: Facts =
    Facts { checks_updated_generate_name: true, returns_deleted_object: true, ..Facts::WITHOUT_STATUS };

impl Strategy for ResourceClaimTemplate {
    fn facts(&self) -> &Facts {
        &RESOURCE_CLAIM_TEMPLATE
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.at_mut(&["spec", "spec"]) {
            claim::default(spec);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if let Some(spec) = object.at_mut(&["spec", "spec"]) {
            claim::drop_disabled(cx, spec, None);
        }
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if let Some(spec) = new.at_mut(&["spec", "spec"]) {
            claim::drop_disabled(cx, spec, Some(old.at(&["spec", "spec"])));
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        metadata::of_template(&object.at(&["spec", "metadata"]), errors);
        claim::validate(cx, &object.at(&["spec", "spec"]), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (spec, before) = (new.at(&["spec", "spec"]), old.at(&["spec", "spec"]));
        metadata::of_template(&new.at(&["spec", "metadata"]), errors);
        claim::validate_written(cx, &spec, errors);
        let shown = internal::shown("ResourceClaimTemplateSpec", new.field("spec").value());
        immutable_spec("io.k8s.api.resource.v1.ResourceClaimTemplateSpec", new, old, shown, errors);
        RESOURCE.validate(cx, "ResourceClaimSpec", &spec, Some(before.value()), errors);
    }
}

impl Effects for ResourceClaimTemplate {
    fn authorize_create(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        claim::admin_access(cx, &object.at(&["spec", "spec"]), errors);
    }
}

fn immutable_spec(type_name: &str, new: &Cursor, old: &Cursor, shown: impl Into<BadValue>, errors: &mut Errors) {
    let spec = new.field("spec");
    if !versioned::same(type_name, spec.value(), old.field("spec").value()) {
        spec.invalid_as(errors, shown, IMMUTABLE);
    }
}

fn state_cell(object: &Value) -> String {
    let is_deleted = object.is_deleting();
    let is_allocated = !object.at(&["status", "allocation"]).is_null();
    let is_reserved = is_allocated && !object.list_at(&["status", "reservedFor"]).is_empty();
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_allocated && !is_deleted),
        ("allocated", is_allocated),
        ("reserved", is_reserved),
    ];
    let states: Vec<&str> = states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect();
    states.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            ResourceClaim,
            "{metadata: {name: a}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}",
        )
    }

    #[test]
    fn one_device_is_the_default() {
        check().stored(&[(
            "",
            "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, allocationMode: ExactCount, count: 1}}]}}",
        )]);
    }

    #[test]
    fn requests_are_checked() {
        let exact = "exactly: {deviceClassName: c}";
        check().create(&[
            (
                "spec: {devices: {requests: [{name: r}, {name: s, exactly: {}}]}}",
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required
                 spec.devices.requests[1].exactly.deviceClassName: Required value",
            ),
            (
                &format!("spec: {{devices: {{requests: [{{name: r, {exact}}}, {{name: r, {exact}}}]}}}}"),
                "spec.devices.requests[1]: Duplicate value: {\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\",\
                 \"allocationMode\":\"ExactCount\",\"count\":1}}",
            ),
            (
                "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, allocationMode: X}}]}}",
                "spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"X\": supported values: \"All\", \
                 \"ExactCount\"",
            ),
        ]);
        check().cells(&[
            ("", "a pending <unknown>"),
            ("status: {allocation: {}, reservedFor: [{}]}", "a allocated,reserved <unknown>"),
        ]);
    }
}
