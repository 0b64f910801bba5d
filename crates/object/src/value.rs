//! [`Value`]: an API object as a tree.
//!
//! Integers and floats are kept apart as Kubernetes does, and maps are always sorted by key: the order in which built-in
//! fields are printed belongs to the schema, not to the value, so equality never depends on how an object arrived.

use crate::{Map, Raw};

/// Strings up to 24 bytes live inline: most keys and many values cost no allocation.
pub type Str = compact_str::CompactString;

/// The value of a missing field, so that lookups can always hand out a reference.
pub(crate) static NULL: Value = Value::Null;

/// One node of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction, or too large for an integer.
    Float(f64),
    /// A text.
    String(Str),
    /// A list.
    List(Vec<Value>),
    /// A map.
    Map(Map),
    /// JSON that is kept as text, where the schema says so.
    Raw(Raw),
}

impl Value {
    /// An empty map, the start of every object.
    pub fn map() -> Value {
        Value::Map(Map::new())
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether Go would leave the field out under `omitempty`: null, false, zero, "", [] and {} are all empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::Float(f) => *f == 0.0,
            Value::String(s) => s.is_empty(),
            Value::List(l) => l.is_empty(),
            Value::Map(m) => m.is_empty(),
            Value::Raw(_) => false,
        }
    }

    /// The JSON name of the type, as Go's decoder words it in its errors.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
            Value::Raw(raw) => raw.type_name(),
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }

    /// The items, to be changed, if it is a list.
    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }

    /// The entries, if it is a map.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The entries, to be changed, if it is a map.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The child `key` of a map, if there is one (it may be null).
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// The value of a key, to be changed, if it is a map that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_map_mut()?.get_mut(key)
    }

    /// The child `key`, or null: for code that treats missing and null alike, as Kubernetes nearly always does.
    pub fn field(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }

    /// The descendant along `path`, or null.
    pub fn at(&self, path: &[&str]) -> &Value {
        path.iter().fold(self, |value, key| value.field(key))
    }

    /// The descendant along `path` to change, if every step is there.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, key| value.get_mut(key))
    }

    /// The string along `path`, or "".
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).as_str().unwrap_or("")
    }

    /// The items of the list along `path`, none where there is no list.
    pub fn list_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).as_list().unwrap_or(&[])
    }

    /// Makes this a map if it is anything else, and returns it.
    pub fn make_map(&mut self) -> &mut Map {
        if !matches!(self, Value::Map(_)) {
            *self = Value::map();
        }
        match self {
            Value::Map(m) => m,
            _ => unreachable!("made a map just above"),
        }
    }

    /// Makes this a list if it is anything else, and returns it.
    pub fn make_list(&mut self) -> &mut Vec<Value> {
        if !matches!(self, Value::List(_)) {
            *self = Value::List(Vec::new());
        }
        match self {
            Value::List(l) => l,
            _ => unreachable!("made a list just above"),
        }
    }

    /// The slot along `path`, making maps on the way; a new slot is null.
    pub fn slot(&mut self, path: &[&str]) -> &mut Value {
        path.iter().fold(self, |value, key| value.make_map().entry(key))
    }

    /// Sets the descendant along `path`, making maps on the way.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        *self.slot(path) = value.into();
    }

    /// Sets the descendant along `path` unless something other than null is there already.
    pub fn set_default(&mut self, path: &[&str], value: impl Into<Value>) {
        let slot = self.slot(path);
        if slot.is_null() {
            *slot = value.into();
        }
    }

    /// Takes the descendant along `path` out of the tree.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        self.at_mut(parents)?.as_map_mut()?.remove(last)
    }

    /// Makes the descendant along `path` what it is in `other`, gone if it is gone there.
    pub fn keep(&mut self, path: &[&str], other: &Value) {
        match other.at(path) {
            Value::Null => {
                self.remove(path);
            }
            kept => self.set(path, kept.clone()),
        }
    }

    /// Takes the value out and leaves null.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::Int(i)
    }
}

impl From<i32> for Value {
    fn from(i: i32) -> Value {
        Value::Int(i64::from(i))
    }
}

impl From<u32> for Value {
    fn from(i: u32) -> Value {
        Value::Int(i64::from(i))
    }
}

impl From<usize> for Value {
    fn from(i: usize) -> Value {
        Value::Int(i64::try_from(i).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Value {
        Value::Float(f)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::String(Str::from(s))
    }
}

impl From<String> for Value {
    fn from(s: String) -> Value {
        Value::String(Str::from(s))
    }
}

impl From<Str> for Value {
    fn from(s: Str) -> Value {
        Value::String(s)
    }
}

impl From<Raw> for Value {
    fn from(raw: Raw) -> Value {
        Value::Raw(raw)
    }
}

impl From<Map> for Value {
    fn from(m: Map) -> Value {
        Value::Map(m)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(option: Option<T>) -> Value {
        option.map_or(Value::Null, Into::into)
    }
}

/// Compact JSON with Go's escaping, for messages; the codec crate holds the real encoder.
pub(crate) fn compact(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::String(s) => crate::json_string(s),
        Value::List(list) => format!("[{}]", list.iter().map(compact).collect::<Vec<_>>().join(",")),
        Value::Map(map) => {
            let fields: Vec<String> =
                map.iter().map(|(k, v)| format!("{}:{}", crate::json_string(k), compact(v))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Raw(raw) => raw.compact().into_owned(),
    }
}

/// What Go escapes in strings though JSON does not ask for it: HTML and JavaScript cannot stand these.
pub(crate) const HEX_ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

pub(crate) fn write_hex_escape(c: char, out: &mut String) {
    out.push_str(&format!("\\u{:04x}", c as u32));
}

#[cfg(test)]
mod tests {
    use crate::{Value, value};

    #[test]
    fn paths_read_and_write() {
        let mut pod = value!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(pod.str_at(&["metadata", "name"]), "a");
        assert_eq!(pod.at(&["spec", "missing", "deep"]), &Value::Null);
        assert_eq!(pod.list_at(&["spec", "containers"]).len(), 1);
        pod.set(&["status", "phase"], "Pending");
        pod.set_default(&["status", "phase"], "Running");
        assert_eq!(pod.str_at(&["status", "phase"]), "Pending");
        assert_eq!(pod.remove(&["status", "phase"]), Some("Pending".into()));
        assert_eq!(pod.remove(&["nope", "phase"]), None);
    }

    #[test]
    fn keep_copies_presence_and_absence() {
        let old = value!({"status": {"phase": "Running"}});
        let mut new = value!({"status": {"phase": "Failed"}, "spec": 1});
        new.keep(&["status"], &old);
        assert_eq!(new, value!({"status": {"phase": "Running"}, "spec": 1}));
        new.keep(&["spec"], &old);
        assert_eq!(new, value!({"status": {"phase": "Running"}}));
    }

    #[test]
    fn map_order_does_not_matter_for_equality() {
        assert_eq!(value!({"b": 1, "a": 2}), value!({"a": 2, "b": 1}));
        assert_ne!(value!({"a": 1}), value!({"a": 1.0}));
    }
}
