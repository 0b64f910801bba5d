//! Whether an update changes values only, so that no fields come or go.

use object::{Map, Value};
use schema::{ListType, MapType, Omit, Schema, Shape, Struct};

use super::created::Hidden;
use super::items::is_same_item;
use super::structured::{is_left_out, tracked};
use super::walk::Walk;
use crate::FieldSet;
use crate::fieldset::same;

/// Whether an update changes the value of any field that a manager can own. None if only a comparison can tell (see
/// [`super::compare`]): the two objects do not have the same fields, or the one that changed is in every object.
/// Neither `reset` nor anything below it can be owned; of `unowned` only what lies below.
pub(crate) fn changed(
    live: &Value,
    new: &Value,
    schema: Schema<'_>,
    reset: Option<&FieldSet>,
    unowned: &FieldSet,
) -> Option<bool> {
    value(live, new, schema, true, Hidden { reset, unowned: Some(unowned) })
}

/// `always` says that every object has this place: then the fields that an object has do not tell who owns it.
fn value(live: &Value, new: &Value, schema: Schema<'_>, always: bool, hidden: Hidden<'_>) -> Option<bool> {
    let is_granular = schema.node.map_type == MapType::Granular;
    match (&schema.node.shape, live, new) {
        (Shape::Struct(id), Value::Map(live), Value::Map(new)) if is_granular => {
            fields(live, new, schema, schema.types.get(*id), always, hidden)
        }
        (Shape::Map(values), Value::Map(live), Value::Map(new)) if is_granular => {
            let values = schema.with(values);
            let entry = |((key, live), (other, new)): ((&str, &Value), (&str, &Value))| match key == other {
                true => value(live, new, values, false, hidden),
                false => None,
            };
            any(live.len() == new.len(), live.iter().zip(new.iter()).map(entry))
        }
        (Shape::List(items), Value::List(live), Value::List(new)) if schema.node.list_type != ListType::Atomic => {
            let ListType::Map(keys) = &schema.node.list_type else { return (live == new).then_some(false) };
            let items = schema.with(items);
            let item = |(live, new): (&Value, &Value)| match is_same_item(live, new, keys) {
                true => value(live, new, items, false, hidden),
                false => None,
            };
            any(live.len() == new.len(), live.iter().zip(new).map(item))
        }
        _ if live == new => Some(false),
        _ if always => None,
        _ => Some(!same(&tracked(live, schema), &tracked(new, schema))),
    }
}

/// Whether any is true; None if any is None, or if not all are there.
fn any(is_complete: bool, mut changes: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    is_complete.then(|| changes.try_fold(false, |found, changed| Some(found | changed?)))?
}

/// The fields of two structs as Go would print them; see [`super::structured`].
fn fields(live: &Map, new: &Map, schema: Schema<'_>, of: &Struct, always: bool, hidden: Hidden<'_>) -> Option<bool> {
    if of.preserve_unknown || schema.node.embedded {
        return None;
    }
    let mut found = false;
    let (mut in_live, mut in_new) = (Walk::of(live), Walk::of(new));
    for field in &of.fields {
        let (live, new) = (in_live.next(&field.name), in_new.next(&field.name));
        let (is_owned, below) = hidden.below(&field.name);
        let Some(below) = below else {
            // What is reset cannot be owned, but it has to be valid: what is stored is if it is what was sent.
            if live != new {
                return None;
            }
            continue;
        };
        if !is_owned && below.is_nothing() {
            continue;
        }
        match (is_left_out(field, live), is_left_out(field, new)) {
            (true, true) => continue,
            (false, false) => {}
            _ => return None,
        }
        found |= match (live, new) {
            (Some(live), Some(new)) => {
                value(live, new, schema.with(&field.node), always && field.omit == Omit::Never, below)?
            }
            (None, None) => false,
            // One is unset and the other not, which may be the same to Go.
            _ => return None,
        };
    }
    Some(found)
}
