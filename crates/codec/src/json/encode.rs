//! Values to JSON, as Go's encoder writes the struct that the schema describes.

use object::{Map, Value, write_json_string};
use schema::{Schema, Shape, Struct};

use super::number::write_float;
use crate::fields::{Places, Printed};
use crate::scalar::{self, is_zero_time};

/// Appends compact JSON, without a newline at the end. With a schema, fields come in the order of the Go struct and are
/// left out or filled in as Go does it; without one, every map is sorted.
pub fn encode(value: &Value, schema: Option<Schema<'_>>, out: &mut Vec<u8>) {
    match schema {
        Some(schema) => typed(value, schema, out),
        None => untyped(value, out),
    }
}

/// Appends JSON with a line per field, two spaces a level, as `?pretty=true` asks for.
pub fn encode_pretty(value: &Value, schema: Option<Schema<'_>>, out: &mut Vec<u8>) {
    let mut compact = Vec::new();
    encode(value, schema, &mut compact);
    indent(&compact, out);
}

/// Appends compact JSON spread over lines: the compact form may come from a cache.
pub fn indent(compact: &[u8], out: &mut Vec<u8>) {
    let mut depth = 0;
    let mut at = 0;
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * depth));
    };
    while let Some(&byte) = compact.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = string_end(compact, at);
                out.extend_from_slice(&compact[at - 1..end]);
                at = end;
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(close @ (b'}' | b']')) = compact.get(at) {
                    out.push(*close);
                    at += 1;
                    continue;
                }
                depth += 1;
                new_line(out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
}

/// The end of a string whose opening quote is just before `at`.
pub(super) fn string_end(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', &json[at.min(json.len())..]) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

fn untyped(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(int) => out.extend_from_slice(itoa::Buffer::new().format(*int).as_bytes()),
        Value::Float(float) if float.is_finite() => write_float(*float, out),
        // JSON has no word for these; they can only come out of protobuf and CBOR.
        Value::Float(_) => out.extend_from_slice(b"null"),
        Value::String(text) => write_json_string(text, out),
        Value::List(items) => write_list(items, out, untyped),
        Value::Map(map) => write_map(map, out, untyped),
        Value::Raw(raw) => out.extend_from_slice(raw.compact().as_bytes()),
    }
}

fn typed(value: &Value, schema: Schema<'_>, out: &mut Vec<u8>) {
    match (&schema.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => write_struct(map, schema, schema.types.get(*id), out),
        (Shape::List(items), Value::List(list)) => {
            let items = schema.with(items);
            write_list(list, out, |item, out| typed(item, items, out));
        }
        (Shape::Map(values), Value::Map(map)) => {
            let values = schema.with(values);
            write_map(map, out, |value, out| typed(value, values, out));
        }
        (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), Value::Map(map)) => {
            write_struct(map, schema, schema.types.get(*id), out);
        }
        (Shape::StructOrList(_) | Shape::StructOrStrings(_), Value::List(list)) if list.is_empty() => {
            out.extend_from_slice(b"null");
        }
        (Shape::StructOrList(id), Value::List(list)) => {
            let of = schema.types.get(*id);
            write_list(list, out, |item, out| match item {
                Value::Map(map) => write_struct(map, schema, of, out),
                other => untyped(other, out),
            });
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) if is_zero_time(text) => out.extend_from_slice(b"null"),
        _ => untyped(value, out),
    }
}

fn write_struct(map: &Map, schema: Schema<'_>, of: &Struct, out: &mut Vec<u8>) {
    let places = Places::of(map, of);
    let entries = map.entries();
    let mut separator = b'{';
    for &index in &of.print_order {
        let field = &of.fields[index as usize];
        let value = places.get(index as usize).map(|at| &entries[at].1);
        let Some(printed) = Printed::of(field, value) else { continue };
        write_key(separator, &field.name, out);
        separator = b',';
        match printed {
            Printed::Value(value) => typed(value, schema.with(&field.node), out),
            Printed::Null => out.extend_from_slice(b"null"),
            Printed::Zero => typed(&scalar::zero(schema.with(&field.node)), schema.with(&field.node), out),
        }
    }
    if of.preserve_unknown {
        for (key, value) in map.iter().filter(|(key, _)| of.field(key).is_none()) {
            out.push(separator);
            separator = b',';
            write_json_string(key, out);
            out.push(b':');
            untyped(value, out);
        }
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

fn write_list(items: &[Value], out: &mut Vec<u8>, mut write: impl FnMut(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn write_map(map: &Map, out: &mut Vec<u8>, mut write: impl FnMut(&Value, &mut Vec<u8>)) {
    out.push(b'{');
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_json_string(key, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

/// A separator and a field's name, which needs no escaping.
fn write_key(separator: u8, name: &str, out: &mut Vec<u8>) {
    out.reserve(name.len() + 4);
    out.extend_from_slice(&[separator, b'"']);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}
