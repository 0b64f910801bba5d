//! What an object becomes when a configuration is applied to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use object::{Map, Value};

use super::validate::scalar_problem;
use super::{Fields, Form, List, Problems, Type};
use crate::PathElement;

/// Merges `applied` into `live`, field by field and item by item as the types say; `applied` wins.
pub(crate) fn merge(live: &Value, applied: &Value, of: Type<'_>) -> Result<Value, Problems> {
    Ok(walk(Some(live), Some(applied), of)?.unwrap_or_default())
}

/// None if neither side leaves anything.
fn walk(left: Option<&Value>, right: Option<&Value>, of: Type<'_>) -> Result<Option<Value>, Problems> {
    // Where both sides are there and differ in form, the right one says what it is.
    match of.form(right.or(left)) {
        Form::Scalar(scalar) => {
            let problems = [scalar_problem(scalar, left, "lhs: "), scalar_problem(scalar, right, "rhs: ")];
            if problems.iter().all(Option::is_some) {
                let mut all = Problems::none();
                problems.into_iter().flatten().for_each(|message| all.push(message));
                return Err(all);
            }
            Ok(right.or(left).cloned())
        }
        Form::List(list) => {
            let (l, r) = (items(left), items(right));
            // Two empty lists are a leaf, so that null and empty stay what they are.
            if list.is_atomic() || (l.is_empty() && r.is_empty()) {
                return Ok(right.or(left).cloned());
            }
            let merged = merge_items(l, r, list)?;
            Ok((!merged.is_empty()).then_some(Value::List(merged)))
        }
        Form::Map(fields) => {
            let (l, r) = (entries(left), entries(right));
            if fields.atomic || (l.is_none_or(Map::is_empty) && r.is_none_or(Map::is_empty)) {
                return Ok(right.or(left).cloned());
            }
            let merged = merge_fields(l, r, fields)?;
            Ok((!merged.is_empty()).then_some(Value::Map(merged)))
        }
    }
}

pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or_default()
}

pub(super) fn entries(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_map)
}

fn merge_fields(left: Option<&Map>, right: Option<&Map>, fields: Fields<'_>) -> Result<Map, Problems> {
    let mut out = Vec::new();
    let mut problems = Problems::none();
    zip_maps(left, right, |key, left, right| {
        let Some(of) = fields.field(key) else { return };
        match walk(left, right, of) {
            Ok(Some(value)) => out.push((key.into(), value)),
            Ok(None) => {}
            Err(found) => problems.add(found.below(PathElement::field(key))),
        }
    });
    problems.into_result(Map::from_entries(out, |_| ()))
}

/// Walks two maps side by side in the order of their keys.
pub(super) fn zip_maps<'a>(
    left: Option<&'a Map>,
    right: Option<&'a Map>,
    mut visit: impl FnMut(&'a str, Option<&'a Value>, Option<&'a Value>),
) {
    let (left, right) = (left.map_or(&[][..], Map::entries), right.map_or(&[][..], Map::entries));
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        match (left.get(i), right.get(j)) {
            (Some((key, l)), Some((other, r))) if key == other => {
                visit(key, Some(l), Some(r));
                i += 1;
                j += 1;
            }
            (Some((key, l)), other) if other.is_none_or(|(other, _)| key < other) => {
                visit(key, Some(l), None);
                i += 1;
            }
            (_, Some((key, r))) => {
                visit(key, None, Some(r));
                j += 1;
            }
            _ => break,
        }
    }
}

/// The items of one side: their elements in order, and each element's value. Repeated elements (only the live side may
/// have them) cannot be merged and have null in place of a value.
struct Side<'a> {
    order: Vec<(PathElement, &'a Value)>,
    values: BTreeMap<PathElement, Option<&'a Value>>,
}

impl<'a> Side<'a> {
    fn read(items: &'a [Value], list: List<'_>, may_repeat: bool, problems: &mut Problems) -> Side<'a> {
        let mut side = Side { order: Vec::with_capacity(items.len()), values: BTreeMap::new() };
        for (index, item) in items.iter().enumerate() {
            let element = match list.element(item) {
                Ok(element) => element,
                Err(message) => {
                    problems.push(format!("element {index}: {message}"));
                    continue;
                }
            };
            if side.values.contains_key(&element) {
                if !may_repeat {
                    problems.push(format!("duplicate entries for key {element}"));
                    continue;
                }
                side.values.insert(element.clone(), None);
            } else {
                side.values.insert(element.clone(), Some(item));
            }
            side.order.push((element, item));
        }
        side
    }
}

/// Merges two lists: shared items in the order of the right side, items of one side only where their neighbours are.
fn merge_items(left: &[Value], right: &[Value], list: List<'_>) -> Result<Vec<Value>, Problems> {
    let mut problems = Problems::none();
    let right = Side::read(right, list, false, &mut problems);
    let left = Side::read(left, list, true, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut shared: VecDeque<&PathElement> =
        right.order.iter().map(|(element, _)| element).filter(|element| left.values.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.order.len().max(right.order.len()));
    let mut put = |element: &PathElement, l: Option<&Value>, r: Option<&Value>| match walk(l, r, list.items) {
        Ok(value) => out.extend(value),
        Err(found) => problems.add(found.below(element)),
    };
    let both = |element: &PathElement| {
        // An item that repeats on the left is there, but as nothing that could be merged with.
        let l = left.values.get(element).map(|value| value.unwrap_or(&Value::Null));
        (l, right.values.get(element).copied().flatten())
    };
    let (mut i, mut j) = (0, 0);
    while i < left.order.len() || j < right.order.len() {
        if let (Some((element, _)), Some((other, _))) = (left.order.get(i), right.order.get(j)) {
            if element == other {
                merged.insert(other);
                let (l, r) = both(other);
                put(other, l, r);
                i += 1;
                j += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if right.values.contains_key(element) && next_shared.is_some_and(|next| next != element) {
                // Shared, but its turn comes elsewhere.
                i += 1;
                continue;
            }
        }
        if let Some((element, item)) = left.order.get(i) {
            if !right.values.contains_key(element) {
                put(element, Some(item), None);
                i += 1;
                continue;
            }
            if merged.contains(element) {
                i += 1;
            }
        }
        if let Some((element, _)) = right.order.get(j) {
            merged.insert(element);
            let (l, r) = both(element);
            put(element, l, r);
            j += 1;
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        }
    }
    problems.into_result(out)
}
