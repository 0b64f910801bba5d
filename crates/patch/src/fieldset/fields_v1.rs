//! FieldsV1: how a [`FieldSet`] is written in `managedFields`.
//!
//! A tree of JSON objects. A key names the element (`f:name`, `k:{"name":"a"}`, `v:"x"`, `i:3`), an empty object is a
//! member, and `.` marks a member that has children.

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
            other => Err(format!("expected an object, got {}", other.type_name())),
        }
    }

    /// Writes FieldsV1.
    pub fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(self.members.len() + self.children.len());
        for element in &self.members {
            map.insert(text(element), Value::map());
        }
        for (element, set) in &self.children {
            let mut child = set.to_value();
            if self.has_member(element) {
                child.set(&["."], Value::map());
            }
            map.insert(text(element), child);
        }
        Value::Map(map)
    }

    /// FieldsV1 as text in upstream's order, which differs from the order of a [`Value`] where keys are numbers.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out, false);
        out
    }

    fn write_json(&self, out: &mut String, is_member: bool) {
        out.push('{');
        let mut first = true;
        let mut start = |out: &mut String, key: &str| {
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            go::write_json_string(out, key);
            out.push(':');
        };
        if is_member {
            start(out, ".");
            out.push_str("{}");
        }
        super::merge(
            &self.members.iter().map(|e| (e, None)).collect::<Vec<_>>(),
            &self.children.iter().map(|(e, set)| (e, Some(set))).collect::<Vec<_>>(),
            |(e, _)| e,
            |member, child| {
                let Some((element, _)) = member.or(child) else { return };
                start(out, &text(element));
                match child {
                    Some((_, Some(set))) => set.write_json(out, member.is_some()),
                    _ => out.push_str("{}"),
                }
            },
        );
        out.push('}');
    }
}

/// A level of the tree, and whether the element above it is a member: it is if `.` says so or nothing lies below.
fn read(map: &Map) -> Result<(FieldSet, bool), String> {
    let mut set = FieldSet::new();
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
            set.insert_member(element.clone());
        }
        set.insert_child(element, child);
    }
    Ok((set, is_member || !has_children))
}

fn text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let mut out = String::from("k:{");
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                go::write_json_string(&mut out, name);
                out.push(':');
                out.push_str(&go::json(value));
            }
            out.push('}');
            out
        }
        PathElement::Value(value) => format!("v:{}", go::json(value)),
        PathElement::Index(index) => format!("i:{index}"),
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
