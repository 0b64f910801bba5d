//! Pieces that claims, classes, slices and taint rules share.

use std::collections::BTreeSet;

use cel::device;
use cel::policy::Refusal;
use object::timestamp::{Clock, SystemClock, Time};
use object::{Cursor, Errors, Value, names};
use registry::Context;

use super::claim::up_to;
use crate::common::checks::Checks;

pub const SELECTORS_MAX: usize = 32;
pub const CONFIG_MAX: usize = 32;
const BINDING_MAX: usize = 4;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;
const EXPRESSION_MAX_COST: u64 = 1_000_000;
const PARAMETERS_MAX_BYTES: usize = 10 * 1024;
const DRIVER_MAX_BYTES: usize = 63;
const POOL_MAX_BYTES: usize = 253;

/// The name of a driver.
pub fn driver_name(name: &Cursor, errors: &mut Errors) {
    if name.require(errors) {
        driver_domain(name, name.str(), errors);
    }
}

/// As [`driver_name`], for a domain that stands in a longer name.
pub fn driver_domain(at: &Cursor, domain: &str, errors: &mut Errors) {
    if domain.len() > DRIVER_MAX_BYTES {
        errors.too_long(at.path(), DRIVER_MAX_BYTES);
    }
    for message in names::dns1123_subdomain(&domain.to_lowercase()) {
        at.invalid_as(errors, domain, message);
    }
}

/// The name of a pool: domains with slashes between them.
pub fn pool_name(name: &Cursor, errors: &mut Errors) {
    if !name.require(errors) {
        return;
    }
    if name.str().len() > POOL_MAX_BYTES {
        errors.too_long(name.path(), POOL_MAX_BYTES);
    }
    for part in name.str().split('/') {
        for message in names::dns1123_subdomain(part) {
            name.invalid_as(errors, part, message);
        }
    }
}

/// Selectors of devices. Expressions that are stored already were checked when they were written.
pub fn selectors(cx: &Context, list: &Cursor, stored: bool, errors: &mut Errors) {
    for selector in up_to(list, SELECTORS_MAX) {
        let cel = selector.field("cel");
        if !cel.is_set() {
            cel.required(errors, "");
        } else if !stored {
            expression(cx, &cel.field("expression"), errors);
        }
    }
}

fn expression(cx: &Context, expression: &Cursor, errors: &mut Errors) {
    if expression.str().len() > EXPRESSION_MAX_BYTES {
        return errors.too_long(expression.path(), EXPRESSION_MAX_BYTES);
    }
    let features = device::Features {
        consumable_capacity: cx.features.enabled("DRAConsumableCapacity"),
        list_attributes: cx.features.enabled("DRAListTypeAttributes"),
    };
    match device::check(expression.str(), features) {
        Ok(cost) if cost > EXPRESSION_MAX_COST => {
            errors.forbidden(expression.path(), "too complex, exceeds cost limit");
        }
        Ok(_) => {}
        Err(Refusal::Invalid(why)) => expression.invalid_as(errors, expression.str(), why),
        Err(Refusal::Internal(why)) => errors.internal(expression.path(), why),
    }
}

/// A configuration that only a driver understands.
pub fn configuration(config: &Cursor, errors: &mut Errors) {
    let opaque = config.field("opaque");
    if opaque.is_set() {
        raw_object(&opaque.field("parameters"), PARAMETERS_MAX_BYTES, errors);
    } else {
        opaque.required(errors, "");
    }
}

/// An object of whatever form, but not too long.
pub fn raw_object(field: &Cursor, max_bytes: usize, errors: &mut Errors) {
    match field.value() {
        Value::Null => field.required(errors, ""),
        Value::Raw(raw) if raw.text().len() > max_bytes => errors.too_long(field.path(), max_bytes),
        Value::Raw(raw) if raw.is_object() => {}
        _ => field.invalid_as(errors, "<value omitted>", "must be a valid JSON object"),
    }
}

/// What else is to be said about a toleration than what upstream declares.
pub fn toleration(toleration: &Cursor, errors: &mut Errors) {
    let value = toleration.field("value");
    match toleration.field("operator").str() {
        "Exists" if !value.is_empty() => value.bad(errors, "must be empty for operator `Exists`"),
        "Equal" => value.check(errors, names::label_value),
        _ => {}
    }
}

/// The same for a taint.
pub fn taint(taint: &Cursor, errors: &mut Errors) {
    taint.field("key").check(errors, names::label_key);
    taint.field("value").check(errors, names::label_value);
}

/// What a device waits for before pods may be bound to its node: conditions, and conditions that end the wait.
pub fn binding_conditions(of: &Cursor, errors: &mut Errors) {
    let (conditions, failures) = (of.field("bindingConditions"), of.field("bindingFailureConditions"));
    for condition in up_to(&conditions, BINDING_MAX).chain(up_to(&failures, BINDING_MAX)) {
        condition.check(errors, names::label_key);
    }
    let (mut seen, mut seen_failures) = (BTreeSet::new(), BTreeSet::new());
    for condition in conditions.each().filter(|condition| !seen.insert(condition.str())) {
        condition.duplicate(errors);
    }
    for condition in failures.each() {
        if !seen_failures.insert(condition.str()) {
            condition.duplicate(errors);
        }
        if seen.contains(condition.str()) {
            condition.bad(errors, "bindingFailureConditions must not overlap with bindingConditions");
        }
    }
    if conditions.is_empty() && !failures.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        conditions.invalid(errors, detail);
    }
    if failures.is_empty() && !conditions.is_empty() {
        failures.invalid(errors, "bindingFailureConditions are required to use bindingConditions");
    }
}

/// What a node need not do for a device: it cannot leave out the preparation alone.
pub fn skipped_operations(list: &Cursor, errors: &mut Errors) {
    let has = |wanted: &str| list.strs().any(|operation| operation == wanted);
    if has("NodePrepareResources") && !has("NodeUnprepareResources") && !has("*") {
        list.invalid(errors, "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped");
    }
}

/// Fills in when a taint was added.
///
/// It is a default upstream, given before anything of the request is known but the object; hence the clock.
pub fn stamp_taint(taint: &mut Value) {
    if taint.field("timeAdded").is_null() {
        taint.set(&["timeAdded"], Time(SystemClock.now().truncate_to_seconds()).to_string());
    }
}
