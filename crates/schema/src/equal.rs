//! Equality as Kubernetes defines it.

use object::duration::Duration;
use object::quantity::Quantity;
use object::timestamp::{MicroTime, Time};
use object::{Map, Value};

use crate::MAX_DEPTH;
use crate::types::{Schema, Shape, Struct, StructId};
use crate::zero::is_zero;

/// Whether two values are the same to upstream's semantic equality: nil and empty lists and maps are alike, as are unset
/// and zero fields that Go holds by value; quantities are compared by number, times by instant.
///
/// Custom types have no zeros, so their values are equal when they are identical.
pub fn equal(schema: Schema<'_>, a: &Value, b: &Value) -> bool {
    if !schema.types.have_zeros() {
        return a == b;
    }
    same(schema, a, b, 0)
}

fn same(schema: Schema<'_>, a: &Value, b: &Value, depth: usize) -> bool {
    // Beyond any real depth: identical or not is all that is asked.
    if depth >= MAX_DEPTH {
        return a == b;
    }
    match (&schema.shape, a, b) {
        (Shape::Struct(id), Value::Map(a), Value::Map(b)) => same_fields(schema, *id, a, b, depth),
        (
            Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id),
            Value::Map(a),
            Value::Map(b),
        ) => same_fields(schema, *id, a, b, depth),
        (Shape::List(inner), Value::List(a), Value::List(b)) => {
            let inner = schema.with(inner);
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_elements(inner, a, b, depth))
        }
        (Shape::Map(inner), Value::Map(a), Value::Map(b)) => {
            let inner = schema.with(inner);
            a.len() == b.len()
                && a.entries()
                    .iter()
                    .zip(b.entries())
                    .all(|(a, b)| a.0 == b.0 && same_elements(inner, &a.1, &b.1, depth))
        }
        (shape, a, b) => a == b || same_scalars(shape, a, b) || (a.is_null() != b.is_null() && both_zero(schema, a, b)),
    }
}

fn same_elements(schema: Schema<'_>, a: &Value, b: &Value, depth: usize) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => same(schema, a, b, depth + 1),
        _ => both_zero(schema, a, b),
    }
}

fn both_zero(schema: Schema<'_>, a: &Value, b: &Value) -> bool {
    is_zero(schema, a) && is_zero(schema, b)
}

fn same_fields(schema: Schema<'_>, id: StructId, a: &Map, b: &Map, depth: usize) -> bool {
    let known = schema.types.get(id);
    let (mut left, mut right) = (a.entries().iter().peekable(), b.entries().iter().peekable());
    // Both are sorted by name, so the fields of one or the other come by in one pass.
    loop {
        let (name, a, b) = match (left.peek(), right.peek()) {
            (None, None) => return true,
            (Some(l), Some(r)) if l.0 == r.0 => (&l.0, left.next(), right.next()),
            (Some(l), Some(r)) if l.0 > r.0 => (&r.0, None, right.next()),
            (Some(l), _) => (&l.0, left.next(), None),
            (None, Some(r)) => (&r.0, None, right.next()),
        };
        let (a, b) = (a.map_or(&Value::Null, |e| &e.1), b.map_or(&Value::Null, |e| &e.1));
        if !same_field(schema, known, name, a, b, depth) {
            return false;
        }
    }
}

fn same_field(schema: Schema<'_>, known: &Struct, name: &str, a: &Value, b: &Value, depth: usize) -> bool {
    let Some(field) = known.field(name) else { return a == b };
    let inner = schema.with(&field.node);
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => same(inner, a, b, depth + 1),
        _ => !field.pointer && both_zero(inner, a, b),
    }
}

fn same_scalars(shape: &Shape, a: &Value, b: &Value) -> bool {
    match (shape, a, b) {
        (Shape::Quantity, a, b) => match (quantity(a), quantity(b)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        },
        (Shape::Float | Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Int(i), Value::Float(f))
        | (Shape::Float | Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Float(f), Value::Int(i)) => {
            *i as f64 == *f
        }
        (Shape::Time, Value::String(a), Value::String(b)) => same_parsed(Time::parse(a), Time::parse(b)),
        (Shape::MicroTime, Value::String(a), Value::String(b)) => same_parsed(MicroTime::parse(a), MicroTime::parse(b)),
        (Shape::Duration, Value::String(a), Value::String(b)) => same_parsed(Duration::parse(a), Duration::parse(b)),
        _ => false,
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Int(i) => Quantity::parse(&i.to_string()).ok(),
        _ => None,
    }
}

fn same_parsed<T: PartialEq, E>(a: Result<T, E>, b: Result<T, E>) -> bool {
    matches!((a, b), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests;
