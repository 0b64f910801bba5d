//! Lists whose items have names, for rules that look items up more than once: each lookup in the list itself would take as
//! long as the list is.

use std::collections::{HashMap, HashSet};

use object::Value;

/// The names of all items.
pub fn names(list: &[Value]) -> HashSet<&str> {
    list.iter().map(|item| item.str_at(&["name"])).collect()
}

/// The items by name; of those with the same name the first.
pub fn first_by_name(list: &[Value]) -> HashMap<&str, &Value> {
    list.iter().rev().map(|item| (item.str_at(&["name"]), item)).collect()
}

/// The items by name; of those with the same name the last.
pub fn last_by_name(list: &[Value]) -> HashMap<&str, &Value> {
    list.iter().map(|item| (item.str_at(&["name"]), item)).collect()
}
