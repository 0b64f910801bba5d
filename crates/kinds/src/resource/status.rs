//! The status of a claim: which devices it was given, who uses them, and what drivers say about them.

use std::collections::BTreeSet;

use object::{BadValue, Cursor, Errors, Meta, Path, Value, names};
use registry::Context;

use super::claim::{Names, require_admin_namespace, up_to};
use super::devices;
use crate::common::checks::Checks;
use crate::common::conditions;
use crate::common::declared::RESOURCE;
use crate::common::pod_spec::affinity;

const RESERVED_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIG_MAX: usize = 64;
const CONDITIONS_MAX: usize = 8;
const ADDRESSES_MAX: usize = 16;
const DATA_MAX_BYTES: usize = 10 * 1024;
const RESULTS: [&str; 4] = ["status", "allocation", "devices", "results"];

/// Drops what belongs to features that are off, and what was said about devices that are given back.
pub fn prepare(cx: &Context, new: &mut Value, old: &Value) {
    let gates: [(&str, &[&str]); 3] = [
        ("DRAConsumableCapacity", &["shareID", "consumedCapacity"]),
        ("DRADeviceBindingConditions", &["bindingConditions", "bindingFailureConditions"]),
        ("DRAOptionalNodeOperations", &["skipNodeOperations"]),
    ];
    for (gate, fields) in gates {
        let uses = |item: &Value| fields.iter().any(|field| !item.field(field).is_empty());
        let used = old.list_at(&RESULTS).iter().chain(old.list_at(&["status", "devices"])).any(uses);
        if cx.features.enabled(gate) || used {
            continue;
        }
        for path in [&RESULTS[..], &["status", "devices"]] {
            for item in new.at_mut(path).and_then(Value::as_list_mut).into_iter().flatten() {
                fields.iter().for_each(|field| {
                    item.remove(&[field]);
                });
            }
        }
    }
    let given: BTreeSet<String> = new.list_at(&RESULTS).iter().map(id).collect();
    let returned: BTreeSet<String> = old.list_at(&RESULTS).iter().map(id).filter(|id| !given.contains(id)).collect();
    if let Some(list) = new.at_mut(&["status", "devices"]).and_then(Value::as_list_mut) {
        list.retain(|device| !returned.contains(&id(device)));
        if list.is_empty() {
            new.remove(&["status", "devices"]);
        }
    }
}

/// Checks a changed status.
pub fn validate(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (status, before) = (new.field("status"), old.field("status"));
    let (allocation, reserved) = (status.field("allocation"), status.field("reservedFor"));
    for consumer in up_to(&reserved, RESERVED_MAX) {
        for field in ["resource", "name", "uid"] {
            consumer.field(field).require(errors);
        }
    }
    let given: BTreeSet<String> = new.value().list_at(&RESULTS).iter().map(id).collect();
    for device in status.field("devices").each() {
        validate_device(&device, &given, errors);
    }
    if !reserved.is_empty() && !allocation.is_set() {
        reserved.forbidden(errors, "may not be specified when `allocated` is not set");
    } else if new.value().is_deleting() {
        fn fields(consumer: &Value) -> [&str; 4] {
            ["apiGroup", "resource", "name", "uid"].map(|field| consumer.str_at(&[field]))
        }
        let known: BTreeSet<[&str; 4]> = before.value().list_at(&["reservedFor"]).iter().map(fields).collect();
        if reserved.each().any(|item| !known.contains(&fields(item.value()))) {
            reserved.forbidden(
                errors,
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            );
        }
    }
    if allocation.is_set() && !before.field("allocation").is_set() {
        validate_allocation(&allocation, &Names::of(new.field("spec").value()), errors);
    }
    RESOURCE.validate(cx, "ResourceClaimStatus", &status, Some(before.value()), errors);
}

/// Devices with adminAccess are reported only in namespaces that are labelled for it.
pub fn authorize_admin(cx: &Context, new: &Value, old: &Value, errors: &mut Errors) {
    let asks = |object: &Value| {
        object.list_at(&RESULTS).iter().position(|result| result.field("adminAccess").as_bool() == Some(true))
    };
    if let (Some(index), None) = (asks(new), asks(old)) {
        let path = Path::of("status.allocation.devices.results").index(index).field("adminAccess");
        require_admin_namespace(cx, &path, errors);
    }
}

/// What tells devices apart, shared ones too.
pub fn id(device: &Value) -> String {
    let [driver, pool, name] = ["driver", "pool", "device"].map(|field| device.str_at(&[field]));
    match device.str_at(&["shareID"]) {
        "" => format!("{driver}/{pool}/{name}"),
        share => format!("{driver}/{pool}/{name}/{share}"),
    }
}

fn validate_device(device: &Cursor, given: &BTreeSet<String>, errors: &mut Errors) {
    devices::driver_name(&device.field("driver"), errors);
    devices::pool_name(&device.field("pool"), errors);
    device.field("device").check(errors, names::dns1123_label);
    if !given.contains(&id(device.value())) {
        let [driver, pool, name, share] =
            ["driver", "pool", "device", "shareID"].map(|field| object::quote(device.field(field).str()));
        let shown = format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{name},"ShareID":{share}}}"#);
        device.invalid_as(errors, BadValue::Raw(shown), "must be an allocated device in the claim");
    }
    let list = device.field("conditions");
    if list.len() > CONDITIONS_MAX {
        errors.too_many(list.path(), list.len(), CONDITIONS_MAX);
    }
    list.each().for_each(|condition| conditions::validate_one(&condition, errors));
    if device.field("data").is_set() {
        devices::raw_object(&device.field("data"), DATA_MAX_BYTES, errors);
    }
    for address in up_to(&device.at(&["networkData", "ips"]), ADDRESSES_MAX) {
        address.check(errors, names::interface_address);
    }
}

fn validate_allocation(allocation: &Cursor, known: &Names, errors: &mut Errors) {
    for result in up_to(&allocation.at(&["devices", "results"]), RESULTS_MAX) {
        known.check(&result.field("request"), errors);
        result.field("device").check(errors, names::dns1123_label);
        devices::binding_conditions(&result, errors);
        result.field("tolerations").each().for_each(|toleration| devices::toleration(&toleration, errors));
        devices::skipped_operations(&result.field("skipNodeOperations"), errors);
    }
    for config in up_to(&allocation.at(&["devices", "config"]), CONFIG_MAX) {
        known.check_all(&config.field("requests"), errors);
        devices::configuration(&config, errors);
    }
    let selector = allocation.field("nodeSelector");
    if selector.is_set() {
        affinity::node_selector(&selector, false, errors);
    }
}
