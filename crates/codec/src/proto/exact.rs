//! Whether a value is read as it was written.
//!
//! Protobuf has no form for some of what a value can say: an empty list is no list, a zero held by value is nothing, a
//! quantity is read in its canonical spelling. A value without any of these need not be decoded to know what decoding
//! would give.

use object::{Map, Value, compare_names};
use schema::{Field, Schema, Shape, Struct};

use crate::fields::is_unset;
use crate::scalar::{self, is_zero_time};
use crate::{MAX_DEPTH, base64};

/// Whether decoding what [`super::encode`] makes of a value gives the same value. False also where that would be too much
/// work to find out.
pub fn is_exact(value: &Value, schema: Schema<'_>) -> bool {
    let (Some(map), Some(of)) = (value.as_map(), schema.as_struct()) else { return false };
    // The envelope has these two.
    let is_stated = |name: &str| map.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    is_stated("apiVersion") && is_stated("kind") && fields(map, schema, of, &["apiVersion", "kind"], 1)
}

fn fields(map: &Map, schema: Schema<'_>, of: &Struct, known: &[&str], depth: usize) -> bool {
    // Both are sorted by name.
    let mut definitions = of.fields.iter().peekable();
    map.iter().all(|(key, value)| {
        while definitions.next_if(|field| compare_names(&field.name, key).is_lt()).is_some() {}
        let field = definitions.next_if(|field| field.name.as_str() == key);
        known.contains(&key)
            || field.is_some_and(|field| {
                is_written(field, schema, of)
                    && !is_unset(field, value)
                    && exact(value, schema.with(&field.node), depth)
            })
    })
}

/// Whether a field has a place in the message, be it in a struct that Go embeds.
fn is_written(field: &Field, schema: Schema<'_>, of: &Struct) -> bool {
    let embedded = |target: &Struct| target.field(&field.name).is_some_and(|inner| inner.tag != 0);
    field.tag != 0 || of.proto_inlines.iter().any(|inline| embedded(schema.types.get(inline.target)))
}

fn exact(value: &Value, schema: Schema<'_>, depth: usize) -> bool {
    if depth >= MAX_DEPTH {
        return false;
    }
    match (&schema.shape, value) {
        (Shape::Bool, Value::Bool(_)) | (Shape::Int64, Value::Int(_)) | (Shape::String, Value::String(_)) => true,
        (Shape::Int32, Value::Int(number)) => i32::try_from(*number).is_ok(),
        (Shape::IntOrString, Value::Int(number)) => i32::try_from(*number).is_ok(),
        (Shape::IntOrString, Value::String(_)) => true,
        (Shape::Struct(id), Value::Map(map)) => fields(map, schema, schema.types.get(*id), &[], depth + 1),
        (Shape::List(items), Value::List(list)) if !schema.proto_wrapped => {
            let items = schema.with(items);
            !list.is_empty()
                && !matches!(items.shape, Shape::List(_))
                && list.iter().all(|item| exact(item, items, depth + 1))
        }
        (Shape::Map(values), Value::Map(map)) => {
            let values = schema.with(values);
            let is_plain = !matches!(values.shape, Shape::List(_) | Shape::Map(_));
            !map.is_empty() && is_plain && map.values().all(|value| exact(value, values, depth + 1))
        }
        (Shape::Bytes, Value::String(text)) => {
            base64::decode(text).is_ok_and(|bytes| base64::encode(&bytes) == text.as_str())
        }
        (Shape::Quantity, Value::String(text)) => scalar::quantity(text).is_ok_and(|canonical| canonical == *text),
        (Shape::Duration, Value::String(text)) => scalar::duration(text).is_ok_and(|canonical| canonical == *text),
        (Shape::Time, Value::String(text)) => {
            !is_zero_time(text) && scalar::time(text).is_ok_and(|canonical| canonical == *text)
        }
        (Shape::MicroTime, Value::String(text)) => {
            !is_zero_time(text) && scalar::micro_time(text).is_ok_and(|canonical| canonical == *text)
        }
        (Shape::Fields, Value::Raw(raw)) => raw.text().starts_with('{') && raw.text().ends_with('}'),
        _ => false,
    }
}
