//! Pieces that claims, classes, slices and taint rules share.

use std::collections::BTreeSet;

use object::timestamp::{Clock, SystemClock, Time};
use object::{BadValue, Cursor, Errors, Value, names};
use schema::{Node, Schema, Shape, builtin};

use crate::common::checks::Checks;

pub const SELECTORS_MAX: usize = 32;
pub const CONFIG_MAX: usize = 32;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;
const PARAMETERS_MAX_BYTES: usize = 10 * 1024;
const DRIVER_MAX_BYTES: usize = 63;
const POOL_MAX_BYTES: usize = 253;
pub const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// `value` as a message shows it: fields in the order of the v1 type, and only those that are set.
pub fn shown(type_name: &str, value: &Value) -> BadValue {
    let mut out = Vec::new();
    let node = builtin().types().find(&format!("io.k8s.api.resource.v1.{type_name}"));
    let node = node.map(|id| Node { shape: Shape::Struct(id), ..Node::default() });
    codec::json::encode(value, node.as_ref().map(|node| Schema::new(builtin().types(), node)), &mut out);
    BadValue::Raw(String::from_utf8_lossy(&out).into_owned())
}

/// The name of a driver.
pub fn driver_name(name: &Cursor, errors: &mut Errors) {
    if !name.require(errors) {
        return;
    }
    if name.str().len() > DRIVER_MAX_BYTES {
        errors.too_long(name.path(), DRIVER_MAX_BYTES);
    }
    name.invalid_each(errors, names::dns1123_subdomain(&name.str().to_lowercase()));
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

/// Selectors of devices; what the expressions say is not looked at here.
pub fn selectors(list: &Cursor, errors: &mut Errors) {
    for selector in list.each() {
        let cel = selector.field("cel");
        let expression = cel.field("expression");
        if !cel.is_set() {
            cel.required(errors, "");
        } else if expression.str().len() > EXPRESSION_MAX_BYTES {
            errors.too_long(expression.path(), EXPRESSION_MAX_BYTES);
        }
    }
}

/// A configuration that only a driver understands.
pub fn configuration(config: &Cursor, errors: &mut Errors) {
    let opaque = config.field("opaque");
    if !opaque.is_set() {
        return opaque.required(errors, "");
    }
    let parameters = opaque.field("parameters");
    match parameters.value() {
        Value::Null => parameters.required(errors, ""),
        Value::Map(_) => {
            let mut raw = Vec::new();
            codec::json::encode(parameters.value(), None, &mut raw);
            if raw.len() > PARAMETERS_MAX_BYTES {
                errors.too_long(parameters.path(), PARAMETERS_MAX_BYTES);
            }
        }
        _ => parameters.invalid_as(errors, "<value omitted>", "must be a valid JSON object"),
    }
}

/// What upstream declares about configurations.
pub fn configuration_declared(config: &Cursor, errors: &mut Errors) {
    if config.field("opaque").is_set() {
        driver_name(&config.at(&["opaque", "driver"]), errors);
    }
}

/// A list that may not be longer, and where a key may not come twice.
pub fn set(list: &Cursor, max: usize, type_name: &str, key: impl Fn(&Cursor) -> String, errors: &mut Errors) {
    if list.len() > max {
        errors.too_many(list.path(), list.len(), max);
    }
    let mut seen = BTreeSet::new();
    for item in list.each().filter(|item| !seen.insert(key(item))) {
        match item.value() {
            Value::Map(_) => errors.duplicate_as(&item, shown(type_name, item.value())),
            _ => item.duplicate(errors),
        }
    }
}

trait Duplicates {
    fn duplicate_as(&mut self, item: &Cursor, shown: BadValue);
}

impl Duplicates for Errors {
    fn duplicate_as(&mut self, item: &Cursor, shown: BadValue) {
        self.push(object::FieldError::new(object::ErrorType::Duplicate, item.path(), shown, ""));
    }
}

/// Checks a taint; one that is not new may keep its effect.
pub fn taint(taint: &Cursor, errors: &mut Errors) {
    taint.field("key").check(errors, names::label_key);
    taint.field("value").check(errors, names::label_value);
}

pub fn taint_declared(taint: &Cursor, errors: &mut Errors) {
    taint.field("effect").require_one_of(errors, &EFFECTS);
}

/// Fills in when a taint was added.
///
/// It is a default upstream, given before anything of the request is known but the object; hence the clock.
pub fn stamp_taint(taint: &mut Value) {
    if taint.field("timeAdded").is_null() {
        taint.set(&["timeAdded"], Time(SystemClock.now().truncate_to_seconds()).to_string());
    }
}
