//! FieldsV1: how a [`FieldSet`] is written in `managedFields`.
//!
//! A tree of JSON objects. A key names the element (`f:name`, `k:{"name":"a"}`, `v:"x"`, `i:3`), an empty object is a
//! member, and `.` marks a member that has children.

use std::cmp::Ordering;

use codec::Notes;
use object::{Map, Str, Value};

use super::{FieldSet, PathElement};
use crate::go;

impl FieldSet {
    /// Reads FieldsV1. Elements of a kind we do not know are passed over, as upstream does for the sake of the future.
    pub fn from_value(fields: &Value) -> Result<FieldSet, String> {
        match fields {
            Value::Null => Ok(FieldSet::new()),
            Value::Map(map) => Ok(read(map)?.0),
            Value::Raw(raw) if raw.is_object() => FieldSet::from_value(&codec::json::open(raw)),
            other => Err(format!("expected an object, got {}", other.type_name())),
        }
    }

    /// Writes FieldsV1, in upstream's order.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out, false);
        out
    }

    fn write_json(&self, out: &mut String, is_member: bool) {
        out.push('{');
        let start = out.len();
        if is_member {
            out.push_str("\".\":{}");
        }
        let (mut members, mut children) = (self.members.iter().peekable(), self.children.iter().peekable());
        loop {
            let order = match (members.peek(), children.peek()) {
                (Some(member), Some((child, _))) => member.cmp(&child),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let member = members.next_if(|_| order.is_le());
            let child = children.next_if(|_| order.is_ge());
            let Some(element) = member.or(child.map(|(element, _)| element)) else { break };
            if out.len() > start {
                out.push(',');
            }
            write_element(element, out);
            match child {
                Some((_, set)) => set.write_json(out, member.is_some()),
                None => out.push_str("{}"),
            }
        }
        out.push('}');
    }
}

/// A level of the tree, and whether the element above it is a member: it is if `.` says so or nothing lies below.
fn read(map: &Map) -> Result<(FieldSet, bool), String> {
    let (mut members, mut children) = (Vec::new(), Vec::new());
    let mut is_member = false;
    let mut has_children = false;
    for (key, value) in map.iter() {
        if key == "." {
            is_member = true;
            continue;
        }
        let Some(element) = parse(key)? else { continue };
        let (child, child_is_member) = match value {
            Value::Null => (FieldSet::new(), true),
            Value::Map(map) => read(map)?,
            other => return Err(format!("expected an object below {key}, got {}", other.type_name())),
        };
        has_children = true;
        if child_is_member {
            members.push(element.clone());
        }
        children.push((element, child));
    }
    let set = FieldSet::from_parts(members, children);
    Ok((set, is_member || !has_children))
}

/// The element as the key of a JSON object, and the colon after it.
fn write_element(element: &PathElement, out: &mut String) {
    match element {
        PathElement::Field(name) => write_field(name, out),
        PathElement::Key(fields) => write_key(fields.iter().map(|(name, value)| (name.as_str(), value)), out),
        PathElement::Value(value) => write_value(value, out),
        PathElement::Index(index) => out.push_str(&format!("\"i:{index}\":")),
    }
}

/// A field's name as a key: `"f:name":`.
pub(crate) fn write_field(name: &str, out: &mut String) {
    out.push_str("\"f:");
    object::write_json_text(name, out);
    out.push_str("\":");
}

/// The same for a name that has nothing to escape.
pub(crate) fn write_plain_field(name: &str, out: &mut String) {
    out.reserve(name.len() + 5);
    out.push_str("\"f:");
    out.push_str(name);
    out.push_str("\":");
}

/// The keys of a list's item as a key: `"k:{\"name\":\"a\"}":`.
pub(crate) fn write_key<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut String) {
    out.push_str("\"k:{");
    for (at, (name, value)) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_nested_string(name, out);
        out.push(':');
        write_nested(value, out);
    }
    out.push_str("}\":");
}

/// An item of a set as a key: `"v:\"x\"":`.
pub(crate) fn write_value(value: &Value, out: &mut String) {
    out.push_str("\"v:");
    write_nested(value, out);
    out.push_str("\":");
}

/// JSON inside of a string.
fn write_nested(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_nested_string(text, out),
        other => object::write_json_text(&go::json(other), out),
    }
}

fn write_nested_string(text: &str, out: &mut String) {
    if object::is_plain_json(text) {
        out.push_str("\\\"");
        out.push_str(text);
        out.push_str("\\\"");
    } else {
        object::write_json_text(&object::json_string(text), out);
    }
}

/// Reads an element; None if it is of a kind we do not know.
fn parse(key: &str) -> Result<Option<PathElement>, String> {
    let kind = key.chars().next();
    let Some(rest) = key.get(1..).and_then(|rest| rest.strip_prefix(':')) else {
        return Err(format!("missing colon: {key}"));
    };
    let json = |text: &str| {
        codec::json::decode(text.as_bytes(), None, &mut Notes::ignore()).map_err(|e| format!("in {key}: {e}"))
    };
    Ok(match kind {
        Some('f') => Some(PathElement::Field(Str::from(rest))),
        Some('v') => Some(PathElement::Value(json(rest)?)),
        Some('k') => match json(rest)? {
            Value::Map(fields) => Some(PathElement::key(fields.into_iter().collect())),
            other => return Err(format!("expected an object in {key}, got {}", other.type_name())),
        },
        Some('i') => Some(PathElement::Index(rest.parse().map_err(|_| format!("invalid index: {key}"))?)),
        _ => None,
    })
}
