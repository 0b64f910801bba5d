//! DeviceTaintRules: taints for every device that a selector matches.

use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::devices;
use crate::common::checks::Checks;
use crate::common::declared::RESOURCE;
use crate::common::{conditions, metadata, versioned};

const CONDITIONS_MAX: usize = 8;

pub struct DeviceTaintRule;

const FACTS: Facts = Facts {
    generation: Some(|new, old| {
        !versioned::same("io.k8s.api.resource.v1beta2.DeviceTaintRuleSpec", new.field("spec"), old.field("spec"))
    }),
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    shows_parts_as_tables: false,
    ..Facts::WITH_STATUS
};

impl Strategy for DeviceTaintRule {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        devices::stamp_taint(object.slot(&["spec", "taint"]));
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        // A new effect starts a new time, unless the writer has set one.
        let kept = |field: &str| new.at(&["spec", "taint", field]) == old.at(&["spec", "taint", field]);
        if !kept("effect") && kept("timeAdded") {
            new.set(&["spec", "taint", "timeAdded"], Time(cx.now.truncate_to_seconds()).to_string());
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(&object.field("spec"), errors);
        RESOURCE.validate(cx, "DeviceTaintRuleSpec", &object.field("spec"), None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(&new.field("spec"), errors);
        RESOURCE.validate(cx, "DeviceTaintRuleSpec", &new.field("spec"), Some(old.field("spec").value()), errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let list = new.at(&["status", "conditions"]);
        conditions::validate(&list, errors);
        if list.len() > CONDITIONS_MAX {
            errors.too_many(list.path(), list.len(), CONDITIONS_MAX);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let taint = object.at(&["spec", "taint"]);
        vec![
            object.name().into(),
            taint.str_at(&["key"]).into(),
            taint.str_at(&["value"]).into(),
            taint.str_at(&["effect"]).into(),
            columns::since(cx, taint.str_at(&["timeAdded"])).into(),
            columns::age(cx, object),
        ]
    }
}

fn validate_spec(spec: &Cursor, errors: &mut Errors) {
    let selector = spec.field("deviceSelector");
    let [driver, pool, device] = ["driver", "pool", "device"].map(|field| selector.field(field));
    if driver.is_set() {
        devices::driver_name(&driver, errors);
    }
    if pool.is_set() {
        devices::pool_name(&pool, errors);
    }
    if device.is_set() {
        device.check(errors, names::dns1123_label);
    }
    devices::taint(&spec.field("taint"), errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn taints_are_checked() {
        let check = Check::new(DeviceTaintRule, "{metadata: {name: a}, spec: {taint: {key: k, effect: NoSchedule}}}");
        check.create(&[
            ("", ""),
            ("spec: {taint: {effect: null}}", "spec.taint.effect: Required value"),
            (
                "spec: {taint: {effect: X}}",
                "spec.taint.effect: Unsupported value: \"X\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
            ),
        ]);
        // The time is the clock's, so only its presence can be told.
        assert!(!check.decoded("").str_at(&["spec", "taint", "timeAdded"]).is_empty());
        let old = "spec: {taint: {timeAdded: '2020-01-01T00:00:00Z'}}";
        let new = "spec: {taint: {effect: NoExecute, timeAdded: '2020-01-01T00:00:00Z'}}";
        let updated = check.try_update(old, new).map(|rule| rule.str_at(&["spec", "taint", "timeAdded"]).to_string());
        assert_eq!(updated.unwrap_or_default(), "2023-11-14T22:13:20Z");
    }
}
