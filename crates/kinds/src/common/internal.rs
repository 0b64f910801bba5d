//! Upstream's internal form of an object, which a few of its messages show: Go's field names, in Go's order, with every
//! field that is not set spelled out.
//!
//! The types are data (`data/internal-types.txt`); a kind whose messages show another one adds it there.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use object::{BadValue, Map, Value};

use super::checks::quantity;

const TYPES: &str = include_str!("../../data/internal-types.txt");

static TABLE: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(parse);

/// Values nest no deeper than types do, except through types that contain themselves; this bounds those.
const MAX_DEPTH: usize = 64;

struct Field {
    /// What messages call the field; "-" prints its fields in its place.
    shown: &'static str,
    name: &'static str,
    omit_empty: bool,
    of: Type,
}

/// A type: a basic one, the name of a struct, or one around another.
#[derive(Clone, Copy)]
struct Type(&'static str);

enum Shape {
    Text,
    Number,
    Float,
    Bool,
    Quantity,
    IntOrString,
    Time,
    /// Whatever JSON there is.
    Any,
    Pointer(Type),
    List(Type),
    Map(Type),
    Struct(&'static [Field]),
}

/// `value` as a message shows it: compact, in the internal form of `type_name`.
pub fn shown(type_name: &'static str, value: &Value) -> BadValue {
    BadValue::Raw(compact(type_name, value))
}

/// The text of [`shown`].
pub fn compact(type_name: &'static str, value: &Value) -> String {
    Writer { out: String::new(), indent: None }.finish(Type(type_name), value)
}

/// As [`shown`], over several lines with an indent of one, as upstream's diffs compare it.
pub fn pretty(type_name: &'static str, value: &Value) -> String {
    Writer { out: String::new(), indent: Some(0) }.finish(Type(type_name), value)
}

/// Whether two values are the same to upstream: what is not set equals the zero value unless it is a pointer, an empty
/// list equals none, and quantities are compared as numbers.
pub fn same(type_name: &'static str, a: &Value, b: &Value) -> bool {
    same_as(Type(type_name), a, b, 0)
}

fn same_as(of: Type, a: &Value, b: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return a == b;
    }
    match of.shape() {
        Shape::Text | Shape::Time => a.as_str().unwrap_or("") == b.as_str().unwrap_or(""),
        Shape::Number => a.as_int().unwrap_or(0) == b.as_int().unwrap_or(0),
        Shape::Float => a.as_float().unwrap_or(0.0) == b.as_float().unwrap_or(0.0),
        Shape::Bool => a.as_bool().unwrap_or(false) == b.as_bool().unwrap_or(false),
        Shape::Quantity => quantity(a) == quantity(b),
        Shape::Any => a == b,
        Shape::IntOrString => a == b || (a.is_empty() && b.is_empty() && !is_text(a) && !is_text(b)),
        Shape::Pointer(of) => match (a.is_null(), b.is_null()) {
            (true, true) => true,
            (false, false) => same_as(of, a, b, depth + 1),
            _ => false,
        },
        Shape::List(of) => {
            let (a, b) = (a.as_list().unwrap_or(&[]), b.as_list().unwrap_or(&[]));
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_as(of, a, b, depth + 1))
        }
        Shape::Map(of) => {
            let empty = Map::new();
            let (a, b) = (a.as_map().unwrap_or(&empty), b.as_map().unwrap_or(&empty));
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same_as(of, value, other, depth + 1)))
        }
        Shape::Struct(fields) => {
            let (apart_a, apart_b) = (of.taken_apart(a), of.taken_apart(b));
            let (a, b) = (apart_a.as_ref().unwrap_or(a), apart_b.as_ref().unwrap_or(b));
            fields.iter().all(|field| same_as(field.of, a.field(field.name), b.field(field.name), depth + 1))
        }
    }
}

impl Field {
    /// Whether Go takes the value for empty: a pointer is when there is none, whatever it would point to.
    fn is_empty(&self, value: &Value) -> bool {
        match self.of.shape() {
            Shape::Pointer(_) => value.is_null(),
            _ => value.is_empty(),
        }
    }
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_))
}

impl Type {
    /// The value in the form of the Go struct, for the few structs that are something else in JSON: one of two things.
    fn taken_apart(self, value: &Value) -> Option<Value> {
        let mut apart = Value::map();
        match (self.0, value) {
            ("JSONSchemaPropsOrArray", Value::List(_)) => apart.set(&["jSONSchemas"], value.clone()),
            ("JSONSchemaPropsOrArray", _) => apart.set(&["schema"], value.clone()),
            ("JSONSchemaPropsOrBool", Value::Bool(_)) => apart.set(&["allows"], value.clone()),
            ("JSONSchemaPropsOrBool", _) => {
                apart.set(&["allows"], true);
                apart.set(&["schema"], value.clone());
            }
            ("JSONSchemaPropsOrStringArray", Value::List(_)) => apart.set(&["property"], value.clone()),
            ("JSONSchemaPropsOrStringArray", _) => apart.set(&["schema"], value.clone()),
            _ => return None,
        }
        Some(apart)
    }

    fn shape(self) -> Shape {
        match self.0 {
            "string" => Shape::Text,
            "int" => Shape::Number,
            "float" => Shape::Float,
            "bool" => Shape::Bool,
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrString,
            "Time" => Shape::Time,
            "any" => Shape::Any,
            name => {
                if let Some(of) = name.strip_prefix('*') {
                    Shape::Pointer(Type(of))
                } else if let Some(of) = name.strip_prefix("[]") {
                    Shape::List(Type(of))
                } else if let Some(of) = name.strip_prefix("map:") {
                    Shape::Map(Type(of))
                } else {
                    Shape::Struct(TABLE.get(name).map_or(&[], |fields| fields.as_slice()))
                }
            }
        }
    }
}

fn parse() -> HashMap<&'static str, Vec<Field>> {
    let mut table: HashMap<&'static str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in TYPES.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_ascii_whitespace();
        match (line.starts_with(' '), words.next(), words.next(), words.next()) {
            (false, Some(name), ..) => {
                current = name;
                table.insert(name, Vec::new());
            }
            (true, Some(shown), Some(name), Some(of)) => {
                let omit_empty = shown.ends_with('?');
                let field = Field { shown: shown.trim_end_matches('?'), name, omit_empty, of: Type(of) };
                table.entry(current).or_default().push(field);
            }
            _ => {}
        }
    }
    table
}

/// Writes JSON as Go does: fields in order, keys of maps sorted, `<`, `>` and `&` escaped.
struct Writer {
    out: String,
    /// The depth of the line being written; None writes everything on one line.
    indent: Option<usize>,
}

impl Writer {
    fn finish(mut self, of: Type, value: &Value) -> String {
        self.value(of, value, 0);
        self.out
    }

    fn value(&mut self, of: Type, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return self.out.push_str("null");
        }
        match of.shape() {
            Shape::Text => self.text(value.as_str().unwrap_or("")),
            Shape::Number => self.plain(value.as_int().unwrap_or(0)),
            Shape::Float => self.plain(value.as_float().unwrap_or(0.0)),
            Shape::Bool => self.plain(value.as_bool().unwrap_or(false)),
            Shape::Quantity => match value.as_str() {
                Some(text) => self.text(text),
                None => self.text(&quantity(value).to_string()),
            },
            Shape::IntOrString => match value {
                Value::String(text) => self.text(text),
                number => self.plain(number.as_int().unwrap_or(0)),
            },
            Shape::Any => {
                let mut json = Vec::new();
                codec::json::encode(value, None, &mut json);
                self.out.push_str(&String::from_utf8_lossy(&json));
            }
            Shape::Time => match value.as_str() {
                Some(text) => self.text(text),
                None => self.out.push_str("null"),
            },
            Shape::Pointer(of) if !value.is_null() => self.value(of, value, depth + 1),
            Shape::Pointer(_) => self.out.push_str("null"),
            Shape::List(of) => self.list(of, value, depth),
            Shape::Map(of) => self.map(of, value, depth),
            Shape::Struct(fields) => {
                let apart = of.taken_apart(value);
                let mut first = true;
                self.open('{');
                self.fields(fields, apart.as_ref().unwrap_or(value), depth, &mut first);
                self.close('}', first);
            }
        }
    }

    fn fields(&mut self, fields: &'static [Field], value: &Value, depth: usize, first: &mut bool) {
        for field in fields {
            let child = value.field(field.name);
            if field.shown == "-" {
                if let Shape::Struct(inner) = field.of.shape() {
                    self.fields(inner, child, depth + 1, first);
                }
            } else if !(field.omit_empty && field.is_empty(child)) {
                self.separate(first);
                self.key(field.shown);
                self.value(field.of, child, depth + 1);
            }
        }
    }

    fn list(&mut self, of: Type, value: &Value, depth: usize) {
        let Some(items) = value.as_list() else { return self.out.push_str("null") };
        let mut first = true;
        self.open('[');
        for item in items {
            self.separate(&mut first);
            self.value(of, item, depth + 1);
        }
        self.close(']', first);
    }

    fn map(&mut self, of: Type, value: &Value, depth: usize) {
        let Some(map) = value.as_map() else { return self.out.push_str("null") };
        let mut first = true;
        self.open('{');
        for (key, item) in map.iter() {
            self.separate(&mut first);
            self.key(key);
            self.value(of, item, depth + 1);
        }
        self.close('}', first);
    }

    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.indent = self.indent.map(|indent| indent + 1);
    }

    fn close(&mut self, bracket: char, empty: bool) {
        self.indent = self.indent.map(|indent| indent.saturating_sub(1));
        if !empty {
            self.new_line();
        }
        self.out.push(bracket);
    }

    fn separate(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.new_line();
    }

    fn new_line(&mut self) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
    }

    fn key(&mut self, key: &str) {
        self.text(key);
        self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
    }

    fn plain(&mut self, value: impl std::fmt::Display) {
        write!(self.out, "{value}").expect("writing to a string cannot fail");
    }

    fn text(&mut self, text: &str) {
        object::write_json_string(text, &mut self.out);
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn every_type_named_is_there() {
        for (name, fields) in TABLE.iter() {
            for field in fields {
                let of =
                    field.of.0.trim_start_matches(['*', '[', ']']).trim_start_matches("map:").trim_start_matches('*');
                let basic = ["string", "int", "float", "bool", "Quantity", "IntOrString", "Time", "any"];
                assert!(basic.contains(&of) || TABLE.contains_key(of), "{name}.{} is a {of}", field.shown);
            }
        }
    }

    #[test]
    fn prints_as_upstream() {
        let claim = value!({"name": "a<b", "resourceClaimName": "x"});
        let BadValue::Raw(got) = shown("PodResourceClaim", &claim) else { unreachable!() };
        assert_eq!(got, r#"{"Name":"a\u003cb","ResourceClaimName":"x","ResourceClaimTemplateName":null}"#);
        assert_eq!(
            pretty("ResourceRequirements", &value!({"limits": {"cpu": "1"}, "claims": []})),
            "{\n \"Limits\": {\n  \"cpu\": \"1\"\n },\n \"Requests\": null,\n \"Claims\": []\n}"
        );
        let template = value!({"metadata": {"labels": {"a": "b"}}, "spec": {}});
        let BadValue::Raw(got) = shown("PersistentVolumeClaimTemplate", &template) else { unreachable!() };
        assert!(got.starts_with(r#"{"labels":{"a":"b"},"Spec":{"AccessModes":null,"#), "{got}");
    }

    #[test]
    fn compares_as_upstream() {
        let same = |a, b| same("Container", &a, &b);
        assert!(same(value!({"tty": false, "ports": []}), value!({"image": ""})));
        assert!(same(
            value!({"resources": {"limits": {"cpu": "1"}}}),
            value!({"resources": {"limits": {"cpu": "1000m"}}})
        ));
        assert!(!same(value!({"lifecycle": {}}), value!({})));
        assert!(!same(value!({"env": [{"name": "a"}]}), value!({"env": [{"name": "b"}]})));
    }
}
