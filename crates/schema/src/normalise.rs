//! Normalising: a value becomes what a decoder would have made of it.
//!
//! Patches and admission change values without decoding them again. Upstream's objects pass through Go structs, which
//! leave their mark: nulls vanish or become zero values, quantities and times are printed in one way, empty lists are not
//! printed at all. Values that do not fit their place stay as they are, for validation to report.

use object::duration::Duration;
use object::quantity::Quantity;
use object::timestamp::{MicroTime, Time};
use object::{Map, Value};

use crate::MAX_DEPTH;
use crate::types::{Field, Omit, Schema, Shape, StructId};
use crate::zero::{is_zero, zero};

/// Brings a value into the form in which it would be printed.
///
/// For types that have zeros (built-in kinds) nulls become unset fields and zero items, quantities, durations and times
/// take their canonical form, whole floats become ints where ints are expected, and what `omitempty` leaves out is left out.
/// For custom types only nulls that are neither allowed nor about to be replaced by a default are dropped.
pub fn normalise(schema: Schema<'_>, value: &mut Value) {
    walk(schema, value, 0);
}

fn walk(schema: Schema<'_>, value: &mut Value, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    match (&schema.shape, &mut *value) {
        (Shape::Struct(id), Value::Map(map)) => fields(schema, *id, map, depth),
        (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), Value::Map(map)) => {
            fields(schema, *id, map, depth);
        }
        (Shape::StructOrList(id), Value::List(items)) => {
            for item in items.iter_mut().filter_map(Value::as_map_mut) {
                fields(schema, *id, item, depth);
            }
        }
        (Shape::List(inner), Value::List(items)) => {
            let inner = schema.with(inner);
            items.iter_mut().for_each(|item| element(inner, item, depth));
        }
        (Shape::Map(inner), Value::Map(map)) => {
            let inner = schema.with(inner);
            map.retain(|_, item| {
                element(inner, item, depth);
                schema.types.have_zeros() || !is_dropped(inner, item)
            });
        }
        _ if schema.types.have_zeros() => scalar(&schema.shape, value),
        _ => {}
    }
}

/// An item of a list or a value of a map. A null among Go values is a zero value.
fn element(schema: Schema<'_>, value: &mut Value, depth: usize) {
    if value.is_null() && schema.types.have_zeros() {
        *value = zero(&schema.shape);
    }
    walk(schema, value, depth + 1);
}

fn fields(schema: Schema<'_>, id: StructId, map: &mut Map, depth: usize) {
    let known = schema.types.get(id);
    map.retain(|name, child| {
        let Some(field) = known.field(name) else { return true };
        let inner = schema.with(&field.node);
        if is_dropped(inner, child) {
            return false;
        }
        walk(inner, child, depth + 1);
        !is_left_out(inner, field, child)
    });
}

/// A null that means nothing: not allowed, and without a default that would take its place.
fn is_dropped(schema: Schema<'_>, value: &Value) -> bool {
    value.is_null() && !schema.nullable && (schema.types.have_zeros() || schema.default.is_none())
}

/// What Go's `omitempty` would not print.
fn is_left_out(schema: Schema<'_>, field: &Field, value: &Value) -> bool {
    if field.pointer || !schema.types.have_zeros() {
        return false;
    }
    match field.omit {
        Omit::Never => false,
        Omit::Zero => is_zero(schema, value),
        Omit::Nil => match value {
            Value::List(items) => items.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::String(text) => matches!(schema.shape, Shape::Bytes) && text.is_empty(),
            _ => false,
        },
    }
}

/// Floats from here on are not all whole numbers of their own any more.
const EXACT_FLOATS: f64 = 9_007_199_254_740_992.0;

fn scalar(shape: &Shape, value: &mut Value) {
    let canonical = match (shape, &*value) {
        (Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Float(f)) => {
            (f.fract() == 0.0 && f.abs() < EXACT_FLOATS).then(|| Value::Int(*f as i64))
        }
        (Shape::Quantity, Value::String(text)) => quantity(text),
        (Shape::Quantity, Value::Int(i)) => quantity(&i.to_string()),
        (Shape::Quantity, Value::Float(f)) => quantity(&f.to_string()),
        (Shape::Time, Value::String(text)) => Time::parse(text).ok().map(|time| time.to_string().into()),
        (Shape::MicroTime, Value::String(text)) => MicroTime::parse(text).ok().map(|time| time.to_string().into()),
        (Shape::Duration, Value::String(text)) => Duration::parse(text).ok().map(|d| d.to_string().into()),
        _ => None,
    };
    if let Some(canonical) = canonical {
        *value = canonical;
    }
}

fn quantity(text: &str) -> Option<Value> {
    Quantity::parse_json(text).ok().map(|q| q.to_string().into())
}

#[cfg(test)]
mod tests;
