//! Go's zero values: what a field that was never set is, where it is not held by a pointer.

use object::Value;
use object::quantity::Quantity;

use crate::MAX_DEPTH;
use crate::types::{Schema, Shape};

/// Whether a value at this place is what an unset one would be. Null always is.
pub fn is_zero(schema: Schema<'_>, value: &Value) -> bool {
    zero_at(schema, value, 0)
}

fn zero_at(schema: Schema<'_>, value: &Value, depth: usize) -> bool {
    match (&schema.shape, value) {
        (_, Value::Null) => true,
        (Shape::Bool, Value::Bool(b)) => !b,
        (Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString, Value::Int(i)) => *i == 0,
        (Shape::Int32 | Shape::Int64 | Shape::Float, Value::Float(f)) => *f == 0.0,
        (Shape::String | Shape::Bytes, Value::String(s)) => s.is_empty(),
        (Shape::Quantity, Value::String(s)) => Quantity::parse(s).is_ok_and(|q| q.is_zero()),
        (Shape::Quantity, Value::Int(i)) => *i == 0,
        (Shape::Duration, Value::String(s)) => object::duration::Duration::parse(s).is_ok_and(|d| d.0 == 0),
        (Shape::List(_), Value::List(items)) => items.is_empty(),
        (Shape::Map(_), Value::Map(map)) => map.is_empty(),
        (Shape::Struct(id), Value::Map(map)) => {
            let known = schema.types.get(*id);
            depth < MAX_DEPTH
                && map.iter().all(|(name, value)| match known.field(name) {
                    Some(field) if field.pointer => value.is_null(),
                    Some(field) => zero_at(schema.with(&field.node), value, depth + 1),
                    None => false,
                })
        }
        _ => false,
    }
}

/// The zero value of a list's item or a map's value, which a null there becomes: null where zero prints as null.
pub fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => Value::Int(0),
        Shape::String => Value::from(""),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::Struct(_) => Value::map(),
        _ => Value::Null,
    }
}
