//! OpenAPI documents as protobuf messages, in the form that gnostic gave them and kubectl asks for.
//!
//! The messages are tables: which field of the JSON goes under which tag, and as what. What a client gets is the JSON
//! document read through the table, so there is one description of the API and not two.

use object::{Map, Value};

mod v2;
mod v3;

pub use v2::DOCUMENT as V2;
pub use v3::DOCUMENT as V3;

/// A message: its fields by tag, and what becomes of fields with names of their own.
pub struct Message {
    fields: &'static [Field],
    rest: Rest,
}

struct Field {
    name: &'static str,
    tag: u32,
    of: Of,
}

/// The form in which a value is written.
#[derive(Clone, Copy)]
enum Of {
    Text,
    Flag,
    Count,
    Number,
    /// Any JSON, as YAML text.
    Any,
    Message(&'static Message),
    /// A message that holds one of several others, told apart by what the JSON looks like.
    Choice(&'static [(When, u32, Of)]),
    /// A message with either the value under tag 1 or a reference to it under tag 2.
    OrReference(&'static Of),
    /// A message with the value under tag 1: where one would be enough, but for the fact that there can be several.
    Wrapped(&'static Of),
    /// A field for each item of a list.
    Each(&'static Of),
}

/// What a choice is made by.
#[derive(Clone, Copy)]
enum When {
    Always,
    In(&'static str),
    IsBool,
    IsNumber,
    IsText,
}

/// Fields that are not in the table.
enum Rest {
    Dropped,
    /// `x-…`: named values of any kind under this tag.
    Extensions(u32),
    /// All of them: named values under this tag.
    Entries(u32, Of),
}

const fn field(name: &'static str, tag: u32, of: Of) -> Field {
    Field { name, tag, of }
}

const fn text(name: &'static str, tag: u32) -> Field {
    Field { name, tag, of: Of::Text }
}

/// A JSON document as the message that `root` describes.
pub fn convert(document: &Value, root: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 16);
    if let Some(map) = document.as_map() {
        write_message(map, root, &mut out);
    }
    out
}

fn write_message(map: &Map, message: &Message, out: &mut Vec<u8>) {
    let rest_tag = match &message.rest {
        Rest::Dropped => u32::MAX,
        Rest::Extensions(tag) | Rest::Entries(tag, _) => *tag,
    };
    let mut rest_written = false;
    for field in message.fields {
        if field.tag > rest_tag && !std::mem::replace(&mut rest_written, true) {
            write_rest(map, message, out);
        }
        if let Some(value) = map.get(field.name) {
            write_value(value, field.tag, field.of, out);
        }
    }
    if !rest_written {
        write_rest(map, message, out);
    }
}

fn write_rest(map: &Map, message: &Message, out: &mut Vec<u8>) {
    let (tag, of, extensions) = match &message.rest {
        Rest::Dropped => return,
        Rest::Extensions(tag) => (*tag, Of::Any, true),
        Rest::Entries(tag, of) => (*tag, *of, false),
    };
    for (name, value) in map.iter().filter(|(name, _)| !extensions || name.starts_with("x-")) {
        nest(tag, out, |out| {
            write_value(&Value::from(name), 1, Of::Text, out);
            write_value(value, 2, of, out);
        });
    }
}

fn write_value(value: &Value, tag: u32, of: Of, out: &mut Vec<u8>) {
    match of {
        Of::Text => {
            let text = value.as_str().unwrap_or("");
            if !text.is_empty() {
                write_bytes(tag, text.as_bytes(), out);
            }
        }
        Of::Flag => {
            if value.as_bool() == Some(true) {
                write_varint(u64::from(tag) << 3, out);
                out.push(1);
            }
        }
        Of::Count => {
            if let Some(count) = value.as_int().filter(|count| *count != 0) {
                write_varint(u64::from(tag) << 3, out);
                write_varint(count.cast_unsigned(), out);
            }
        }
        Of::Number => {
            if let Some(number) = value.as_float().filter(|number| *number != 0.0) {
                write_double(tag, number, out);
            }
        }
        Of::Any => nest(tag, out, |out| {
            let mut yaml = Vec::new();
            codec::yaml::encode(value, None, &mut yaml);
            write_bytes(2, &yaml, out);
        }),
        Of::Message(message) => nest(tag, out, |out| {
            if let Some(map) = value.as_map() {
                write_message(map, message, out);
            }
        }),
        Of::Choice(choices) => {
            let chosen = choices.iter().find(|(when, _, _)| when.holds(value));
            if let Some((_, inner, of)) = chosen {
                nest(tag, out, |out| write_chosen(value, *inner, *of, out));
            }
        }
        Of::OrReference(of) => nest(tag, out, |out| match value.get("$ref") {
            Some(reference) => nest(2, out, |out| write_value(reference, 1, Of::Text, out)),
            None => write_item(value, 1, *of, out),
        }),
        Of::Wrapped(of) => nest(tag, out, |out| write_value(value, 1, *of, out)),
        Of::Each(of) => match value {
            Value::List(items) => items.iter().for_each(|item| write_item(item, tag, *of, out)),
            one => write_item(one, tag, *of, out),
        },
    }
}

/// One of several items, or the one that was chosen: these are written even if they are empty.
fn write_item(value: &Value, tag: u32, of: Of, out: &mut Vec<u8>) {
    match of {
        Of::Text => write_bytes(tag, value.as_str().unwrap_or("").as_bytes(), out),
        of => write_value(value, tag, of, out),
    }
}

fn write_chosen(value: &Value, tag: u32, of: Of, out: &mut Vec<u8>) {
    match of {
        Of::Flag => {
            write_varint(u64::from(tag) << 3, out);
            out.push(u8::from(value.as_bool() == Some(true)));
        }
        Of::Number => write_double(tag, value.as_float().unwrap_or(0.0), out),
        of => write_item(value, tag, of, out),
    }
}

impl When {
    fn holds(self, value: &Value) -> bool {
        match self {
            When::Always => true,
            When::In(place) => value.str_at(&["in"]) == place,
            When::IsBool => value.as_bool().is_some(),
            When::IsNumber => value.as_float().is_some(),
            When::IsText => value.as_str().is_some(),
        }
    }
}

fn nest(tag: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    write_bytes(tag, &inner, out);
}

fn write_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(u64::from(tag) << 3 | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_double(tag: u32, number: f64, out: &mut Vec<u8>) {
    write_varint(u64::from(tag) << 3 | 1, out);
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
