//! ResourceSlices: the devices that a driver offers.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Map, Meta, Value, names};
use registry::{Context, Facts, FieldRefusal, Strategy, columns};

use super::claim::up_to;
use super::{device, devices};
use crate::common::checks::{Checks, immutable, immutable_text};
use crate::common::declared::RESOURCE;
use crate::common::pod_spec::affinity;
use crate::common::{internal, named, versioned};

const DEVICES_MAX: usize = 128;
/// Where devices have taints or share counters, each of them costs more.
const DEVICES_MAX_ADVANCED: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const SPEC: &str = "io.k8s.api.resource.v1.ResourceSliceSpec";
const ONE_TERM: &str = "must have exactly one node selector term";

pub struct ResourceSlice;

const FACTS: Facts = Facts {
    generation: Some(|_, _| false),
    returns_deleted_object: true,
    selects_by_namespace: false,
    selectable_fields: object::strs!["spec.nodeName", "spec.driver", "spec.pool.name"],
    field_refusal: FieldRefusal::ForVersion,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for ResourceSlice {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        stamp_taints(object);
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        // What is dropped below counts as a change all the same.
        if !versioned::same(SPEC, new.field("spec"), old.field("spec")) {
            new.set_generation(old.generation() + 1);
        }
        drop_disabled(cx, new, old);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, &object.field("spec"), None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(cx, &new.field("spec"), Some(&old.field("spec")), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = object::quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
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
    for_each_device(object, |device| {
        for taint in device.get_mut("taints").and_then(Value::as_list_mut).into_iter().flatten() {
            devices::stamp_taint(taint);
        }
    });
}

fn for_each_device(object: &mut Value, change: impl FnMut(&mut Value)) {
    object.at_mut(&["spec", "devices"]).and_then(Value::as_list_mut).into_iter().flatten().for_each(change);
}

/// Fields of devices that belong to features.
const GATED: [(&str, &[&str]); 4] = [
    ("DRAPartitionableDevices", &["consumesCounters", "nodeName", "nodeSelector", "allNodes"]),
    ("DRADeviceBindingConditions", &["bindingConditions", "bindingFailureConditions", "bindsToNode"]),
    ("DRAConsumableCapacity", &["allowMultipleAllocations"]),
    ("DRANodeAllocatableResources", &["nodeAllocatableResources"]),
];
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// Drops what belongs to features that are off, unless the slice has it already.
fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    let before = old.list_at(&["spec", "devices"]);
    let off = |gate: &str, used: bool| !used && !cx.features.enabled(gate);
    let mut fields: Vec<&str> = Vec::new();
    for (gate, of_gate) in GATED {
        if off(gate, before.iter().any(|device| of_gate.iter().any(|field| !device.field(field).is_null()))) {
            fields.extend(of_gate);
        }
    }
    let of_spec = [
        ("DRAPartitionableDevices", "sharedCounters"),
        ("DRAPartitionableDevices", "perDeviceNodeSelection"),
        ("DRAPartitionableDevicesType", "partitionTypeAttribute"),
        ("DRAOptionalNodeOperations", "skipNodeOperations"),
    ];
    for (gate, field) in of_spec {
        if off(gate, !old.at(&["spec", field]).is_null()) {
            new.remove(&["spec", field]);
        }
    }
    let counters = |device: &Value| device.list_at(&["consumesCounters"]).to_vec();
    let groups = before.iter().flat_map(counters).any(|c| !c.field("compatibilityGroups").is_empty());
    let no_groups = off("DRADeviceCompatibilityGroups", groups);
    let entries = |device: &Value, field: &str| device.field(field).as_map().cloned().unwrap_or_default();
    let policies =
        before.iter().any(|d| entries(d, "capacity").iter().any(|(_, c)| !c.field("requestPolicy").is_null()));
    let no_policies = fields.contains(&"allowMultipleAllocations") && !policies;
    let has_list = |attribute: &Value| LISTS.iter().any(|list| !attribute.field(list).is_null());
    let lists = before.iter().any(|device| entries(device, "attributes").iter().any(|(_, a)| has_list(a)));
    let no_lists = off("DRAListTypeAttributes", lists);
    for_each_device(new, |device| {
        fields.iter().for_each(|field| {
            device.remove(&[field]);
        });
        for counters in device.get_mut("consumesCounters").and_then(Value::as_list_mut).into_iter().flatten() {
            if no_groups {
                counters.remove(&["compatibilityGroups"]);
            }
        }
        for (_, capacity) in device.get_mut("capacity").and_then(Value::as_map_mut).into_iter().flat_map(Map::iter_mut)
        {
            if no_policies {
                capacity.remove(&["requestPolicy"]);
            }
        }
        for (_, attribute) in
            device.get_mut("attributes").and_then(Value::as_map_mut).into_iter().flat_map(Map::iter_mut)
        {
            for list in LISTS.iter().filter(|_| no_lists) {
                attribute.remove(&[list]);
            }
        }
    });
}

fn validate_spec(cx: &Context, spec: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
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
        for path in [&["pool", "name"][..], &["driver"]] {
            immutable_text(&spec.at(path), &old.at(path), errors);
        }
        immutable(&spec.field("nodeName"), &old.field("nodeName"), errors);
    }
    validate_place(spec, errors);
    let (counters, list) = (spec.field("sharedCounters"), spec.field("devices"));
    if counters.is_set() && list.is_set() {
        spec.invalid_as(errors, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    validate_devices(spec, &list, old, errors);
    for set in up_to(&counters, COUNTER_SETS_MAX) {
        device::counters(&set.field("counters"), errors);
    }
    if spec.field("partitionTypeAttribute").is_set() {
        validate_partition_type(spec, errors);
    }
    devices::skipped_operations(&spec.field("skipNodeOperations"), errors);
    RESOURCE.validate(cx, "ResourceSliceSpec", spec, old.map(Cursor::value), errors);
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
        affinity::node_selector(&selector, false, errors);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid_as(errors, internal::shown("[]NodeSelectorTerm", terms.value()), ONE_TERM);
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

fn validate_devices(spec: &Cursor, list: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let has_lists = |device: &Cursor| {
        device
            .field("attributes")
            .entries()
            .any(|(_, attribute)| LISTS.iter().any(|list| attribute.field(list).is_set()))
    };
    let is_advanced = |device: &Cursor| {
        !device.field("taints").is_empty() || !device.field("consumesCounters").is_empty() || has_lists(device)
    };
    let max = if list.each().any(|device| is_advanced(&device)) { DEVICES_MAX_ADVANCED } else { DEVICES_MAX };
    if list.len() > max {
        return errors.too_many(list.path(), list.len(), max);
    }
    let placed = spec.field("perDeviceNodeSelection").bool();
    let before = named::first_by_name(old.map_or(&[], |old| old.value().list_at(&["devices"])));
    for device in list.each() {
        device::validate(&device, before.get(device.field("name").str()).copied(), placed, errors);
    }
    let mut seen = BTreeSet::new();
    for device in list.each().filter(|device| !seen.insert(device.field("name").str())) {
        errors.duplicate(device.path(), device.field("name").str());
    }
}

/// Devices that share counters say by one attribute which kind of part they are.
fn validate_partition_type(spec: &Cursor, errors: &mut Errors) {
    let attribute = spec.field("partitionTypeAttribute");
    let name = attribute.str();
    let consuming = |device: &Cursor| !device.field("consumesCounters").is_empty();
    if !spec.field("devices").each().any(|device| consuming(&device)) {
        return attribute.bad(errors, "may only be set on a slice which declares devices that consume counters");
    }
    if !names::resource_fully_qualified_name(name).is_empty() {
        return;
    }
    let bare = name.strip_prefix(&format!("{}/", spec.field("driver").str())).unwrap_or("");
    for device in spec.field("devices").each().filter(consuming) {
        let attributes = device.field("attributes");
        let found = [name, bare].into_iter().find(|key| !key.is_empty() && attributes.key(key).is_set());
        let named = attributes.key(name);
        match found.map(|key| attributes.key(key)) {
            None => named.required(
                errors,
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set",
            ),
            Some(found) if !found.field("string").is_set() => named.invalid_as(
                errors,
                internal::shown("DeviceAttribute", found.value()),
                "must be a string value because `partitionTypeAttribute` names this attribute",
            ),
            Some(_) => {}
        }
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
