//! Writes that change nothing but a time.

use object::{Map, Value};

/// Puts the old times back into managedFields if they are all that `new` would change, so that nothing is written.
///
/// `same` compares the rest of the object as its encoding would show it. Entries that came or went, or own something
/// else, are a change like any other.
pub fn keep_timestamps(old: &Value, new: &mut Value, same: impl Fn(&Value, &Value) -> bool) {
    let path = ["metadata", "managedFields"];
    let (before, after) = (old.list_at(&path), new.list_at(&path));
    if after.is_empty() || before.len() != after.len() {
        return;
    }
    let times_differ = before.iter().zip(after).any(|(a, b)| a.field("time") != b.field("time"));
    if !times_differ || !before.iter().zip(after).all(|(a, b)| same_but_time(a, b)) {
        return;
    }
    let with_old_times = {
        let mut candidate = new.clone();
        candidate.set(&path, before.to_vec());
        candidate
    };
    if same(old, &with_old_times) {
        *new = with_old_times;
    }
}

fn same_but_time(a: &Value, b: &Value) -> bool {
    let fields = |entry: &Value| {
        let map = entry.as_map().cloned().unwrap_or_default();
        map.into_iter().filter(|(key, _)| key != "time").collect::<Map>()
    };
    fields(a) == fields(b)
}
