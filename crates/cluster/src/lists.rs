//! Lists that clients got, and the check that each is what was there at its revision: nothing older, newer or missing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::Kind;
use crate::watches::KeyChange;

/// The keys of one kind and epoch, as a list showed them.
pub struct List {
    pub kind: &'static Kind,
    /// What the names of its keys begin with.
    pub prefix: String,
    pub revision: i64,
    /// Number and revision by name.
    pub items: BTreeMap<String, (u64, i64)>,
}

impl List {
    /// None if this is not a list with a revision.
    pub fn read(kind: &'static Kind, prefix: &str, body: &Value) -> Option<List> {
        let revision = body["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
        let items = body["items"].as_array()?.iter();
        let items = items.map(|item| Some((item["metadata"]["name"].as_str()?.to_string(), kind.read(item)?)));
        Some(List { kind, prefix: prefix.into(), revision, items: items.collect::<Option<_>>()? })
    }
}

/// Compares lists with the state that the changes, by revision, had led to. Lists before `first` are left out: what was
/// there before is not known.
pub fn check(lists: &[&List], changes: &BTreeMap<i64, KeyChange>, first: i64) -> Result<usize, String> {
    let mut lists: Vec<&&List> = lists.iter().filter(|list| list.revision >= first).collect();
    lists.sort_by_key(|list| list.revision);
    let mut state: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    let mut changes = changes.iter().peekable();
    for list in &lists {
        while let Some((revision, (name, value))) = changes.next_if(|(revision, _)| **revision <= list.revision) {
            match value {
                Some(value) => drop(state.insert(name, (*value, *revision))),
                None => drop(state.remove(name.as_str())),
            }
        }
        let there = state.range(list.prefix.as_str()..).take_while(|(name, _)| name.starts_with(&list.prefix));
        if !there.map(|(name, item)| (*name, item)).eq(list.items.iter().map(|(name, item)| (name.as_str(), item))) {
            return Err(format!("a list of {} at {} shows {:?}", list.prefix, list.revision, list.items));
        }
    }
    Ok(lists.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::CONFIG_MAP;

    #[test]
    fn lists_show_what_was_there_at_their_revision() {
        let change = |name: &str, value: Option<u64>| (name.to_string(), value);
        let changes = BTreeMap::from([
            (5, change("cm-0-1", Some(1))),
            (6, change("cm-0-2", Some(2))),
            (7, change("cm-1-1", Some(3))),
            (8, change("cm-0-1", None)),
        ]);
        for (name, revision, items, want) in [
            ("all of an epoch", 7, vec![("cm-0-1", 1, 5), ("cm-0-2", 2, 6)], true),
            ("after a deletion", 8, vec![("cm-0-2", 2, 6)], true),
            ("later than the last change", 9, vec![("cm-0-2", 2, 6)], true),
            ("one is missing", 7, vec![("cm-0-2", 2, 6)], false),
            ("one comes from the future", 5, vec![("cm-0-1", 1, 5), ("cm-0-2", 2, 6)], false),
            ("one is gone", 8, vec![("cm-0-1", 1, 5), ("cm-0-2", 2, 6)], false),
            ("another value", 6, vec![("cm-0-1", 1, 5), ("cm-0-2", 3, 6)], false),
        ] {
            let items = items.into_iter().map(|(name, value, at)| (name.to_string(), (value, at))).collect();
            let list = List { kind: &CONFIG_MAP, prefix: "cm-0-".into(), revision, items };
            assert_eq!(check(&[&list], &changes, 0).is_ok(), want, "{name}");
        }
    }
}
