//! Objects without some of their fields.

use object::{Map, Value};

use super::{Form, Type};
use crate::{FieldSet, PathElement};

/// The value without the fields in `set`. What is left of an emptied map or list is null.
pub(crate) fn remove_items(value: &Value, set: &FieldSet, of: Type<'_>) -> Value {
    match (of.form(Some(value)), value) {
        (Form::Scalar(_), value) => value.clone(),
        (Form::List(list), Value::List(items)) if !list.is_atomic() => {
            let rest: Vec<Value> = items
                .iter()
                .filter_map(|item| match list.element(item) {
                    Ok(element) => remove_from(item, &element, set, Some(list.items)),
                    // What has no name cannot be in the set.
                    Err(_) => Some(item.clone()),
                })
                .collect();
            if rest.is_empty() { Value::Null } else { Value::List(rest) }
        }
        (Form::Map(fields), Value::Map(map)) if !fields.atomic => {
            let rest = map.iter().filter_map(|(key, child)| {
                let left = remove_from(child, &PathElement::field(key), set, fields.field(key))?;
                Some((key, left))
            });
            let rest: Map = rest.collect();
            if rest.is_empty() { Value::Null } else { Value::Map(rest) }
        }
        // An atomic value goes whole: the walk only comes here for something inside it.
        _ => Value::Null,
    }
}

/// What is left of a child; None if it is itself in the set.
fn remove_from(child: &Value, element: &PathElement, set: &FieldSet, of: Option<Type<'_>>) -> Option<Value> {
    if set.has_member(element) {
        return None;
    }
    match (set.child(element).filter(|below| !below.is_empty()), of) {
        (Some(below), Some(of)) => Some(remove_items(child, below, of)),
        _ => Some(child.clone()),
    }
}
