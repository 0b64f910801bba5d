//! `kubernetes.lists`: order, sums and places of items.

use std::cmp::Ordering;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::standard::ops;
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.lists", since: Version { major: 1, minor: 0 }, until: None, overloads: OVERLOADS };

/// What version 1 of the library added.
pub static INCLUDES: Library =
    Library { name: "kubernetes.lists", since: Version { major: 1, minor: 37 }, until: None, overloads: ADDED };

const A: Type = Type::Param("A");
const LIST: Type = Type::list_of(&A);

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(member "isSorted", "list_int_is_sorted_bool", (Type::list_of(&Type::Int)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_uint_is_sorted_bool", (Type::list_of(&Type::Uint)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_double_is_sorted_bool", (Type::list_of(&Type::Double)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_bool_is_sorted_bool", (Type::list_of(&Type::Bool)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_duration_is_sorted_bool", (Type::list_of(&Type::Duration)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_timestamp_is_sorted_bool", (Type::list_of(&Type::Timestamp)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_string_is_sorted_bool", (Type::list_of(&Type::String)) -> Type::Bool, is_sorted),
    overload!(member "isSorted", "list_bytes_is_sorted_bool", (Type::list_of(&Type::Bytes)) -> Type::Bool, is_sorted),
    overload!(member "sum", "list_int_sum_int", (Type::list_of(&Type::Int)) -> Type::Int, sum_int),
    overload!(member "sum", "list_uint_sum_uint", (Type::list_of(&Type::Uint)) -> Type::Uint, sum_uint),
    overload!(member "sum", "list_double_sum_double", (Type::list_of(&Type::Double)) -> Type::Double, sum_double),
    overload!(member "sum", "list_duration_sum_duration", (Type::list_of(&Type::Duration)) -> Type::Duration, sum_duration),
    overload!(member "max", "list_int_max_int", (Type::list_of(&Type::Int)) -> Type::Int, max),
    overload!(member "max", "list_uint_max_uint", (Type::list_of(&Type::Uint)) -> Type::Uint, max),
    overload!(member "max", "list_double_max_double", (Type::list_of(&Type::Double)) -> Type::Double, max),
    overload!(member "max", "list_bool_max_bool", (Type::list_of(&Type::Bool)) -> Type::Bool, max),
    overload!(member "max", "list_duration_max_duration", (Type::list_of(&Type::Duration)) -> Type::Duration, max),
    overload!(member "max", "list_timestamp_max_timestamp", (Type::list_of(&Type::Timestamp)) -> Type::Timestamp, max),
    overload!(member "max", "list_string_max_string", (Type::list_of(&Type::String)) -> Type::String, max),
    overload!(member "max", "list_bytes_max_bytes", (Type::list_of(&Type::Bytes)) -> Type::Bytes, max),
    overload!(member "min", "list_int_min_int", (Type::list_of(&Type::Int)) -> Type::Int, min),
    overload!(member "min", "list_uint_min_uint", (Type::list_of(&Type::Uint)) -> Type::Uint, min),
    overload!(member "min", "list_double_min_double", (Type::list_of(&Type::Double)) -> Type::Double, min),
    overload!(member "min", "list_bool_min_bool", (Type::list_of(&Type::Bool)) -> Type::Bool, min),
    overload!(member "min", "list_duration_min_duration", (Type::list_of(&Type::Duration)) -> Type::Duration, min),
    overload!(member "min", "list_timestamp_min_timestamp", (Type::list_of(&Type::Timestamp)) -> Type::Timestamp, min),
    overload!(member "min", "list_string_min_string", (Type::list_of(&Type::String)) -> Type::String, min),
    overload!(member "min", "list_bytes_min_bytes", (Type::list_of(&Type::Bytes)) -> Type::Bytes, min),
    overload!(member "indexOf", "list_a_index_of_int", (LIST, A) -> Type::Int, index_of),
    overload!(member "lastIndexOf", "list_a_last_index_of_int", (LIST, A) -> Type::Int, last_index_of),
];

#[rustfmt::skip]
static ADDED: &[Overload] = &[
    overload!(member "includes", "list_includes_dyn_dyn", (Type::Dyn, Type::Dyn) -> Type::Bool, includes),
];

fn is_sorted<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let mut previous: Option<Val<'a>> = None;
    for item in items(args, arena)? {
        let item = ordered(item?)?;
        // Items that cannot be compared with each other are passed over.
        if previous.is_some_and(|previous| previous.compare(item) == Ok(Ordering::Greater)) {
            return Ok(Val::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Val::Bool(true))
}

fn sum_int<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    sum(Val::Int(0), args, arena)
}

fn sum_uint<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    sum(Val::Uint(0), args, arena)
}

fn sum_double<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    sum(Val::Double(0.0), args, arena)
}

fn sum_duration<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    sum(Val::Duration(0), args, arena)
}

fn sum<'a>(zero: Val<'a>, args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    items(args, arena)?.try_fold(zero, |total, item| ops::add(&[total, item?], arena))
}

fn max<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    extreme(args, arena, Ordering::Less, "max called on empty list")
}

fn min<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    extreme(args, arena, Ordering::Greater, "min called on empty list")
}

/// The first item that no other item is preferred to; `worse` is how it compares with one that is.
fn extreme<'a>(args: &[Val<'a>], arena: &'a Arena, worse: Ordering, empty: &'static str) -> Outcome<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in items(args, arena)? {
        let item = ordered(item?)?;
        if best.is_none_or(|best| best.compare(item) == Ok(worse)) {
            best = Some(item);
        }
    }
    best.ok_or(Error::new(empty))
}

fn index_of<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list), wanted] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let found = list.iter(arena).position(|item| is_equal(item, wanted, arena));
    Ok(Val::Int(found.map_or(-1, |at| at as i64)))
}

fn last_index_of<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list), wanted] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut last = -1;
    for (at, item) in list.iter(arena).enumerate() {
        if is_equal(item, wanted, arena) {
            last = at as i64;
        }
    }
    Ok(Val::Int(last))
}

fn includes<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [target, wanted] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(match target {
        Val::List(list) => list.iter(arena).any(|item| is_equal(item, wanted, arena)),
        other => is_equal(Ok(other), wanted, arena),
    }))
}

/// Whether an item equals a value; errors count as no.
fn is_equal<'a>(item: Outcome<'a>, wanted: Val<'a>, arena: &'a Arena) -> bool {
    item.and_then(|item| item.equal(wanted, arena)) == Ok(true)
}

fn items<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a, impl Iterator<Item = Outcome<'a>>> {
    match *args {
        [Val::List(list)] => Ok(list.iter(arena)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn ordered<'a>(item: Val<'a>) -> Outcome<'a> {
    if item.has_order() { Ok(item) } else { Err(Error::NO_SUCH_OVERLOAD) }
}
