//! Which fields a value has.

use std::collections::BTreeSet;

use object::{Map, Value};

use super::{Fields, Form, List, Type};
use crate::{FieldSet, PathElement};

/// The fields that a value sets: what an applied configuration lays claim to.
pub(crate) fn field_set(value: &Value, of: Type<'_>) -> FieldSet {
    walk(value, of).0
}

/// The fields below a value, and whether the value's own path is one.
fn walk(value: &Value, of: Type<'_>) -> (FieldSet, bool) {
    match (of.form(Some(value)), value) {
        (Form::Scalar(_), _) => (FieldSet::new(), true),
        (Form::List(list), _) if list.is_atomic() => (FieldSet::new(), true),
        (Form::Map(fields), _) if fields.atomic => (FieldSet::new(), true),
        (Form::List(list), Value::List(items)) => (list_fields(items, list), false),
        (Form::Map(fields), Value::Map(map)) => (map_fields(map, fields), false),
        _ => (FieldSet::new(), false),
    }
}

fn list_fields(items: &[Value], list: List<'_>) -> FieldSet {
    let (mut members, mut children) = (Vec::with_capacity(items.len()), Vec::new());
    let mut seen = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    let elements: Vec<Option<PathElement>> = items.iter().map(|item| list.element(item).ok()).collect();
    for element in elements.iter().flatten() {
        if !seen.insert(element) {
            repeated.insert(element);
        }
    }
    for (item, element) in items.iter().zip(&elements) {
        let Some(element) = element else { continue };
        members.push(element.clone());
        // Items that repeat are owned as a whole: nothing tells one from the other.
        if !repeated.contains(element) {
            children.push((element.clone(), walk(item, list.items).0));
        }
    }
    FieldSet::from_parts(members, children)
}

fn map_fields(map: &Map, fields: Fields<'_>) -> FieldSet {
    let mut set = FieldSet::new();
    for (key, value) in map.iter() {
        let element = PathElement::field(key);
        let (below, is_member) = fields.field(key).map_or((FieldSet::new(), false), |of| walk(value, of));
        let empty = match value {
            Value::Null => true,
            Value::Map(map) => map.is_empty(),
            _ => false,
        };
        if is_member || empty || !fields.is_declared(key) {
            set.insert_member(element.clone());
        }
        set.insert_child(element, below);
    }
    set
}

/// The set with every declared field a member that has something below it, so that removing the set removes the field
/// itself too.
pub(crate) fn ensure_named_fields(set: &FieldSet, of: Option<Type<'_>>) -> FieldSet {
    let form = of.map(|of| of.atom());
    let fields = form.and_then(|atom| atom.map);
    let list = form.and_then(|atom| atom.list);
    let mut members = set.members().to_vec();
    let mut children = Vec::with_capacity(set.children().len());
    for (element, below) in set.children() {
        let inner = match element {
            PathElement::Field(name) => {
                if fields.is_some_and(|fields| fields.is_declared(name)) {
                    members.push(element.clone());
                }
                fields.and_then(|fields| fields.field(name))
            }
            PathElement::Key(_) => list.map(|list| list.items),
            _ => None,
        };
        children.push((element.clone(), ensure_named_fields(below, inner)));
    }
    FieldSet::from_parts(members, children)
}
