//! How the items of a list are named.

use object::{Str, Value};
use schema::{Schema, Shape};

use super::{Form, List, ListRelation};
use crate::PathElement;

impl<'a> List<'a> {
    pub fn is_atomic(&self) -> bool {
        matches!(self.relation, ListRelation::Atomic)
    }

    /// Whether an item obviously has a path element, or needs none; else [`List::element`] tells.
    pub fn has_name(&self, item: &Value) -> bool {
        match (self.relation, item) {
            (ListRelation::Atomic, _) | (ListRelation::Set, Value::String(_)) => true,
            (ListRelation::Keyed(keys), Value::Map(item)) => keys.iter().any(|key| item.contains_key(key)),
            _ => false,
        }
    }

    /// The path element of an item, or why it cannot have one.
    pub fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.relation {
            ListRelation::Atomic => Err("invalid indexing of non-associative list".to_string()),
            ListRelation::Set => match item {
                Value::Map(_) => Err("associative list without keys has an element that's a map type".to_string()),
                Value::List(_) => Err("not supported: associative list with lists as elements".to_string()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_string()),
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            ListRelation::Keyed(keys) => self.keyed(keys, item),
        }
    }

    fn keyed(&self, keys: &[Str], item: &Value) -> Result<PathElement, String> {
        let item = match item {
            Value::Map(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_string()),
            _ => return Err("associative list with keys may not have non-map elements".to_string()),
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            match item.get(key) {
                Some(value) => fields.push((key.clone(), value.clone())),
                // A key that is neither set nor has a default stays out: an item without it is another item.
                None => fields.extend(self.default_of(key)?.map(|value| (key.clone(), value))),
            }
        }
        if fields.is_empty() && !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| object::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(PathElement::key(fields))
    }

    /// The default of a key field, as the OpenAPI document states it.
    fn default_of(&self, key: &str) -> Result<Option<Value>, String> {
        match self.items.form(None) {
            Form::Map(fields) => Ok(fields.stated_default(key)),
            _ => Err(format!("couldn't find default value for {key}: associative list may not have non-map types")),
        }
    }
}

/// Whether two items surely have the same keys.
pub(super) fn is_same_item(live: &Value, new: &Value, keys: &[Str]) -> bool {
    keys.iter().all(|key| !live.field(key).is_empty() && live.field(key) == new.field(key))
}

/// What Go holds in a field of this type that was never set; null where it holds nothing or prints nothing.
pub(super) fn zero(schema: Schema<'_>) -> Value {
    match &schema.node.shape {
        Shape::Bool | Shape::StructOrBool(_) => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(0),
        Shape::Float => Value::Float(0.0),
        Shape::String => Value::from(""),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::Struct(_) => Value::map(),
        _ => Value::Null,
    }
}
