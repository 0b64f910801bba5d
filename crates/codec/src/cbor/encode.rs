//! Values to CBOR.

use object::{Map, Value};
use schema::{Field, Schema, Shape, Struct};

use super::{MAGIC, NULL, TAG_BASE64, major};
use crate::fields::{Places, Printed};
use crate::scalar::is_zero_time;
use crate::{EncodeError, base64, json, scalar};

type Written = Result<(), EncodeError>;

/// Appends a document: the self-describing tag and the value.
pub fn encode(value: &Value, schema: Option<Schema<'_>>, out: &mut Vec<u8>) -> Written {
    out.extend_from_slice(MAGIC);
    encode_item(value, schema, out)
}

/// Appends a value without the tag, as it stands inside of others.
pub fn encode_item(value: &Value, schema: Option<Schema<'_>>, out: &mut Vec<u8>) -> Written {
    match schema {
        Some(schema) => typed(value, schema, out),
        None => untyped(value, out),
    }
}

/// Appends everything in front of a list's items, of which there are `count`. Each is appended with [`encode_item`] or
/// as bytes that came from it.
pub fn write_list_head(kind: &str, count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    write_head(major::MAP, 4, out);
    write_text("kind", out);
    write_text(kind, out);
    write_text("items", out);
    write_head(major::ARRAY, count as u64, out);
}

/// Appends everything behind a list's items. `metadata` is the list's, with its schema for built-in lists.
pub fn write_list_tail(api_version: &str, metadata: (&Value, Option<Schema<'_>>), out: &mut Vec<u8>) -> Written {
    write_text("metadata", out);
    encode_item(metadata.0, metadata.1, out)?;
    write_text("apiVersion", out);
    write_text(api_version, out);
    Ok(())
}

/// Appends a watch event around a document that is encoded already; events follow each other without separators.
pub fn write_watch_event(kind: &str, document: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    write_head(major::MAP, 2, out);
    write_text("type", out);
    write_text(kind, out);
    write_text("object", out);
    out.extend_from_slice(document);
}

fn untyped(value: &Value, out: &mut Vec<u8>) -> Written {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(bool) => out.push(0xf4 + u8::from(*bool)),
        Value::Int(int) => write_int(*int, out),
        Value::Float(float) => write_float(*float, out)?,
        Value::String(text) => write_text(text, out),
        Value::List(items) => {
            write_head(major::ARRAY, items.len() as u64, out);
            items.iter().try_for_each(|item| untyped(item, out))?;
        }
        Value::Map(map) => write_map(map, out, untyped)?,
        Value::Raw(raw) => untyped(&json::open(raw), out)?,
    }
    Ok(())
}

fn typed(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) -> Written {
    match (&schema.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => write_struct(map, schema, schema.types.get(*id), out),
        (Shape::List(items), Value::List(list)) => {
            write_head(major::ARRAY, list.len() as u64, out);
            list.iter().try_for_each(|item| typed(item, schema.with(items), out))
        }
        (Shape::Map(values), Value::Map(map)) => {
            write_map(map, out, |value, out| typed(value, schema.with(values), out))
        }
        (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), Value::Map(map)) => {
            write_struct(map, schema, schema.types.get(*id), out)
        }
        (Shape::StructOrList(_) | Shape::StructOrStrings(_), Value::List(list)) if list.is_empty() => {
            untyped(&Value::Null, out)
        }
        (Shape::StructOrList(id), Value::List(list)) => {
            write_head(major::ARRAY, list.len() as u64, out);
            list.iter().try_for_each(|item| match item {
                Value::Map(map) => write_struct(map, schema, schema.types.get(*id), out),
                other => untyped(other, out),
            })
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) if is_zero_time(text) => untyped(&Value::Null, out),
        (Shape::Bytes, Value::String(text)) => {
            let bytes = base64::decode(text).map_err(|e| EncodeError::new(e.to_string()))?;
            write_head(major::TAG, TAG_BASE64, out);
            write_head(major::BYTES, bytes.len() as u64, out);
            out.extend_from_slice(&bytes);
            Ok(())
        }
        (Shape::Float, Value::Int(int)) => write_float(*int as f64, out),
        _ => untyped(value, out),
    }
}

fn write_struct(map: &Map, schema: Schema<'_>, of: &Struct, out: &mut Vec<u8>) -> Written {
    let places = Places::of(map, of);
    let value_of = |index: usize| places.get(index).map(|at| &map.entries()[at].1);
    let printed = |(index, field)| Printed::of(field, value_of(index)).map(|value| (field, value));
    let mut fields: Vec<(&Field, Printed<'_>)> = of.fields.iter().enumerate().filter_map(printed).collect();
    // Unknown fields that are kept are not among the printed ones.
    let extra = map.iter().filter(|(key, _)| of.preserve_unknown && of.field(key).is_none());
    let mut extra: Vec<(&str, &Value)> = extra.collect();
    extra.sort_by_key(|(key, _)| (key.len(), *key));
    fields.sort_by(|(a, _), (b, _)| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    write_head(major::MAP, (fields.len() + extra.len()) as u64, out);
    for (field, value) in fields {
        write_text(&field.name, out);
        match value {
            Printed::Value(value) => typed(value, schema.with(&field.node), out)?,
            Printed::Null => out.push(NULL),
            Printed::Zero => typed(&scalar::zero(schema.with(&field.node)), schema.with(&field.node), out)?,
        }
    }
    for (key, value) in extra {
        write_text(key, out);
        untyped(value, out)?;
    }
    Ok(())
}

fn write_map(map: &Map, out: &mut Vec<u8>, mut write: impl FnMut(&Value, &mut Vec<u8>) -> Written) -> Written {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| (key.len(), *key));
    write_head(major::MAP, entries.len() as u64, out);
    for (key, value) in entries {
        write_text(key, out);
        write(value, out)?;
    }
    Ok(())
}

/// The first byte of an item and its argument, in the shortest form.
fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let first = major << 5;
    match argument {
        0..=23 => out.push(first | argument as u8),
        24..=0xff => out.extend([first | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(first | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(first | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(first | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_head(major::BYTES, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn write_int(int: i64, out: &mut Vec<u8>) {
    match u64::try_from(int) {
        Ok(unsigned) => write_head(major::UNSIGNED, unsigned, out),
        Err(_) => write_head(major::NEGATIVE, !int as u64, out),
    }
}

/// The shortest of the three widths that keeps the value.
fn write_float(float: f64, out: &mut Vec<u8>) -> Written {
    if !float.is_finite() {
        return Err(EncodeError::new("cbor: floating-point NaN and infinity cannot be encoded"));
    }
    let single = float as f32;
    if f64::from(single) != float {
        out.push(0xfb);
        out.extend_from_slice(&float.to_be_bytes());
    } else if let Some(half) = to_half(single) {
        out.push(0xf9);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend_from_slice(&single.to_be_bytes());
    }
    Ok(())
}

/// A float of half the width, if nothing is lost.
fn to_half(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let fraction = bits & 0x7f_ffff;
    match exponent {
        -127 if fraction == 0 => Some(sign),
        -14..=15 if fraction & 0x1fff == 0 => Some(sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16),
        -24..=-15 => {
            // Below the smallest exponent the leading one is written out and moves to the right.
            let shift = (-1 - exponent) as u32;
            let mantissa = fraction | 0x80_0000;
            (mantissa.trailing_zeros() >= shift).then(|| sign | (mantissa >> shift) as u16)
        }
        _ => None,
    }
}
