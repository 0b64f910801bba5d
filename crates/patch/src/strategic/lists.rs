//! Merging lists.

use std::collections::BTreeSet;

use object::{Map, Str, Value};

use super::lookup::{ListPlace, Place};
use super::order::{Identity, Positions};
use super::{DIRECTIVE, ELEMENT_ORDER, Result, go, merge_map, target, without_directives};
use crate::Error;

/// Deals with every `$setElementOrder/list` of a patch and the lists they order, and takes both out of the patch.
pub(super) fn merge_ordered(original: &mut Map, patch: &mut Map, place: Place<'_>) -> Result<()> {
    let mut ordered = BTreeSet::new();
    let mut arranged_lists = Vec::new();
    for (directive, order) in patch.extract(|key| key.starts_with(ELEMENT_ORDER)) {
        let order = order.as_list().ok_or_else(|| Error::not_a_list(&order))?;
        let name = target(&directive, ELEMENT_ORDER).ok_or(Error::bad_element_order())?;
        let live = list_at(original, name)?;
        let changes = list_at(patch, name)?;
        let list = place.list(name)?;
        check_order(changes.as_deref().unwrap_or_default(), order, list.key)?;
        let kind_of = element_kind(live.as_deref().unwrap_or_default(), changes.as_deref().unwrap_or_default());
        let merged = match (live.clone(), changes) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
            (Some(live), Some(mut changes)) if list.merges => merge_list(live, &mut changes, &list, false)?,
            (Some(_), Some(changes)) => changes,
        };
        let identity = Identity { key: list.key };
        if !list.key.is_empty() {
            check_names(&merged, order, list.key)?;
        }
        kind_of?;
        let arranged = identity.arrange(merged, order, live.as_deref().unwrap_or_default())?;
        arranged_lists.push((name.into(), Some(Value::List(arranged))));
        ordered.insert(Str::from(name));
    }
    original.update(arranged_lists);
    if !ordered.is_empty() {
        patch.retain(|key, _| !ordered.contains(key));
    }
    Ok(())
}

fn list_at(map: &Map, name: &str) -> Result<Option<Vec<Value>>> {
    match map.get(name) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list.clone())),
        Some(other) => Err(Error::not_a_list(other)),
    }
}

/// The items of a patch must be among those of its order, and in that order. Deletions do not count; items with other
/// directives do not either while there is order left to compare them with.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if let Some(item) = patch.iter().find(|item| !key.is_empty() && item.as_map().is_none()) {
        return Err(Error::not_a_map(item));
    }
    let deletes = |item: &Value| !key.is_empty() && item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    let mut items = patch.iter().filter(|item| !deletes(item)).peekable();
    for wanted in order {
        while items.next_if(|item| item.get(DIRECTIVE).is_some()).is_some() {}
        let Some(item) = items.peek() else { break };
        if name_of(item, key)? == name_of(wanted, key)? {
            items.next();
        }
    }
    if items.peek().is_some() {
        let list = |items: &[Value]| go::plain(&Value::List(items.to_vec()));
        return Err(Error::Failed(format!(
            "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
            list(patch),
            list(order)
        )));
    }
    Ok(())
}

fn name_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value> {
    if key.is_empty() {
        return Ok(item);
    }
    let map = item.as_map().ok_or_else(|| Error::not_a_map(item))?;
    map.get(key).ok_or_else(|| Error::no_merge_key(map, key))
}

/// Every merged item must have a name, and whatever it is looked up in must be maps.
fn check_names(merged: &[Value], order: &[Value], key: &str) -> Result<()> {
    for item in merged {
        name_of(item, key)?;
    }
    match order.iter().position(|item| item.as_map().is_none()) {
        Some(index) if !merged.is_empty() => Err(Error::Failed(format!("value for key {index} is not a map"))),
        _ => Ok(()),
    }
}

/// Merges a patch into a list: scalars by value, maps by key.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: &mut [Value],
    list: &ListPlace<'_>,
    deletes: bool,
) -> Result<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    match element_kind(&original, patch)? {
        Kind::Scalar => Ok(merge_scalars(original, patch, deletes)),
        Kind::Map if list.key.is_empty() => {
            Err(Error::Failed(format!("cannot merge lists without merge key for {}", list.items.go_kind())))
        }
        Kind::Map => merge_maps(original, patch, list),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    Map,
}

/// What the items of both lists are; they must all be the same.
fn element_kind(original: &[Value], patch: &[Value]) -> Result<Kind> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(Error::Failed("no elements in any of the given slices".to_string()));
    };
    if matches!(first, Value::List(_)) {
        return Err(Error::NotApplicable);
    }
    let same = |item: &Value| std::mem::discriminant(item) == std::mem::discriminant(first);
    if first.is_null() || !items.all(same) {
        let lists = Value::List(vec![Value::List(original.to_vec()), Value::List(patch.to_vec())]);
        return Err(Error::Failed(format!("list element types are not identical: {}", go::plain(&lists))));
    }
    Ok(if matches!(first, Value::Map(_)) { Kind::Map } else { Kind::Scalar })
}

fn merge_scalars(original: Vec<Value>, patch: &[Value], deletes: bool) -> Vec<Value> {
    let identity = Identity { key: "" };
    let patched = Positions::of(patch, identity);
    if deletes {
        return original.into_iter().filter(|item| patched.get(item).is_none()).collect();
    }
    let both: Vec<Value> = original.iter().chain(patch).cloned().collect();
    let first = Positions::of(&both, identity);
    let merged = both.iter().enumerate().filter(|(index, item)| first.get(item) == Some(*index));
    let merged = merged.map(|(_, item)| item.clone()).collect();
    // Scalars always have a name, so they can always be put in order.
    identity.arrange(merged, patch, &original).unwrap_or(original)
}

fn merge_maps(original: Vec<Value>, patch: &mut [Value], list: &ListPlace<'_>) -> Result<Vec<Value>> {
    let (original, replaces) = carry_out_directives(original, patch, list.key)?;
    let mut plain: Vec<&mut Value> = patch.iter_mut().filter(|item| item.get(DIRECTIVE).is_none()).collect();
    if replaces {
        let items: Vec<Value> = plain.iter().map(|item| (**item).clone()).collect();
        return Identity { key: list.key }.arrange(items.clone(), &[], &items);
    }
    let identity = Identity { key: list.key };
    let mut places = Positions::of(&original, identity);
    let mut merged = original.clone();
    let mut named_before = BTreeSet::new();
    for item in &mut plain {
        let place = places.get(item);
        let Value::Map(changes) = &mut **item else { continue };
        if !changes.contains_key(list.key) {
            return Err(Error::no_merge_key(changes, list.key));
        }
        match place {
            Some(at) => {
                if !named_before.insert(at) {
                    list.items.merges_again(&merged[at])?;
                }
                let current = match merged[at].take() {
                    Value::Map(current) => current,
                    _ => Map::new(),
                };
                merged[at] = Value::Map(merge_map(current, changes, list.items)?);
            }
            None => {
                // New items are taken as they are, directives and all.
                places.add(item, merged.len());
                named_before.insert(merged.len());
                merged.push((**item).clone());
            }
        }
    }
    let named: Vec<Value> = plain.iter().map(|item| (**item).clone()).collect();
    identity.arrange(merged, &named, &original)
}

/// Carries out `$patch` on items: the list without what is deleted, and whether the patch replaces it.
fn carry_out_directives(mut original: Vec<Value>, patch: &[Value], key: &str) -> Result<(Vec<Value>, bool)> {
    let mut replaces = false;
    let mut deleted = Positions::of([], Identity { key });
    for value in patch {
        let (Some(item), Some(directive)) = (value.as_map(), value.get(DIRECTIVE)) else { continue };
        match directive.as_str() {
            Some("delete") if item.contains_key(key) => deleted.add(value, 0),
            Some("delete") => return Err(Error::no_merge_key(item, key)),
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(Error::Failed("merging lists cannot yet be specified in the patch".to_string()));
            }
            _ => return Err(Error::unknown_directive(directive, item)),
        }
    }
    original.retain(|item| deleted.get(item).is_none());
    Ok((original, replaces))
}
