//! ResourcePoolStatusRequests: questions about the pools of a driver, answered once in the status.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{IMMUTABLE, immutable};
use crate::common::declared::RESOURCE;
use crate::common::{conditions, metadata, versioned};

pub struct ResourcePoolStatusRequest;

const FACTS: Facts = Facts {
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    returns_deleted_object: true,
    ..Facts::WITH_STATUS
};

impl Strategy for ResourcePoolStatusRequest {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, old);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        RESOURCE.validate(cx, "ResourcePoolStatusRequestSpec", &object.field("spec"), None, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let spec = new.field("spec");
        let name = "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestSpec";
        if !versioned::same(name, spec.value(), old.field("spec").value()) {
            spec.invalid_as(errors, Value::Null, IMMUTABLE);
        }
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (status, before) = (new.field("status"), old.field("status"));
        // An answer is given once.
        if before.is_set() {
            return immutable(&status, &before, errors);
        }
        status.field("conditions").each().for_each(|condition| conditions::validate_one(&condition, errors));
        if status.is_set() {
            RESOURCE.validate(cx, "ResourcePoolStatusRequestStatus", &status, None, errors);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let status = object.field("status");
        let pools = status.list_at(&["pools"]);
        let is_true = |wanted: &str| {
            let mut conditions = status.list_at(&["conditions"]).iter();
            conditions.find(|c| c.str_at(&["type"]) == wanted && c.str_at(&["status"]) == "True")
        };
        let (complete, failed) = (is_true("Complete"), is_true("Failed").is_some());
        let count = status.field("poolCount").as_int().unwrap_or(0);
        let state = match complete {
            Some(_) if count > i64::try_from(pools.len()).unwrap_or(i64::MAX) => {
                format!("Complete ({}/{count} pools)", pools.len())
            }
            Some(_) => "Complete".to_string(),
            None if failed => "Failed".to_string(),
            None => "Pending".to_string(),
        };
        let known = !status.is_null() && (complete.is_some() || !failed);
        let shown = |number: i64| Value::from(if known { number.to_string() } else { "-".to_string() });
        let sum = |field: &str| shown(pools.iter().filter_map(|pool| pool.field(field).as_int()).sum());
        let wrong = pools.iter().filter(|pool| !pool.field("validationError").is_null()).count();
        let completed = complete.map(|condition| columns::since(cx, condition.str_at(&["lastTransitionTime"])));
        vec![
            object.name().into(),
            object.str_at(&["spec", "driver"]).into(),
            sum("totalDevices"),
            sum("availableDevices"),
            sum("allocatedDevices"),
            sum("unavailableDevices"),
            shown(i64::try_from(wrong).unwrap_or(i64::MAX)),
            count.into(),
            state.into(),
            completed.map_or_else(|| "<none>".into(), Into::into),
        ]
    }
}

fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    const ATTRIBUTE: [&str; 2] = ["spec", "defaultPartitionTypeAttribute"];
    if !cx.features.enabled("DRAPartitionableDevicesType") && old.at(&ATTRIBUTE).is_null() {
        new.remove(&ATTRIBUTE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn requests_are_checked_and_answered_once() {
        let check = Check::new(ResourcePoolStatusRequest, "{metadata: {name: a}, spec: {driver: d.io, limit: 5}}");
        check.create(&[
            ("", ""),
            ("spec: {driver: null}", "spec.driver: Required value"),
            ("spec: {limit: 1001}", "spec.limit: Invalid value: 1001: must be less than or equal to 1000"),
        ]);
        check.update(&[("", "spec: {driver: e.io}", "spec: Invalid value: null: field is immutable")]);
        check.update_status(&[
            ("", "status: {poolCount: 0}", ""),
            (
                "status: {poolCount: 0}",
                "status: {poolCount: 1}",
                r#"status: Invalid value: {"poolCount":1}: field is immutable"#,
            ),
        ]);
        check.cells(&[
            ("", "a d.io - - - - - 0 Pending <none>"),
            ("status: {poolCount: 1, pools: [{totalDevices: 3}]}", "a d.io 3 0 0 0 0 1 Pending <none>"),
        ]);
    }
}
