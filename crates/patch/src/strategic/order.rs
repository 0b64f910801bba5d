//! The order of a merged list.
//!
//! Items that the patch (or `$setElementOrder`) names come in its order, the others in the order they had, and the two
//! are woven together so that neighbours in the live list stay neighbours where that is possible.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use object::Value;

use super::{DIRECTIVE, Result};
use crate::Error;
use crate::fieldset::compare_values;

/// How the items of a list are told apart: by a field, or by their value if `key` is "".
#[derive(Clone, Copy)]
pub(super) struct Identity<'a> {
    pub key: &'a str,
}

/// An item's identity, ordered so that it can be looked up. 1 and 1.0 are different here, as they are to Go.
struct Name(Value);

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        let is_float = |value: &Value| matches!(value, Value::Float(_));
        is_float(&self.0).cmp(&is_float(&other.0)).then_with(|| compare_values(&self.0, &other.0))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Name {}

/// Where each item of a list is, by its identity; the first one counts.
pub(super) struct Positions<'k> {
    identity: Identity<'k>,
    places: BTreeMap<Name, usize>,
}

impl<'k> Positions<'k> {
    pub fn of<'v>(list: impl IntoIterator<Item = &'v Value>, identity: Identity<'k>) -> Positions<'k> {
        let mut positions = Positions { identity, places: BTreeMap::new() };
        for (index, item) in list.into_iter().enumerate() {
            positions.add(item, index);
        }
        positions
    }

    pub fn add(&mut self, item: &Value, index: usize) {
        if let Some(name) = self.identity.name(item) {
            self.places.entry(Name(name.clone())).or_insert(index);
        }
    }

    pub fn get(&self, item: &Value) -> Option<usize> {
        let name = Name(self.identity.name(item)?.clone());
        self.places.get(&name).copied()
    }
}

impl Identity<'_> {
    fn name<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        if self.key.is_empty() { Some(item) } else { item.get(self.key) }
    }

    /// Orders `merged`: `named` is the order of the items it has, `live` that of the others.
    pub fn arrange(self, merged: Vec<Value>, named: &[Value], live: &[Value]) -> Result<Vec<Value>> {
        let (named_at, live_at) = (Positions::of(named, self), Positions::of(live, self));
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for item in merged {
            let list = if named_at.get(&item).is_some() { &mut first } else { &mut rest };
            list.push(item);
        }
        self.check(&first, named)?;
        self.check(&rest, live)?;
        sort(&mut first, &named_at);
        sort(&mut rest, &live_at);
        Ok(weave(rest, first, &live_at))
    }

    /// Every item of keyed lists must have the key.
    fn check(self, items: &[Value], order: &[Value]) -> Result<()> {
        if self.key.is_empty() {
            return Ok(());
        }
        for item in items.iter().chain(order) {
            let map = item.as_map().ok_or_else(|| Error::not_a_map(item))?;
            if !map.contains_key(self.key) {
                return Err(Error::no_merge_key(map, self.key));
            }
        }
        Ok(())
    }
}

/// Sorts by place; items that are to be deleted come last.
fn sort(items: &mut [Value], places: &Positions<'_>) {
    let deleted = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    items.sort_by_key(|item| (deleted(item), places.get(item)));
}

/// Inserts each of `rest` before the first of `named` that came after it in the live list.
fn weave(rest: Vec<Value>, named: Vec<Value>, live_at: &Positions<'_>) -> Vec<Value> {
    let mut out = Vec::with_capacity(rest.len() + named.len());
    let mut rest = rest.into_iter().peekable();
    for item in named {
        let before = |other: &Value| matches!((live_at.get(other), live_at.get(&item)), (Some(a), Some(b)) if a < b);
        while let Some(other) = rest.next_if(before) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(rest);
    out
}
