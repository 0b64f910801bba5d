//! Lists that are sets or maps: their items, or the keys of their items, must differ.

use hashbrown::HashSet;
use object::{Errors, Map, Path, Str, Value};

use crate::MAX_DEPTH;
use crate::types::{ListType, Schema, Shape};

/// Reports every item of a set, and every key of a list that is a map, that is there more than once.
pub fn validate_lists(schema: Schema<'_>, value: &Value) -> Errors {
    let mut errors = Errors::new();
    walk(schema, value, &Path::root(), &mut errors, 0);
    errors
}

fn walk(schema: Schema<'_>, value: &Value, path: &Path, errors: &mut Errors, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    match (&schema.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let known = schema.types.get(*id);
            for (name, child) in map.iter() {
                if let Some(field) = known.field(name).filter(|_| has_lists(child)) {
                    walk(schema.with(&field.node), child, &path.field(name), errors, depth + 1);
                }
            }
        }
        (Shape::Map(inner), Value::Map(map)) => {
            for (key, child) in map.iter().filter(|(_, child)| has_lists(child)) {
                walk(schema.with(inner), child, &path.key(key), errors, depth + 1);
            }
        }
        (Shape::List(inner), Value::List(items)) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    for at in repeated(items) {
                        errors.duplicate(&path.index(at), items[at].clone());
                    }
                }
                ListType::Map(keys) => check_keys(keys, items, path, errors),
            }
            for (at, item) in items.iter().enumerate().filter(|(_, item)| has_lists(item)) {
                walk(schema.with(inner), item, &path.index(at), errors, depth + 1);
            }
        }
        _ => {}
    }
}

/// Whether there can be a list in a value, or it is one.
fn has_lists(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}

fn check_keys(keys: &[Str], items: &[Value], path: &Path, errors: &mut Errors) {
    if let Some(at) = items.iter().position(|item| !matches!(item, Value::Null | Value::Map(_))) {
        let problem = "must be an object for an array of list-type map";
        errors.invalid(&path.index(at), items[at].clone(), problem);
        return;
    }
    let identities: Vec<Value> = items.iter().map(|item| identity(keys, item)).collect();
    for at in repeated(&identities) {
        errors.duplicate(&path.index(at), identities[at].clone());
    }
}

/// The key fields of an item that are there.
fn identity(keys: &[Str], item: &Value) -> Value {
    let present = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
    Value::Map(present.collect::<Map>())
}

pub fn has_duplicates(items: &[Value]) -> bool {
    !repeated(items).is_empty()
}

/// Where values appear for the second time; a third time is not told again.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
    let mut reported: HashSet<String> = HashSet::new();
    let mut repeated = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let text = text(item);
        if !seen.insert(text.clone()) && reported.insert(text) {
            repeated.push(at);
        }
    }
    repeated
}

/// A text that two values share only if they are the same.
fn text(value: &Value) -> String {
    format!("{value:?}")
}
