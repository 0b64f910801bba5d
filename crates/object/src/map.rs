//! [`Map`]: string keys to values, sorted by key.
//!
//! Objects are small and read far more often than changed, so a sorted vector beats a tree: one allocation, binary
//! search, and iteration in the order Go prints maps.

use std::cmp::Ordering;

use crate::{Str, Value};

/// Up to so many changes are made one by one.
const FEW_CHANGES: usize = 8;

/// So many entries are looked at one after the other.
const FEW_ENTRIES: usize = 16;

/// A map from field name to value, sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    entries: Vec<(Str, Value)>,
}

/// Compares names of fields as strings are compared; their first letters mostly tell.
#[inline]
pub fn compare_names(a: &str, b: &str) -> Ordering {
    match a.as_bytes().first().cmp(&b.as_bytes().first()) {
        Ordering::Equal => a.cmp(b),
        different => different,
    }
}

impl Map {
    /// An empty map.
    pub const fn new() -> Map {
        Map { entries: Vec::new() }
    }

    /// An empty map with room for so many entries.
    pub fn with_capacity(capacity: usize) -> Map {
        Map { entries: Vec::with_capacity(capacity) }
    }

    /// Builds a map from entries in any order. Where a key repeats the last one wins, as in Go, and `duplicate` is
    /// called once for every entry that was overwritten.
    pub fn from_entries(mut entries: Vec<(Str, Value)>, mut duplicate: impl FnMut(&str)) -> Map {
        if entries.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return Map { entries };
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept: Vec<(Str, Value)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match kept.last_mut() {
                Some(last) if last.0 == entry.0 => {
                    duplicate(&entry.0);
                    last.1 = entry.1;
                }
                _ => kept.push(entry),
            }
        }
        Map { entries: kept }
    }

    /// Builds a map from entries that are sorted by name and have no name twice.
    pub fn from_sorted(entries: Vec<(Str, Value)>) -> Map {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "the entries are sorted by name");
        Map { entries }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(k, _)| compare_names(k, key))
    }

    /// Where a key is. Few entries are passed by faster than searched: their lengths mostly tell.
    fn position(&self, key: &str) -> Option<usize> {
        if self.entries.len() > FEW_ENTRIES {
            return self.find(key).ok();
        }
        self.entries.iter().position(|(k, _)| k.len() == key.len() && k.as_bytes() == key.as_bytes())
    }

    /// Where a key is at or behind `from`, or where it would be: for walks along names that are sorted as the entries are.
    pub fn find_from(&self, from: usize, key: &str) -> Result<usize, usize> {
        for (at, (k, _)) in self.entries.iter().enumerate().skip(from) {
            match compare_names(k, key) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(at),
                Ordering::Greater => return Err(at),
            }
        }
        Err(self.entries.len())
    }

    /// The value at a place that [`Map::find_from`] has found.
    pub fn value_mut(&mut self, at: usize) -> Option<&mut Value> {
        self.entries.get_mut(at).map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|i| &self.entries[i].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|i| &mut self.entries[i].1)
    }

    /// Whether the key has a value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets `key` and returns what was there.
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let key = key.into();
        match self.find(&key) {
            Ok(i) => Some(std::mem::replace(&mut self.entries[i].1, value.into())),
            Err(i) => {
                self.entries.insert(i, (key, value.into()));
                None
            }
        }
    }

    /// The value at `key`, null if it was not there before.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let index = match self.find(key) {
            Ok(i) => i,
            Err(i) => {
                self.entries.insert(i, (Str::from(key), Value::Null));
                i
            }
        };
        &mut self.entries[index].1
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|i| self.entries.remove(i).1)
    }

    /// Sets (`Some`) and removes (`None`) many keys in one pass over the map, which inserting them one by one is not:
    /// each of those moves all entries behind its place. Where a key repeats the last change counts.
    pub fn update(&mut self, changes: Vec<(Str, Option<Value>)>) {
        if changes.len() <= FEW_CHANGES {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(self.insert(key, value)),
                    None => drop(self.remove(&key)),
                }
            }
            return;
        }
        if self.entries.is_empty() {
            let entries = changes.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            *self = Map::from_entries(entries, |_| ());
            return;
        }
        let mut changes = changes;
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept = Vec::with_capacity(self.entries.len() + changes.len());
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut changes = changes.into_iter().peekable();
        while let Some((key, value)) = changes.next() {
            if changes.peek().is_some_and(|(next, _)| *next == key) {
                continue;
            }
            while let Some(entry) = old.next_if(|(known, _)| *known < key) {
                kept.push(entry);
            }
            old.next_if(|(known, _)| *known == key);
            kept.extend(value.map(|value| (key, value)));
        }
        kept.extend(old);
        self.entries = kept;
    }

    /// Takes out the entries whose key fits, in order.
    pub fn extract(&mut self, mut fits: impl FnMut(&str) -> bool) -> Vec<(Str, Value)> {
        self.entries.extract_if(.., |(key, _)| fits(key)).collect()
    }

    /// Removes the entries that a function does not keep.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }

    /// The entries, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The entries, sorted by key, with values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(k, v)| (k.as_str(), v))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(k, _)| k.as_str())
    }

    /// The values, sorted by key.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, v)| v)
    }

    /// The entries as a sorted slice, for merges that walk two maps at once.
    pub fn entries(&self) -> &[(Str, Value)] {
        &self.entries
    }
}

impl IntoIterator for Map {
    type Item = (Str, Value);
    type IntoIter = std::vec::IntoIter<(Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Map {
        Map::from_entries(iter.into_iter().map(|(k, v)| (k.into(), v.into())).collect(), |_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_repeated_keys_wins_and_is_reported() {
        let entries = [("b", 1), ("a", 2), ("b", 3), ("b", 4)];
        let mut seen = Vec::new();
        let entries = entries.into_iter().map(|(k, v)| (Str::from(k), Value::from(v))).collect();
        let map = Map::from_entries(entries, |key| seen.push(key.to_string()));
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", &Value::Int(2)), ("b", &Value::Int(4))]);
        assert_eq!(seen, ["b", "b"]);
    }

    #[test]
    fn many_changes_are_those_changes_one_by_one() {
        let mut changes: Vec<(Str, Option<Value>)> = Vec::new();
        for i in 0..40 {
            changes.push((Str::from(format!("k{}", i * 7 % 20)), (i % 3 != 0).then_some(Value::from(i))));
        }
        let start: Map = (0..15).map(|i| (format!("k{}", i * 2), -i)).collect();
        let mut one_by_one = start.clone();
        for (key, value) in changes.clone() {
            match value {
                Some(value) => drop(one_by_one.insert(key, value)),
                None => drop(one_by_one.remove(&key)),
            }
        }
        let mut at_once = start.clone();
        at_once.update(changes);
        assert_eq!(at_once, one_by_one);
        let taken = at_once.extract(|key| key.ends_with('1'));
        assert!(taken.iter().all(|(key, _)| key.ends_with('1') && !at_once.contains_key(key)));
    }

    #[test]
    fn insertion_keeps_the_order() {
        let mut map = Map::new();
        for key in ["m", "z", "a"] {
            assert_eq!(map.insert(key, 1), None);
        }
        assert_eq!(map.insert("m", 2), Some(Value::Int(1)));
        assert_eq!(map.keys().collect::<Vec<_>>(), ["a", "m", "z"]);
        assert_eq!(map.remove("a"), Some(Value::Int(1)));
        assert!(!map.contains_key("a"));
    }
}
