//! `cel.@mapInsert`, to which the macros with two variables expand.

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::{Link, Type};
use crate::val::{Map, Val};

pub static LIBRARY: Library = Library {
    name: "cel ext two-variable comprehensions",
    since: Version { major: 1, minor: 32 },
    until: None,
    overloads: OVERLOADS,
};

const K: Type = Type::Param("K");
const V: Type = Type::Param("V");
const MAP_KV: Type = Type::Map(Link::Static(&K), Link::Static(&V));

static OVERLOADS: &[Overload] = &[
    overload!("cel.@mapInsert", "@mapInsert_map_key_value", (MAP_KV, K, V) -> MAP_KV, insert_entry),
    overload!("cel.@mapInsert", "@mapInsert_map_map", (MAP_KV, MAP_KV) -> MAP_KV, insert_map),
];

fn insert_entry<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Map(map), key, value] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    insert(*map, &[(*key, *value)], arena)
}

fn insert_map<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Map(map), Val::Map(other)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    insert(*map, &entries(*other, arena)?, arena)
}

/// The entries of a map in order.
pub(crate) fn entries<'a>(map: Map<'a>, arena: &'a Arena) -> Outcome<'a, Vec<(Val<'a>, Val<'a>)>> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys(arena) {
        if let Some(value) = map.find(key, arena)? {
            entries.push((key, value));
        }
    }
    Ok(entries)
}

fn insert<'a>(map: Map<'a>, new: &[(Val<'a>, Val<'a>)], arena: &'a Arena) -> Outcome<'a> {
    let mut all = entries(map, arena)?;
    for (key, value) in new {
        if map.find(*key, arena)?.is_some() {
            return Err(exists(*key, arena));
        }
        all.push((*key, *value));
    }
    Ok(Val::Map(Map::new(all, arena)))
}

pub(crate) fn exists<'a>(key: Val<'a>, arena: &'a Arena) -> Error<'a> {
    arena.error(format_args!("insert failed: key {key} already exists"))
}
