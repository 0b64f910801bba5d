//! [`Walk`]: the values of a struct's fields, which are sorted by name as the entries of a map are.

use std::cmp::Ordering;

use object::{Map, Str, Value, compare_names};

/// A walk along the entries of a map, whose names are asked for in order.
pub(super) struct Walk<'a> {
    rest: &'a [(Str, Value)],
}

impl<'a> Walk<'a> {
    pub fn of(map: &'a Map) -> Walk<'a> {
        Walk { rest: map.entries() }
    }

    /// The value of a field; None if it is not set.
    pub fn next(&mut self, name: &str) -> Option<&'a Value> {
        while let [(key, value), rest @ ..] = self.rest {
            match compare_names(key, name) {
                Ordering::Greater => return None,
                order => {
                    self.rest = rest;
                    if order.is_eq() {
                        return Some(value).filter(|value| !value.is_null());
                    }
                }
            }
        }
        None
    }
}
