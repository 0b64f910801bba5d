//! Strategic merge patch: a merge patch that knows which lists are merged, by which key, and takes directives.
//!
//! `$patch: replace|delete` on a map or a list's item, `$retainKeys` to drop the other fields, `$setElementOrder/list` to
//! order a merged list, `$deleteFromPrimitiveList/list` to take items out of one. Which lists are merged is the
//! schema's word. Like upstream, an apply works on what the Go struct prints and leaves its traces in the patch, which
//! some messages show.

mod error;
mod lists;
mod lookup;
mod order;

use std::cell::Cell;
use std::collections::BTreeSet;

use object::{Map, Str, Value};
use schema::Schema;

use crate::typed::structured;
use crate::{Error, go};
use lookup::Place;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Result<T> = std::result::Result<T, Error>;

/// Patches an object of the kind that `schema` describes. What is left of `patch` afterwards is what upstream's messages
/// about an undecodable result show.
pub fn strategic_patch(original: &Value, patch: &mut Value, schema: Schema<'_>) -> Result<Value> {
    let patch = match patch {
        Value::Map(patch) => patch,
        // Go decodes null into a map by leaving it empty.
        Value::Null => patch.make_map(),
        other => {
            return Err(Error::Malformed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.type_name()
            )));
        }
    };
    let original = match structured(original, schema) {
        Value::Map(map) => map,
        _ => Map::new(),
    };
    let merges_left = Cell::new(lookup::MERGES_MAX);
    merge_map(original, patch, Place::of(schema, &merges_left)).map(Value::Map)
}

/// Merges a patch into a map; the patch loses what has been dealt with.
fn merge_map(mut original: Map, patch: &mut Map, place: Place<'_>) -> Result<Map> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(Error::unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    lists::merge_ordered(&mut original, patch, place)?;
    // Directives about a list come before what the patch says about the list itself.
    for directives in [true, false] {
        let mut changes = Vec::new();
        for (name, value) in patch.iter_mut().filter(|(name, _)| name.starts_with(DELETE_FROM_LIST) == directives) {
            changes.extend(merge_field(&mut original, name, value, place)?);
        }
        original.update(changes);
    }
    Ok(original)
}

/// `$retainKeys`: every other key goes, and the patch must not set one.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_list().ok_or(Error::bad_retain_keys())?;
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let retained = |key: &str| keys.contains(key);
    let is_list_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_list_directive(key) && !retained(key)) {
        return Err(Error::bad_retain_keys());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// A key that is set or, with None, removed.
type KeyChange = (Str, Option<Value>);

/// Merges what the patch says about one key. A key that comes or goes is returned, because adding and removing many keys is
/// quicker done at once.
fn merge_field(original: &mut Map, name: &str, patch: &mut Value, place: Place<'_>) -> Result<Option<KeyChange>> {
    let deletes_from_list = name.starts_with(DELETE_FROM_LIST);
    let name =
        if deletes_from_list { target(name, DELETE_FROM_LIST).ok_or(Error::bad_primitive_list())? } else { name };
    if patch.is_null() {
        return Ok(Some((name.into(), None)));
    }
    match (original.get_mut(name), patch) {
        (Some(Value::Map(current)), Value::Map(patch)) => {
            let child = place.field(name)?;
            let merged =
                if child.replaces_maps() { patch.clone() } else { merge_map(std::mem::take(current), patch, child)? };
            *current = merged;
        }
        (Some(Value::List(current)), Value::List(patch)) => {
            let list = place.list(name)?;
            *current = if list.merges || deletes_from_list {
                lists::merge_list(std::mem::take(current), patch, &list, deletes_from_list)?
            } else {
                patch.clone()
            };
        }
        // There is no such list to delete from.
        _ if deletes_from_list => {}
        (_, patch) => return Ok(Some((name.into(), taken_over(patch)))),
    }
    Ok(None)
}

/// A value that nothing in the original can be merged with: without nulls and without directives. None if it is one.
fn taken_over(patch: &mut Value) -> Option<Value> {
    discard_nulls(patch);
    let value = without_directives(patch.clone())?;
    if matches!(value, Value::Map(_)) {
        *patch = value.clone();
    }
    Some(value)
}

/// The name after a directive's slash.
fn target<'a>(key: &'a str, directive: &str) -> Option<&'a str> {
    key.split_once('/').filter(|(prefix, _)| *prefix == directive).map(|(_, name)| name)
}

/// Drops null members of maps at every depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, child| {
            discard_nulls(child);
            !child.is_null()
        }),
        Value::List(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without the maps that carry a directive; None if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Map(map) if map.contains_key(DIRECTIVE) => None,
        Value::Map(map) => {
            let kept = map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Map(kept.collect()))
        }
        Value::List(list) => Some(Value::List(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
