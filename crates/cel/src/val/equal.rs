//! Equality and order.

use std::cmp::Ordering;

use object::Value;

use super::{List, Map, Val};
use crate::arena::Arena;
use crate::decl::{Decl, ListKind, Shape};
use crate::error::{Error, Outcome};
use crate::val::key::Key;

const NOT_ORDERED: Error<'static> = Error::new("NaN values cannot be ordered");

impl<'a> Val<'a> {
    /// Whether two values are equal. Numbers of different types are equal if their values are; values of other different
    /// types are not equal. Lists and maps that come from an object insist on being compared with their like.
    pub fn equal(self, other: Val<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
        Ok(match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Null, _) | (_, Val::Null) => false,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::String(a), Val::String(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a.instant == b.instant,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
                self.compare(other) == Ok(Ordering::Equal)
            }
            (Val::List(a), b) => return a.equal(b, arena),
            (Val::Map(a), b) => return a.equal(b, arena),
            (Val::Optional(None), Val::Optional(None)) => true,
            (Val::Optional(Some(a)), Val::Optional(Some(b))) => return a.equal(*b, arena),
            (Val::Opaque(a), b) => return a.equal(b),
            (Val::Preserved(a), b) => preserved(a, b),
            (Val::Struct(a), Val::Struct(b)) => {
                if a.type_name != b.type_name || a.fields.len() != b.fields.len() {
                    return Ok(false);
                }
                for ((a_name, a), (b_name, b)) in a.fields.iter().zip(b.fields) {
                    if a_name != b_name || !a.equal(*b, arena)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        })
    }

    /// Whether the type has an order.
    pub fn has_order(self) -> bool {
        matches!(
            self,
            Val::Bool(_)
                | Val::Int(_)
                | Val::Uint(_)
                | Val::Double(_)
                | Val::String(_)
                | Val::Bytes(_)
                | Val::Duration(_)
                | Val::Timestamp(_)
        )
    }

    /// Which of two values comes first.
    pub fn compare(self, other: Val<'a>) -> Outcome<'a, Ordering> {
        Ok(match (self, other) {
            (Val::Bool(a), Val::Bool(b)) => a.cmp(&b),
            (Val::Int(a), Val::Int(b)) => a.cmp(&b),
            (Val::Uint(a), Val::Uint(b)) => a.cmp(&b),
            (Val::Int(a), Val::Uint(b)) => int_uint(a, b),
            (Val::Uint(a), Val::Int(b)) => int_uint(b, a).reverse(),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(&b).ok_or(NOT_ORDERED)?,
            (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(b as f64)).ok_or(NOT_ORDERED)?,
            (Val::Int(a), Val::Double(b)) => (a as f64).partial_cmp(&b).ok_or(NOT_ORDERED)?,
            (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(b as f64)).ok_or(NOT_ORDERED)?,
            (Val::Uint(a), Val::Double(b)) => (a as f64).partial_cmp(&b).ok_or(NOT_ORDERED)?,
            (Val::String(a), Val::String(b)) => a.cmp(b),
            (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
            (Val::Duration(a), Val::Duration(b)) => a.cmp(&b),
            (Val::Timestamp(a), Val::Timestamp(b)) => a.instant.cmp(&b.instant),
            (Val::Double(a), _) if a.is_nan() => return Err(NOT_ORDERED),
            _ => return Err(Error::NO_SUCH_OVERLOAD),
        })
    }

    /// The JSON that the value is, for comparison with JSON that has no schema.
    fn json(self) -> Option<&'a Value> {
        match self {
            Val::Preserved(value) => Some(value),
            _ => None,
        }
    }
}

fn int_uint(a: i64, b: u64) -> Ordering {
    match u64::try_from(a) {
        Ok(a) => a.cmp(&b),
        Err(_) => Ordering::Less,
    }
}

/// Whether preserved JSON equals a value.
fn preserved(a: &Value, b: Val<'_>) -> bool {
    if let Some(b) = b.json() {
        return same_json(a, b);
    }
    match (a, b) {
        (Value::Bool(a), Val::Bool(b)) => *a == b,
        (Value::Int(a), Val::Int(b)) => *a == b,
        (Value::Float(a), Val::Double(b)) => *a == b,
        (Value::String(a), Val::String(b)) => a == b,
        (Value::List(a), Val::List(List::Json(b) | List::Escaped(b) | List::Typed(b, _))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b))
        }
        (Value::Map(a), Val::Map(Map::Json(b) | Map::Escaped(b) | Map::Typed(b, _))) => same_maps(a, b),
        _ => false,
    }
}

/// Go's semantic equality, for which an empty list or map is the same as none.
fn same_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b)),
        (Value::Map(a), Value::Map(b)) => same_maps(a, b),
        _ => a == b,
    }
}

fn same_maps(a: &object::Map, b: &object::Map) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|((ak, av), (bk, bv))| ak == bk && same_json(av, bv))
}

impl<'a> List<'a> {
    /// The list type, of lists that have a schema.
    fn kind(self) -> Option<&'a ListKind> {
        match self {
            List::Typed(_, decl) | List::Merged(_, decl) => match &decl.shape {
                Shape::List { kind, .. } => Some(kind),
                _ => None,
            },
            _ => None,
        }
    }

    /// The list that a merge made; it is of the same list type.
    fn merged(self, items: &[Val<'a>], arena: &'a Arena) -> List<'a> {
        match self {
            List::Typed(_, decl) | List::Merged(_, decl) => List::Merged(arena.slice(items), decl),
            _ => List::Slice(arena.slice(items)),
        }
    }

    fn equal(self, other: Val<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
        let kind = self.kind();
        let Val::List(other) = other else {
            // Lists from objects have this as an error, others do not.
            return if kind.is_some() { Err(Error::NO_SUCH_OVERLOAD) } else { Ok(false) };
        };
        if self.len() != other.len() {
            return Ok(false);
        }
        match kind {
            Some(ListKind::Set) => return self.equal_sets(other, arena),
            Some(ListKind::Map(keys)) => return self.equal_map_lists(other, keys, arena),
            _ => {}
        }
        let is_typed = kind.is_some();
        for (a, b) in self.iter(arena).zip(other.iter(arena)) {
            match a.and_then(|a| a.equal(b?, arena)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if is_typed => return Err(error),
                // Other lists overlook errors.
                Err(_) => {}
            }
        }
        Ok(true)
    }

    /// Lists of type set are equal if they have the same elements in any order.
    fn equal_sets(self, other: List<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
        let mine = self.set_keys(arena)?;
        let theirs = other.set_keys(arena)?;
        Ok(mine == theirs)
    }

    /// The distinct elements, sorted.
    fn set_keys(self, arena: &'a Arena) -> Outcome<'a, Vec<SetKey<'a>>> {
        let mut keys = self.iter(arena).map(|item| set_key(item?)).collect::<Result<Vec<_>, _>>()?;
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    /// Lists of type map are equal if they have equal items for the same keys.
    fn equal_map_lists(self, other: List<'a>, keys: &'a [object::Str], arena: &'a Arena) -> Outcome<'a, bool> {
        let mine: Vec<Val<'a>> = self.iter(arena).collect::<Result<_, _>>()?;
        let mut seen = vec![false; mine.len()];
        for theirs in other.iter(arena) {
            let theirs = theirs?;
            let wanted = map_key(theirs, keys, arena)?;
            // Of items with the same keys the last one counts.
            let mut found = None;
            for (at, item) in mine.iter().enumerate().rev() {
                if same_keys(&map_key(*item, keys, arena)?, &wanted, arena)? {
                    found = Some(at);
                    break;
                }
            }
            let Some(at) = found else { return Ok(false) };
            if !mine[at].equal(theirs, arena)? {
                return Ok(false);
            }
            seen[at] = true;
        }
        Ok(seen.iter().all(|seen| *seen))
    }

    /// Whether an element equals the value.
    pub fn contains(self, element: Val<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
        let is_typed = self.kind().is_some();
        let mut failure = None;
        for item in self.iter(arena) {
            let equal = match is_typed {
                true => item.and_then(|item| item.equal(element, arena)),
                false => item.and_then(|item| element.equal(item, arena)),
            };
            match equal {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure.filter(|_| is_typed) {
            Some(error) => Err(error),
            None => Ok(false),
        }
    }

    /// `self + other`. Sets and map lists from objects are merged instead of concatenated.
    pub fn add(self, other: List<'a>, arena: &'a Arena) -> Outcome<'a, List<'a>> {
        let kind = self.kind();
        match kind {
            Some(ListKind::Set) => {
                let mut items: Vec<Val<'a>> = self.iter(arena).collect::<Result<_, _>>()?;
                let mut keys = self.set_keys(arena)?;
                for item in other.iter(arena) {
                    let item = item?;
                    let key = set_key(item)?;
                    if let Err(at) = keys.binary_search(&key) {
                        keys.insert(at, key);
                        items.push(item);
                    }
                }
                Ok(self.merged(&items, arena))
            }
            Some(ListKind::Map(keys)) => {
                let mut items: Vec<Val<'a>> = self.iter(arena).collect::<Result<_, _>>()?;
                for item in other.iter(arena) {
                    let item = item?;
                    let wanted = map_key(item, keys, arena)?;
                    let mut place = None;
                    for (at, mine) in items.iter().enumerate() {
                        if same_keys(&map_key(*mine, keys, arena)?, &wanted, arena)? {
                            place = Some(at);
                            break;
                        }
                    }
                    match place {
                        Some(at) => items[at] = item,
                        None => items.push(item),
                    }
                }
                Ok(self.merged(&items, arena))
            }
            _ => Ok(self.concat(other, arena)),
        }
    }
}

/// An element of a set in an order in which equal elements meet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey<'a>(u8, Option<Key<'a>>, Vec<u8>);

/// Elements of sets are scalars; others are told apart by their text.
fn set_key<'a>(val: Val<'a>) -> Outcome<'a, SetKey<'a>> {
    Ok(match val {
        Val::Bool(_) | Val::Int(_) | Val::String(_) => SetKey(0, Some(Key::of(&val)), Vec::new()),
        Val::Uint(u) => SetKey(1, None, u.to_be_bytes().to_vec()),
        Val::Double(d) => SetKey(2, None, d.to_bits().to_be_bytes().to_vec()),
        Val::Null => SetKey(3, None, Vec::new()),
        Val::Bytes(bytes) => SetKey(4, None, bytes.to_vec()),
        Val::Duration(d) => SetKey(5, None, d.to_be_bytes().to_vec()),
        Val::Timestamp(t) => SetKey(6, None, t.to_string().into_bytes()),
        _ => {
            return Err(Error::new("listSet operations are only supported on lists of scalar values"));
        }
    })
}

/// The values of an item's keys.
fn map_key<'a>(item: Val<'a>, keys: &'a [object::Str], arena: &'a Arena) -> Outcome<'a, Vec<Option<Val<'a>>>> {
    let Val::Map(map) = item else { return Err(Error::NO_SUCH_OVERLOAD) };
    keys.iter().map(|key| map.field(key, arena)).collect()
}

fn same_keys<'a>(a: &[Option<Val<'a>>], b: &[Option<Val<'a>>], arena: &'a Arena) -> Outcome<'a, bool> {
    for (a, b) in a.iter().zip(b) {
        let same = match (a, b) {
            (Some(a), Some(b)) => a.equal(*b, arena)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<'a> Map<'a> {
    fn equal(self, other: Val<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
        let Val::Map(other) = other else {
            return if matches!(self, Map::Typed(..)) { Err(Error::NO_SUCH_OVERLOAD) } else { Ok(false) };
        };
        if self.len() != other.len() {
            return Ok(false);
        }
        if let Map::Typed(map, decl) = self {
            return typed_equal(map, decl, self, other, arena);
        }
        for key in self.keys(arena) {
            let mine = self.find(key, arena)?;
            let Some(theirs) = other.find(key, arena)? else { return Ok(false) };
            // Errors are overlooked, as in lists.
            if mine.is_some_and(|mine| mine.equal(theirs, arena) == Ok(false)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn typed_equal<'a>(
    map: &'a object::Map,
    decl: &'a Decl,
    whole: Map<'a>,
    other: Map<'a>,
    arena: &'a Arena,
) -> Outcome<'a, bool> {
    for (key, value) in map.iter() {
        if decl.child(key).is_some() {
            let (mine, theirs) = (whole.field(key, arena)?, other.field(key, arena)?);
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    if !mine.equal(theirs, arena)? {
                        return Ok(false);
                    }
                }
                (None, None) => {}
                _ => return Ok(false),
            }
            continue;
        }
        // A field that the schema does not know is compared as it is.
        let Map::Typed(others, _) = other else { return Err(Error::NO_SUCH_OVERLOAD) };
        if others.get(key).is_some_and(|other| !same_json(value, other)) {
            return Ok(false);
        }
    }
    Ok(true)
}
