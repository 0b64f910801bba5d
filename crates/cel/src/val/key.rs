//! Keys of maps: how they are ordered and found.

use std::cmp::Ordering;

use crate::val::Val;

/// A key in the order in which maps keep their entries: booleans, numbers of all types by value, strings.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    /// Above what an `i64` holds.
    Large(u64),
    String(&'a str),
    /// Not a key. It is equal to nothing that is in a map.
    Other,
}

impl<'a> Key<'a> {
    /// Numbers that are equal have the same key, whatever their type.
    pub fn of(val: &Val<'a>) -> Key<'a> {
        match *val {
            Val::Bool(b) => Key::Bool(b),
            Val::Int(i) => Key::Int(i),
            Val::Uint(u) => i64::try_from(u).map_or(Key::Large(u), Key::Int),
            Val::Double(d) => of_double(d),
            Val::String(s) => Key::String(s),
            _ => Key::Other,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Bool(_) => 0,
            Key::Int(_) => 1,
            Key::Large(_) => 2,
            Key::String(_) => 3,
            Key::Other => 4,
        }
    }
}

fn of_double<'a>(d: f64) -> Key<'a> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if d.trunc() != d {
        Key::Other
    } else if (-TWO_TO_63..TWO_TO_63).contains(&d) {
        Key::Int(d as i64)
    } else if (TWO_TO_63..2.0 * TWO_TO_63).contains(&d) {
        Key::Large(d as u64)
    } else {
        Key::Other
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Large(a), Key::Large(b)) => a.cmp(b),
            (Key::String(a), Key::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

/// The entry with the key, among entries sorted by key.
pub(crate) fn lookup<'e, 'k, E>(entries: &'e [E], key: impl Fn(&'e E) -> Key<'e>, wanted: &Val<'k>) -> Option<&'e E>
where
    'k: 'e,
{
    let wanted: Key<'e> = Key::of(wanted);
    if matches!(wanted, Key::Other) {
        return None;
    }
    entries.binary_search_by(|entry| key(entry).cmp(&wanted)).ok().map(|at| &entries[at])
}
