//! Objects as Go's structs hold them.
//!
//! Upstream tracks the fields of built-in kinds on Go structs, where a field exists when the encoder would print it:
//! `resources: {}` of a container is present although the client did not write it, and an empty list is absent although it did.

use object::{Map, Value};
use schema::{Field, Omit, Schema, Shape, Struct};

use super::items::zero;
use super::walk::Walk;

/// How Go writes a time that was never set, in either precision.
pub(super) const ZERO_TIME: &str = "0001-01-01T00:00:00";

/// The value with exactly the fields that Go would print.
pub(crate) fn structured(value: &Value, schema: Schema<'_>) -> Value {
    walk(value, schema, Raw::Opened)
}

/// The same, with opaque text as it was written.
pub(crate) fn as_written(value: &Value, schema: Schema<'_>) -> Value {
    walk(value, schema, Raw::Kept)
}

/// The same without managedFields, for tracking fields.
pub(crate) fn tracked(value: &Value, schema: Schema<'_>) -> Value {
    walk(value, schema, Raw::Tracked)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    Opened,
    Tracked,
    Kept,
}

fn walk(value: &Value, schema: Schema<'_>, raw: Raw) -> Value {
    match (&schema.node.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => Value::Map(fields(map, schema, schema.types.get(*id), raw)),
        (Shape::List(items), Value::List(list)) => {
            let items = schema.with(items);
            Value::List(list.iter().map(|item| walk(item, items, raw)).collect())
        }
        (Shape::Map(values), Value::Map(map)) => {
            let values = schema.with(values);
            Value::Map(map.iter().map(|(key, value)| (key, walk(value, values, raw))).collect())
        }
        (Shape::Fields, _) if raw == Raw::Tracked => Value::Null,
        (_, Value::Raw(text)) if raw != Raw::Kept => codec::json::open(text),
        (Shape::Time | Shape::MicroTime, Value::String(text)) if text.starts_with(ZERO_TIME) => Value::Null,
        _ => value.clone(),
    }
}

fn fields(map: &Map, schema: Schema<'_>, of: &Struct, raw: Raw) -> Map {
    let mut out = Vec::with_capacity(map.len() + 2);
    let mut entries = Walk::of(map);
    for field in &of.fields {
        let value = entries.next(&field.name);
        if is_left_out(field, value) {
            continue;
        }
        let schema = schema.with(&field.node);
        let value = match value {
            Some(value) => walk(value, schema, raw),
            None if field.pointer => Value::Null,
            None => walk(&zero(schema), schema, raw),
        };
        out.push((field.name.clone(), value));
    }
    if of.preserve_unknown {
        let unknown = map.iter().filter(|(key, _)| of.field(key).is_none());
        out.extend(unknown.map(|(key, value)| (key.into(), value.clone())));
    }
    Map::from_entries(out, |_| ())
}

/// Whether Go leaves out a field that holds this.
pub(super) fn is_left_out(field: &Field, value: Option<&Value>) -> bool {
    let Some(value) = value else { return field.omit != Omit::Never };
    match (field.omit, &field.node.shape) {
        (Omit::Never, _) => false,
        (Omit::Nil, Shape::List(_) | Shape::Map(_) | Shape::Bytes) => value.is_empty(),
        (Omit::Nil, _) => false,
        (Omit::Zero, Shape::Time | Shape::MicroTime) => value.as_str().is_some_and(|text| text.starts_with(ZERO_TIME)),
        (Omit::Zero, _) => value.is_empty(),
    }
}
