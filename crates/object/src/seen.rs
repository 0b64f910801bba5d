//! [`Seen`]: which values a rule has met, to find items that repeat in one pass over a list of any length.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::Value;

/// A set of values, compared as `==` compares them.
#[derive(Default)]
pub struct Seen<'a>(HashSet<Key<'a>>);

impl<'a> Seen<'a> {
    /// Nothing was seen.
    pub fn new() -> Seen<'a> {
        Seen::default()
    }

    /// Adds a value; false if it was there already.
    pub fn insert(&mut self, value: &'a Value) -> bool {
        self.0.insert(Key(value))
    }

    /// Whether an equal value was seen.
    pub fn contains(&self, value: &'a Value) -> bool {
        self.0.contains(&Key(value))
    }
}

impl<'a> FromIterator<&'a Value> for Seen<'a> {
    fn from_iter<I: IntoIterator<Item = &'a Value>>(values: I) -> Seen<'a> {
        Seen(values.into_iter().map(Key).collect())
    }
}

#[derive(PartialEq)]
struct Key<'a>(&'a Value);

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.0, state);
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    std::mem::discriminant(value).hash(state);
    match value {
        Value::Null => {}
        Value::Bool(bool) => bool.hash(state),
        Value::Int(int) => int.hash(state),
        // 0.0 and -0.0 are equal, so they must have the same hash.
        Value::Float(float) => (*float + 0.0).to_bits().hash(state),
        Value::String(text) => text.hash(state),
        Value::List(items) => {
            items.len().hash(state);
            items.iter().for_each(|item| hash(item, state));
        }
        Value::Map(map) => {
            map.len().hash(state);
            for (key, value) in map.iter() {
                key.hash(state);
                hash(value, state);
            }
        }
        Value::Raw(raw) => raw.text().hash(state),
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;
    use crate::Value;

    #[test]
    fn equal_values_are_met_once() {
        let list = [
            value!({"a": [1, "x"], "b": null}),
            value!({"b": null, "a": [1, "x"]}),
            value!({"a": [1.0, "x"], "b": null}),
            Value::Float(0.0),
            Value::Float(-0.0),
            value!([]),
            value!({}),
        ];
        let mut seen = Seen::new();
        let new: Vec<bool> = list.iter().map(|value| seen.insert(value)).collect();
        assert_eq!(new, [true, false, true, true, false, true, true]);
        assert!(list.iter().all(|value| seen.contains(value)));
    }
}
