//! [`PathElement`]: one step of a path, with upstream's order and wording.

use std::cmp::Ordering;
use std::fmt;

use object::{Map, Str, Value, quote};

use crate::go;

/// One step of a path.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or a key of a map.
    Field(Str),
    /// The item of a keyed list that has these values, sorted by name.
    Key(Vec<(Str, Value)>),
    /// The item of a set.
    Value(Value),
    /// The item of a list by its place. Nothing we write has these; what we read may.
    Index(i64),
}

impl PathElement {
    /// A field of a struct or map.
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(Str::from(name))
    }

    /// The item of a list that has these key fields, in any order.
    pub fn key(mut fields: Vec<(Str, Value)>) -> PathElement {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(fields)
    }

    fn class(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &PathElement) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.cmp(b),
            (PathElement::Key(a), PathElement::Key(b)) => compare_keys(a, b),
            (PathElement::Value(a), PathElement::Value(b)) => compare_values(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.class().cmp(&other.class()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &PathElement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// 1 and 1.0 are the same key: what was stored as JSON does not say which it was.
impl PartialEq for PathElement {
    fn eq(&self, other: &PathElement) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// As upstream's messages print it: `.name`, `[name="a"]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={}", if i > 0 { "," } else { "" }, text(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", text(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::String(s) => quote(s),
        Value::List(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Map(map) => map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect(),
        scalar => go::plain(scalar),
    }
}

fn compare_keys(a: &[(Str, Value)], b: &[(Str, Value)]) -> Ordering {
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b) {
        let order = a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// A total order over all values: numbers (by size, whatever their type), strings, booleans, lists, maps, null, text kept as it came.
pub(crate) fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let (a, b) = (a.as_float().unwrap_or_default(), b.as_float().unwrap_or_default());
            a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| compare_values(a, b)).find(|o| *o != Ordering::Equal);
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => compare_maps(a, b),
        (Value::Raw(a), Value::Raw(b)) => a.text().cmp(b.text()),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) => 4,
        Value::Null => 5,
        Value::Raw(_) => 6,
    }
}

fn compare_maps(a: &Map, b: &Map) -> Ordering {
    for ((a_key, a_value), (b_key, b_value)) in a.iter().zip(b.iter()) {
        let order = a_key.cmp(b_key).then_with(|| compare_values(a_value, b_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// Whether two values are the same to the merge rules, which do not tell 1 from 1.0.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((ak, av), (bk, bv))| ak == bk && same(av, bv))
        }
        _ => compare_values(a, b) == Ordering::Equal,
    }
}
