//! The status of a claim: what was provisioned, and how an expansion is going.

use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::Context;

use super::health;
use crate::common::checks::{Checks, report};
use crate::common::resources;

const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Takes away fields of features that are off, unless the old status has them.
pub fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    for (feature, fields) in [
        ("VolumeAttributesClass", ["currentVolumeAttributesClassName", "modifyVolumeStatus"].as_slice()),
        ("RecoverVolumeExpansionFailure", &["allocatedResources", "allocatedResourceStatuses"]),
        ("CSIVolumeHealth", &["healthStatus"]),
    ] {
        if cx.features.enabled(feature) {
            continue;
        }
        for field in fields {
            if old.at(&["status", field]).is_null() {
                new.remove(&["status", field]);
            }
        }
    }
}

pub fn validate(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    if new.value().resource_version().is_empty() {
        errors.required(&Path::of("resourceVersion"), "");
    }
    if new.at(&["spec", "accessModes"]).is_empty() {
        // Upstream spells the field as its Go struct does.
        errors.required(&Path::of("Spec.accessModes"), "");
    }
    let status = new.field("status");
    for (_, amount) in status.field("capacity").entries() {
        validate_amount(&amount, errors);
    }
    health::validate_reasons(&status.field("healthStatus"), errors);
    validate_resize_statuses(&status.field("allocatedResourceStatuses"), errors);
    validate_allocated(&status.field("allocatedResources"), errors);
    health::validate(cx, &status.field("healthStatus"), old.at(&["status", "healthStatus"]).value(), errors);
}

fn validate_resize_statuses(statuses: &Cursor, errors: &mut Errors) {
    for (resource, status) in statuses.entries() {
        validate_key(resource, statuses.path(), errors);
        if !RESIZE_STATUSES.contains(&status.str()) {
            errors.not_supported(statuses.path(), resource, &RESIZE_STATUSES);
        }
    }
}

fn validate_allocated(allocated: &Cursor, errors: &mut Errors) {
    for (resource, amount) in allocated.entries() {
        if validate_key(resource, allocated.path(), errors) && validate_amount(&amount, errors) {
            resources::amount("storage", &amount, errors);
        }
    }
}

/// Of Kubernetes' own resources a claim can only have storage.
fn validate_key(resource: &str, path: &Path, errors: &mut Errors) -> bool {
    let messages = names::label_key(resource);
    if !messages.is_empty() {
        report(errors, path, resource, messages);
        return false;
    }
    let fine = !resources::is_native(resource) || resource == "storage";
    if !fine {
        errors.not_supported(path, resource, &["storage"]);
    }
    fine
}

fn validate_amount(amount: &Cursor, errors: &mut Errors) -> bool {
    let value = amount.quantity().value();
    if value < 0 {
        errors.invalid(amount.path(), value, "must be a valid resource quantity");
    }
    value >= 0
}
