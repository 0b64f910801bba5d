//! [`Parts`]: a sorted list that is kept in parts. A changed copy shares all parts but one with the original, so that one
//! change among hundreds of thousands of objects costs little.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use storage::{Key, Revision};

/// A part with more items is split.
const PART_MAX: usize = 512;

/// Items sorted by key.
pub struct Parts<T>(Vec<Arc<Vec<Item<T>>>>);

/// A compiled object, and which state of it was compiled.
pub struct Item<T> {
    pub key: Key,
    pub revision: Revision,
    pub compiled: Arc<T>,
}

impl<T> Default for Parts<T> {
    fn default() -> Parts<T> {
        Parts(Vec::new())
    }
}

impl<T> Clone for Parts<T> {
    fn clone(&self) -> Parts<T> {
        Parts(self.0.clone())
    }
}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Item<T> {
        Item { key: self.key.clone(), revision: self.revision, compiled: self.compiled.clone() }
    }
}

impl<T> Parts<T> {
    pub fn iter(&self) -> impl Iterator<Item = &Item<T>> {
        self.0.iter().flat_map(|part| part.iter())
    }

    pub fn get(&self, key: &Key) -> Option<&Item<T>> {
        let part = self.0.get(self.part_of(key))?;
        let at = part.binary_search_by(|item| item.key.cmp(key)).ok()?;
        part.get(at)
    }

    /// Adds an item whose key is larger than all others.
    pub fn push(&mut self, item: Item<T>) {
        match self.0.last_mut() {
            Some(part) if part.len() < PART_MAX => Arc::make_mut(part).push(item),
            _ => self.0.push(Arc::new(vec![item])),
        }
    }

    /// Adds or replaces an item.
    pub fn put(&mut self, item: Item<T>) {
        let place = self.part_of(&item.key);
        let Some(part) = self.0.get_mut(place) else { return self.push(item) };
        let part = Arc::make_mut(part);
        match part.binary_search_by(|known| known.key.cmp(&item.key)) {
            Ok(at) => part[at] = item,
            Err(at) => part.insert(at, item),
        }
        if part.len() > PART_MAX {
            let rest = part.split_off(PART_MAX / 2);
            self.0.insert(place + 1, Arc::new(rest));
        }
    }

    pub fn remove(&mut self, key: &Key) {
        let place = self.part_of(key);
        let Some(part) = self.0.get_mut(place) else { return };
        if let Ok(at) = part.binary_search_by(|known| known.key.cmp(key)) {
            let part = Arc::make_mut(part);
            part.remove(at);
            if part.is_empty() {
                self.0.remove(place);
            }
        }
    }

    /// The place of the part that a key is or would be in.
    fn part_of(&self, key: &Key) -> usize {
        let begins_before = |part: &Arc<Vec<Item<T>>>| part.first().is_some_and(|first| first.key <= *key);
        self.0.partition_point(begins_before).saturating_sub(1)
    }

    /// What an earlier list has and this one has not, and what only this one has. Shared parts are not looked at.
    pub fn changes<'s>(&'s self, earlier: &'s Parts<T>) -> (Vec<&'s Arc<T>>, Vec<&'s Arc<T>>) {
        let own: HashSet<_> = self.0.iter().map(Arc::as_ptr).collect();
        let shared: HashSet<_> = earlier.0.iter().map(Arc::as_ptr).filter(|part| own.contains(part)).collect();
        let shared = &shared;
        let changed = |parts: &'s Parts<T>| {
            parts.0.iter().filter(move |part| !shared.contains(&Arc::as_ptr(part))).flat_map(|part| part.iter())
        };
        let mut before: HashMap<&Key, &Arc<T>> = changed(earlier).map(|item| (&item.key, &item.compiled)).collect();
        let mut new = Vec::new();
        for item in changed(self) {
            match before.get(&item.key) {
                Some(known) if Arc::ptr_eq(known, &item.compiled) => drop(before.remove(&item.key)),
                _ => new.push(&item.compiled),
            }
        }
        (before.into_values().collect(), new)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn item(number: u64, revision: Revision) -> Item<(u64, Revision)> {
        let key = Key::from(format!("/registry/bindings/{number:06}"));
        Item { key, revision, compiled: Arc::new((number, revision)) }
    }

    /// Puts and removes items in an order without a pattern, and compares with a map; each step also with the one before.
    #[test]
    fn a_list_in_parts_is_what_a_map_would_be() {
        let (mut parts, mut map) = (Parts::default(), BTreeMap::new());
        let mut state: u64 = 1;
        for revision in 0..6000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (number, earlier) = ((state >> 33) % 3000, parts.clone());
            let before = map.get(&number).copied();
            if state >> 62 == 0 {
                parts.remove(&item(number, 0).key);
                map.remove(&number);
            } else {
                parts.put(item(number, revision));
                map.insert(number, revision);
            }
            let (gone, new) = parts.changes(&earlier);
            let now = map.get(&number).copied();
            assert_eq!(gone.iter().map(|gone| gone.1).collect::<Vec<_>>(), Vec::from_iter(before));
            assert_eq!(new.iter().map(|new| new.1).collect::<Vec<_>>(), Vec::from_iter(now));
            assert_eq!(parts.get(&item(number, 0).key).map(|found| found.revision), now);
        }
        let listed: Vec<(u64, Revision)> = parts.iter().map(|item| *item.compiled).collect();
        assert_eq!(listed, Vec::from_iter(map));
        assert!(parts.0.iter().all(|part| !part.is_empty() && part.len() <= PART_MAX));
    }
}
