//! Maps as they occur while an expression is evaluated.

use object::Value;

use crate::arena::Arena;
use crate::constant::Constant;
use crate::convert;
use crate::decl::Decl;
use crate::error::{Error, Outcome};
use crate::escape::{escape, unescape};
use crate::val::Val;
use crate::val::key::{Key, lookup};

/// A map: where its entries are.
#[derive(Clone, Copy, Debug)]
pub enum Map<'a> {
    /// Made in the evaluation, sorted by key.
    Entries(&'a [(Val<'a>, Val<'a>)]),
    /// A part of the program, sorted by key.
    Constant(&'a [(Constant, Constant)]),
    /// A JSON object without a schema.
    Json(&'a object::Map),
    /// The same, where fields have escaped names too.
    Escaped(&'a object::Map),
    /// A JSON object with its schema.
    Typed(&'a object::Map, &'a Decl),
}

impl<'a> Map<'a> {
    pub const EMPTY: Map<'static> = Map::Entries(&[]);

    /// A map of entries with distinct keys in any order.
    pub fn new(mut entries: Vec<(Val<'a>, Val<'a>)>, arena: &'a Arena) -> Map<'a> {
        entries.sort_by(|(a, _), (b, _)| Key::of(a).cmp(&Key::of(b)));
        Map::Entries(arena.slice(&entries))
    }

    pub fn len(self) -> usize {
        match self {
            Map::Entries(entries) => entries.len(),
            Map::Constant(entries) => entries.len(),
            Map::Json(map) | Map::Escaped(map) | Map::Typed(map, _) => map.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value at `key`, if there is one.
    pub fn find(self, key: Val<'a>, arena: &'a Arena) -> Outcome<'a, Option<Val<'a>>> {
        if !self.is_empty() && matches!(self, Map::Entries(_) | Map::Constant(_)) {
            Key::checked(&key)?;
        }
        match self {
            // Values without a key's order are keys by identity, as pointers are in Go.
            Map::Entries(entries) if matches!(Key::of(&key), Key::Other) => {
                Ok(entries.iter().find(|(known, _)| known.is_same_object(&key)).map(|(_, value)| *value))
            }
            Map::Entries(entries) => Ok(lookup(entries, |(key, _)| Key::of(key), &key).map(|(_, value)| *value)),
            Map::Constant(entries) => {
                Ok(lookup(entries, |(key, _)| Key::of(&key.val()), &key).map(|(_, value)| value.val()))
            }
            Map::Json(map) => match key {
                Val::String(key) => Ok(map.get(key).map(|value| convert::json_part(value, arena))),
                _ => Ok(None),
            },
            Map::Escaped(map) => match key {
                Val::String(key) => Ok(find_escaped(map, key)),
                _ => Ok(None),
            },
            Map::Typed(map, decl) => match key {
                Val::String(key) => find_typed(map, decl, key, arena),
                _ => Err(Error::NO_SUCH_OVERLOAD),
            },
        }
    }

    /// The value of a field by name, as a selection `map.name` reads it.
    pub fn field(self, name: &'a str, arena: &'a Arena) -> Outcome<'a, Option<Val<'a>>> {
        match self {
            Map::Json(map) => Ok(map.get(name).map(|value| convert::json_part(value, arena))),
            Map::Escaped(map) => Ok(find_escaped(map, name)),
            Map::Typed(map, decl) => find_typed(map, decl, name, arena),
            other => other.find(Val::String(name), arena),
        }
    }

    /// The first entry.
    pub(crate) fn first(self, arena: &'a Arena) -> Option<Outcome<'a, (Val<'a>, Val<'a>)>> {
        match self {
            Map::Entries(entries) => entries.first().map(|entry| Ok(*entry)),
            Map::Constant(entries) => entries.first().map(|(key, value)| Ok((key.val(), value.val()))),
            Map::Json(map) => {
                map.entries().first().map(|(key, value)| Ok((Val::String(key), convert::json_part(value, arena))))
            }
            Map::Escaped(map) => {
                map.entries().first().map(|(key, value)| Ok((Val::String(key), convert::escaped_json(value))))
            }
            Map::Typed(..) => {
                let key = self.keys(arena).into_iter().next()?;
                Some(self.find(key, arena).map(|value| (key, value.unwrap_or(Val::Null))))
            }
        }
    }

    /// The keys in order. Objects have the keys that their schema knows, written as expressions write them, and then a null
    /// for every other one.
    pub fn keys(self, arena: &'a Arena) -> Vec<Val<'a>> {
        match self {
            Map::Entries(entries) => entries.iter().map(|(key, _)| *key).collect(),
            Map::Constant(entries) => entries.iter().map(|(key, _)| key.val()).collect(),
            Map::Json(map) | Map::Escaped(map) => map.entries().iter().map(|(key, _)| Val::String(key)).collect(),
            Map::Typed(map, decl) => {
                let known = map.entries().iter().filter(|(key, _)| decl.child(key).is_some());
                let mut keys: Vec<Val<'a>> = known.map(|(key, _)| Val::String(visible(key, decl, arena))).collect();
                keys.resize(map.len(), Val::Null);
                keys
            }
        }
    }
}

fn visible<'a>(key: &'a str, decl: &Decl, arena: &'a Arena) -> &'a str {
    if !decl.has_properties() {
        return key;
    }
    match escape(key) {
        Some(escaped) if escaped != key => arena.str(&escaped),
        _ => key,
    }
}

/// The value of a field by its name as expressions write it: an escaped name never stands for itself.
fn find_escaped<'a>(map: &'a object::Map, key: &str) -> Option<Val<'a>> {
    let name = unescape(key);
    map.get(name.as_deref().unwrap_or(key)).map(convert::escaped_json)
}

fn find_typed<'a>(
    map: &'a object::Map,
    decl: &'a Decl,
    key: &'a str,
    arena: &'a Arena,
) -> Outcome<'a, Option<Val<'a>>> {
    let is_object = decl.has_properties();
    let unescaped;
    let raw = if is_object {
        match unescape(key) {
            Some(raw) => {
                unescaped = raw;
                unescaped.as_ref()
            }
            None => return Ok(None),
        }
    } else {
        key
    };
    match (map.get(raw), decl.child(raw)) {
        // A null in a field of an object is the same as no field.
        (Some(Value::Null), _) if is_object => Ok(None),
        (Some(value), Some(child)) => convert::typed(value, child, arena).map(Some),
        _ => Ok(None),
    }
}
