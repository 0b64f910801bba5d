//! Values to protobuf.

use object::duration::Duration;
use object::timestamp::{MicroTime, Time, Timestamp};
use object::{Map, Value};
use schema::{Field, Schema, Shape, Struct};

use super::envelope::Envelope;
use super::wire::{FIXED64, write_bytes, write_int, write_nested, write_tag};
use crate::fields::Places;
use crate::{EncodeError, base64, json};

type Written = Result<(), EncodeError>;

/// Appends an object in its envelope. The kind is what the value says it is.
pub fn encode(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    Envelope::write(api_version, kind, out, |out| encode_message(value, schema, out))
}

/// Appends the message alone, without envelope.
pub fn encode_message(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    let of = schema.as_struct().ok_or_else(|| EncodeError::new("only structs have a protobuf form"))?;
    let empty = Map::new();
    message(value.as_map().unwrap_or(&empty), schema, of, out)
}

/// The fields of a struct and the structs embedded in it, all by ascending tag.
fn message(map: &Map, schema: Schema<'_>, of: &Struct, out: &mut Vec<u8>) -> Written {
    let places = Places::of(map, of);
    let mut inlines = of.proto_inlines.iter().peekable();
    for &index in &of.proto_order {
        let field = &of.fields[index as usize];
        while let Some(inline) = inlines.next_if(|inline| inline.tag < field.tag) {
            write_nested(inline.tag, out, |out| message(map, schema, schema.types.get(inline.target), out))?;
        }
        let value = places.get(index as usize).map_or(&Value::Null, |at| &map.entries()[at].1);
        write_field(field, value, schema.with(&field.node), out)?;
    }
    for inline in inlines {
        write_nested(inline.tag, out, |out| message(map, schema, schema.types.get(inline.target), out))?;
    }
    Ok(())
}

fn write_field(field: &Field, value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    match (&schema.shape, value) {
        (Shape::List(items), Value::List(list)) if !schema.proto_wrapped => {
            list.iter().try_for_each(|item| write_value(field.tag, item, schema.with(items), out))
        }
        (Shape::Map(values), Value::Map(map)) => {
            map.iter().try_for_each(|(key, value)| write_entry(field.tag, key, value, schema.with(values), out))
        }
        (Shape::List(_) | Shape::Map(_) | Shape::Bytes, Value::Null) => Ok(()),
        (_, Value::Null) if field.pointer => Ok(()),
        _ => write_value(field.tag, value, schema, out),
    }
}

fn write_entry(tag: u32, key: &str, value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    write_nested(tag, out, |out| {
        write_bytes(1, key.as_bytes(), out);
        match (&schema.shape, value) {
            (Shape::Bytes, Value::Null) => Ok(()),
            _ => write_value(2, value, schema, out),
        }
    })
}

/// A value that is written in any case; null stands for Go's zero.
fn write_value(tag: u32, value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    match &schema.shape {
        Shape::Bool => write_int(tag, i64::from(value.as_bool().unwrap_or(false)), out),
        Shape::Int32 | Shape::Int64 => write_int(tag, int(value), out),
        Shape::Float => {
            write_tag(tag, FIXED64, out);
            out.extend_from_slice(&value.as_float().unwrap_or(0.0).to_le_bytes());
        }
        Shape::String => write_bytes(tag, text(value).as_bytes(), out),
        Shape::Bytes => {
            let bytes = base64::decode(text(value)).map_err(|e| EncodeError::new(e.to_string()))?;
            write_bytes(tag, &bytes, out);
        }
        _ => return write_nested(tag, out, |out| write_message(value, schema, out)),
    }
    Ok(())
}

/// The inside of a value that is a message.
fn write_message(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    match &schema.shape {
        Shape::Struct(id) => {
            let empty = Map::new();
            return message(value.as_map().unwrap_or(&empty), schema, schema.types.get(*id), out);
        }
        Shape::List(items) => {
            let list = value.as_list().unwrap_or(&[]);
            return list.iter().try_for_each(|item| write_value(1, item, schema.with(items), out));
        }
        Shape::Time | Shape::MicroTime | Shape::Duration => return instant(value, &schema.shape, out),
        Shape::StructOrList(_) | Shape::StructOrBool(_) | Shape::StructOrStrings(_) => {
            return either(value, schema, out);
        }
        Shape::Map(_) => return Err(EncodeError::new("protobuf has no maps of maps")),
        Shape::Quantity if value.is_null() => write_bytes(1, b"0", out),
        Shape::Quantity => write_bytes(1, text(value).as_bytes(), out),
        Shape::IntOrString => {
            write_int(1, i64::from(matches!(value, Value::String(_))), out);
            write_int(2, int(value), out);
            write_bytes(3, text(value).as_bytes(), out);
        }
        // A message whose only field is the JSON text.
        _ => match value {
            Value::Null => {}
            Value::Raw(raw) => write_bytes(1, raw.text().as_bytes(), out),
            value => {
                let mut text = Vec::new();
                json::encode(value, None, &mut text);
                write_bytes(1, &text, out);
            }
        },
    }
    Ok(())
}

/// A time that was never set is an empty message.
fn instant(value: &Value, shape: &Shape, out: &mut Vec<u8>) -> Written {
    let time = match (value, shape) {
        (Value::Null, Shape::Duration) => {
            write_int(1, 0, out);
            return Ok(());
        }
        (Value::Null, _) => return Ok(()),
        (_, Shape::Duration) => {
            let duration = Duration::parse(text(value)).map_err(|e| EncodeError::new(e.to_string()))?;
            write_int(1, duration.0, out);
            return Ok(());
        }
        (_, Shape::MicroTime) => MicroTime::parse(text(value)).map_err(|e| EncodeError::new(e.to_string()))?.0,
        _ => Time::parse(text(value)).map_err(|e| EncodeError::new(e.to_string()))?.0.truncate_to_seconds(),
    };
    if time != Timestamp::ZERO {
        write_int(1, time.secs, out);
        write_int(2, i64::from(time.truncate_to_micros().nanos), out);
    }
    Ok(())
}

/// The unions of JSON schemas.
fn either(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    let (id, struct_tag) = match &schema.shape {
        Shape::StructOrBool(id) => {
            let allows = !matches!(value, Value::Null | Value::Bool(false));
            write_int(1, i64::from(allows), out);
            (*id, 2)
        }
        Shape::StructOrList(id) | Shape::StructOrStrings(id) => (*id, 1),
        _ => return Ok(()),
    };
    let of = schema.types.get(id);
    match value {
        Value::Map(map) => write_nested(struct_tag, out, |out| message(map, schema, of, out)),
        Value::List(list) => list.iter().try_for_each(|item| match item {
            Value::Map(map) => write_nested(2, out, |out| message(map, schema, of, out)),
            other => {
                write_bytes(2, text(other).as_bytes(), out);
                Ok(())
            }
        }),
        _ => Ok(()),
    }
}

fn int(value: &Value) -> i64 {
    value.as_int().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
