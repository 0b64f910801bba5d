//! Ratcheting: what was wrong before and has not been touched does not stand in the way of an update.

use object::Value;

use super::check as check_plainly;
use super::outcome::Outcome;
use super::place::Place;
use crate::types::{ListType, Schema, Shape};

/// What a value was before the update, and the schema by which the two are held against each other.
#[derive(Clone, Copy)]
pub struct Old<'a> {
    /// The schema of the old value.
    pub schema: Schema<'a>,
    /// The old value.
    pub value: &'a Value,
}

/// Checks a value, and forgives it everything if it has not changed.
pub fn check(place: Place<'_>, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = check_plainly(place, value, old);
    if !outcome.is_valid() && old.is_some_and(|old| old.is_same(value)) {
        outcome.forgive();
    }
    outcome
}

impl<'a> Old<'a> {
    /// What the child at `key` was, if it was there and the schema knows it.
    pub fn key(self, key: &str) -> Option<Old<'a>> {
        Some(Old { schema: self.schema.child(key)?, value: self.value.get(key)? })
    }

    /// What the list's item was: found by its keys where the list is a map, not to be told otherwise.
    pub fn item(self, item: &Value) -> Option<Old<'a>> {
        let (ListType::Map(keys), Shape::List(inner)) = (&self.schema.node.list_type, &self.schema.node.shape) else {
            return None;
        };
        let same_keys = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
        let value = self.value.as_list()?.iter().filter(|old| old.as_map().is_some()).find(same_keys)?;
        Some(Old { schema: self.schema.with(inner), value })
    }

    /// Whether the value is still what it was. Lists that are maps may have changed their order; fields that the schema
    /// does not know cannot be told to be the same.
    pub fn is_same(self, value: &Value) -> bool {
        match (self.value, value) {
            (Value::List(old), Value::List(new)) => {
                if !matches!(self.schema.node.list_type, ListType::Map(_)) {
                    return old == new;
                }
                old.len() == new.len() && new.iter().all(|item| self.item(item).is_some_and(|old| old.is_same(item)))
            }
            (Value::Map(old), Value::Map(new)) => {
                old.len() == new.len()
                    && new.iter().all(|(key, value)| self.key(key).is_some_and(|old| old.is_same(value)))
            }
            (old, new) => old == new,
        }
    }
}
