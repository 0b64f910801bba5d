//! ResourceSlices: the devices that a driver offers.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, FieldRefusal, Strategy, columns};

use super::devices;
use crate::common::checks::{Checks, IMMUTABLE};

const DEVICES_MAX: usize = 128;
/// Where devices have taints or share counters, each of them costs more.
const DEVICES_MAX_ADVANCED: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const ATTRIBUTES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn has_status(&self) -> bool {
        false
    }

    fn default(&self, object: &mut Value) {
        stamp_taints(object);
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(&object.field("spec"), None, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(&new.field("spec"), Some(&old.field("spec")), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = object::quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver", "spec.pool.name"]
    }

    fn field_refusal(&self) -> FieldRefusal {
        FieldRefusal::ForVersion
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let spec = object.field("spec");
        vec![
            object.name().into(),
            spec.str_at(&["nodeName"]).into(),
            spec.str_at(&["driver"]).into(),
            spec.str_at(&["pool", "name"]).into(),
            columns::age(cx, object),
        ]
    }
}

fn stamp_taints(object: &mut Value) {
    let devices = object.at_mut(&["spec", "devices"]).and_then(Value::as_list_mut);
    for device in devices.into_iter().flatten() {
        for taint in device.get_mut("taints").and_then(Value::as_list_mut).into_iter().flatten() {
            devices::stamp_taint(taint);
        }
    }
}

fn validate_spec(spec: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let pool = spec.field("pool");
    devices::driver_name(&spec.field("driver"), errors);
    devices::pool_name(&pool.field("name"), errors);
    if pool.field("resourceSliceCount").int() <= 0 {
        let count = pool.field("resourceSliceCount");
        count.invalid_as(errors, count.int(), "must be greater than zero");
    }
    if pool.field("generation").int() < 0 {
        pool.field("generation").invalid(errors, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        for path in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
            let (new, old) = (spec.at(path), old.at(path));
            match new.value() {
                Value::Null if old.is_set() && path != ["nodeName"] => new.bad(errors, IMMUTABLE),
                value if value != old.value() => new.invalid(errors, IMMUTABLE),
                _ => {}
            }
        }
    }
    validate_place(spec, errors);
    let (counters, list) = (spec.field("sharedCounters"), spec.field("devices"));
    if counters.is_set() && list.is_set() {
        spec.invalid_as(errors, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    validate_devices(spec, &list, errors);
    devices::set(&counters, COUNTER_SETS_MAX, "CounterSet", |set| set.field("name").str().to_string(), errors);
}

/// Where the devices are.
fn validate_place(spec: &Cursor, errors: &mut Errors) {
    let mut places = Vec::new();
    let (node, selector) = (spec.field("nodeName"), spec.field("nodeSelector"));
    match node.opt_str() {
        None => {}
        Some("") => node.bad(errors, "must be either unset or set to a non-empty string"),
        Some(_) => {
            places.push("`nodeName`");
            node.check_name(errors, names::name_is_dns_subdomain);
        }
    }
    if selector.is_set() {
        places.push("`nodeSelector`");
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid(errors, "must have exactly one node selector term");
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec.field(field).opt_bool() {
            Some(true) => places.push(shown),
            Some(false) => spec.field(field).invalid(errors, "must be either unset or set to true"),
            None => {}
        }
    }
    match places.len() {
        0 => spec.required(errors, ONE_OF),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", places.join(", "));
            spec.invalid_as(errors, shown, format!("{ONE_OF}, but multiple fields are set"));
        }
    }
}

fn validate_devices(spec: &Cursor, list: &Cursor, errors: &mut Errors) {
    let is_advanced =
        |device: &Cursor| !device.field("taints").is_empty() || !device.field("consumesCounters").is_empty();
    let max = if list.each().any(|device| is_advanced(&device)) { DEVICES_MAX_ADVANCED } else { DEVICES_MAX };
    if list.len() > max {
        errors.too_many(list.path(), list.len(), max);
    }
    let mut seen = std::collections::BTreeSet::new();
    for device in list.each() {
        let name = device.field("name");
        validate_device(&device, spec.field("perDeviceNodeSelection").bool(), errors);
        if !seen.insert(name.str()) {
            errors.duplicate(device.path(), name.str());
        }
    }
}

fn validate_device(device: &Cursor, placed: bool, errors: &mut Errors) {
    device.field("name").check(errors, names::dns1123_label);
    let count = device.field("attributes").len() + device.field("capacity").len();
    if count > ATTRIBUTES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        device.invalid_as(errors, count, detail);
    }
    let taints = device.field("taints");
    if taints.len() > TAINTS_MAX {
        errors.too_many(taints.path(), taints.len(), TAINTS_MAX);
    }
    for taint in taints.each() {
        devices::taint(&taint, errors);
    }
    let places = ["nodeName", "nodeSelector", "allNodes"].map(|field| device.field(field).is_set());
    if !placed && places.contains(&true) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                      true in the ResourceSlice spec";
        device.invalid_as(errors, Value::Null, detail);
    }
    if placed && !places.contains(&true) {
        let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                      `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        device.required(errors, detail);
    }
    for taint in taints.each() {
        devices::taint_declared(&taint, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn slices_are_checked() {
        let check = Check::new(
            ResourceSlice,
            "{metadata: {name: a}, spec: {driver: d, nodeName: x, pool: {name: p, resourceSliceCount: 1}}}",
        );
        check.create(&[
            ("", ""),
            (
                "spec: {driver: null, nodeName: null, pool: null}",
                "spec.driver: Required value
                 spec.pool.name: Required value
                 spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
                 spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
                 required",
            ),
        ]);
        check.update(&[("", "spec: {driver: e}", "spec.driver: Invalid value: \"e\": field is immutable")]);
        check.cells(&[("", "a x d p <unknown>")]);
    }
}
