//! Optional values: `optional.of(x)`, `a.?b`, `a[?b]`, `x.orValue(y)`.

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::{Link, Type};
use crate::val::{List, Val};

pub static LIBRARY: Library =
    Library { name: "cel optional types", since: Version { major: 1, minor: 28 }, until: None, overloads: OVERLOADS };

const K: Type = Type::Param("K");
const V: Type = Type::Param("V");
const LIST_V: Type = Type::List(Link::Static(&V));
const MAP_KV: Type = Type::Map(Link::Static(&K), Link::Static(&V));
const OPTIONAL_V: Type = Type::Optional(Link::Static(&V));
const OPTIONAL_LIST: Type = Type::Optional(Link::Static(&LIST_V));
const OPTIONAL_MAP: Type = Type::Optional(Link::Static(&MAP_KV));
const LIST_OPTIONAL: Type = Type::List(Link::Static(&OPTIONAL_V));

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(builtin "_?._", "select_optional_field", (Type::Dyn, Type::String) -> OPTIONAL_V),
    overload!(builtin "_[?_]", "list_optindex_optional_int", (LIST_V, Type::Int) -> OPTIONAL_V),
    overload!(builtin "_[?_]", "optional_list_optindex_optional_int", (OPTIONAL_LIST, Type::Int) -> OPTIONAL_V),
    overload!(builtin "_[?_]", "map_optindex_optional_value", (MAP_KV, K) -> OPTIONAL_V),
    overload!(builtin "_[?_]", "optional_map_optindex_optional_value", (OPTIONAL_MAP, K) -> OPTIONAL_V),
    overload!(builtin "_[_]", "optional_list_index_int", (OPTIONAL_LIST, Type::Int) -> OPTIONAL_V),
    overload!(builtin "_[_]", "optional_map_index_value", (OPTIONAL_MAP, K) -> OPTIONAL_V),
    overload!(member "first", "list_first", (LIST_V) -> OPTIONAL_V, first),
    overload!(member "hasValue", "optional_hasValue", (OPTIONAL_V) -> Type::Bool, has_value),
    overload!(member "last", "list_last", (LIST_V) -> OPTIONAL_V, last),
    overload!("optional.none", "optional_none", () -> OPTIONAL_V, none),
    overload!("optional.of", "optional_of", (V) -> OPTIONAL_V, of),
    overload!("optional.ofNonZeroValue", "optional_ofNonZeroValue", (V) -> OPTIONAL_V, of_non_zero_value),
    overload!("optional.unwrap", "optional_unwrap", (LIST_OPTIONAL) -> LIST_V, unwrap),
    overload!(builtin member "or", "optional_or_optional", (OPTIONAL_V, OPTIONAL_V) -> OPTIONAL_V),
    overload!(builtin member "orValue", "optional_orValue_value", (OPTIONAL_V, V) -> V),
    overload!(member "unwrapOpt", "optional_unwrapOpt", (LIST_OPTIONAL) -> LIST_V, unwrap),
    overload!(member "value", "optional_value", (OPTIONAL_V) -> V, value),
];

fn none<'a>(_: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    Ok(Val::Optional(None))
}

fn of<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [value] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Optional(Some(arena.copy(*value))))
}

fn of_non_zero_value<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [value] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Optional((!value.is_zero()).then(|| arena.copy(*value))))
}

fn value<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match args {
        [Val::Optional(Some(value))] => Ok(**value),
        [Val::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn has_value<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::Optional(value)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(value.is_some()))
}

fn at<'a>(list: List<'a>, index: Option<usize>, arena: &'a Arena) -> Outcome<'a> {
    let item = index.and_then(|index| list.get(index, arena)).transpose()?;
    Ok(Val::Optional(item.map(|item| arena.copy(item))))
}

fn first<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    at(*list, Some(0), arena)
}

fn last<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    at(*list, list.len().checked_sub(1), arena)
}

/// The values of the optionals in a list that have one.
fn unwrap<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut values = Vec::with_capacity(list.len());
    for item in list.iter(arena) {
        match item? {
            Val::Optional(value) => values.extend(value.copied()),
            other => return Err(arena.error(format_args!("value {other} is not optional"))),
        }
    }
    Ok(arena.list_val(&values))
}
