//! Keys of maps: how they are ordered and found.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::error::Internal;
use crate::opaque::Opaque;
use crate::val::Val;
use crate::val::gotype::go_type;

/// A key in the order in which maps keep their entries: booleans, numbers of all types by value, strings.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    /// Above what an `i64` holds.
    Large(u64),
    String(&'a str),
    /// A number with a fraction, or beyond what integers hold.
    Double(f64),
    Null,
    Duration(i64),
    Timestamp(object::Timestamp),
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
            Val::Null => Key::Null,
            Val::Duration(nanos) => Key::Duration(nanos),
            Val::Timestamp(time) => Key::Timestamp(time.instant),
            _ => Key::Other,
        }
    }

    /// The key of an entry that is made, which not every value can be.
    pub fn checked(val: &Val<'a>) -> Result<Key<'a>, Internal> {
        match val {
            Val::Bytes(_) | Val::Opaque(Opaque::Semver(_) | Opaque::Format(_)) => Err(Internal::Key(go_type(*val))),
            _ => Ok(Key::of(val)),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Bool(_) => 0,
            Key::Int(_) => 1,
            Key::Large(_) => 2,
            Key::String(_) => 3,
            Key::Double(_) => 4,
            Key::Null => 5,
            Key::Duration(_) => 6,
            Key::Timestamp(_) => 7,
            Key::Other => 8,
        }
    }
}

fn of_double<'a>(d: f64) -> Key<'a> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if d.is_nan() {
        Key::Other
    } else if d.trunc() != d {
        Key::Double(d)
    } else if (-TWO_TO_63..TWO_TO_63).contains(&d) {
        Key::Int(d as i64)
    } else if (TWO_TO_63..2.0 * TWO_TO_63).contains(&d) {
        Key::Large(d as u64)
    } else {
        Key::Double(d)
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Large(a), Key::Large(b)) => a.cmp(b),
            (Key::String(a), Key::String(b)) => a.cmp(b),
            (Key::Double(a), Key::Double(b)) => a.total_cmp(b),
            (Key::Duration(a), Key::Duration(b)) => a.cmp(b),
            (Key::Timestamp(a), Key::Timestamp(b)) => a.cmp(b),
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

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Key::Bool(b) => b.hash(state),
            Key::Int(i) | Key::Duration(i) => i.hash(state),
            Key::Large(u) => u.hash(state),
            Key::String(text) => text.hash(state),
            Key::Double(d) => d.to_bits().hash(state),
            Key::Timestamp(time) => time.hash(state),
            Key::Null | Key::Other => {}
        }
    }
}

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
