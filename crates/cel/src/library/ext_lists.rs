//! Version 3 of cel-go's extension `lists`: slices, flattening and sorting.

mod costs;
mod order;

use std::cmp::Ordering;

use costs::*;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::{Link, Type};
use crate::val::{List, Val};

pub static LIBRARY: Library =
    Library { name: "cel.lib.ext.lists", since: Version { major: 1, minor: 34 }, until: None, overloads: OVERLOADS };

/// Most items of a range.
const RANGE_MAX: i64 = 1_000_000;
/// Levels below which lists are not flattened; values are never nested so deeply.
const FLATTEN_DEPTH_MAX: i64 = 1000;

const T: Type = Type::Param("T");
const LIST: Type = Type::List(Link::Static(&T));
const LIST_LIST: Type = Type::List(Link::Static(&LIST));
const LIST_DYN: Type = Type::List(Link::Static(&Type::Dyn));

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(member "slice", "list_slice", (LIST, Type::Int, Type::Int) -> LIST, slice,
        cost: cost_of_result, estimate: estimate_slice),
    overload!(any member "flatten", "list_flatten", (LIST_LIST) -> LIST, flatten,
        cost: cost_flatten, estimate: estimate_flatten),
    overload!(any member "flatten", "list_flatten_int", (LIST_DYN, Type::Int) -> LIST_DYN, flatten,
        cost: cost_flatten, estimate: estimate_flatten),
    overload!(any member "sort", "list_int_sort", (Type::list_of(&Type::Int)) -> Type::list_of(&Type::Int), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_uint_sort", (Type::list_of(&Type::Uint)) -> Type::list_of(&Type::Uint), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_double_sort", (Type::list_of(&Type::Double)) -> Type::list_of(&Type::Double), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_bool_sort", (Type::list_of(&Type::Bool)) -> Type::list_of(&Type::Bool), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_google.protobuf.Duration_sort", (Type::list_of(&Type::Duration)) -> Type::list_of(&Type::Duration), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_google.protobuf.Timestamp_sort", (Type::list_of(&Type::Timestamp)) -> Type::list_of(&Type::Timestamp), sort,
        cost: cost_sort, estimate: estimate_sort),
    overload!(any member "sort", "list_string_sort", (Type::list_of(&Type::String)) -> Type::list_of(&Type::String), sort,
        cost: cost_sort, estimate: estimate_sort_text),
    overload!(any member "sort", "list_bytes_sort", (Type::list_of(&Type::Bytes)) -> Type::list_of(&Type::Bytes), sort,
        cost: cost_sort, estimate: estimate_sort_text),
    overload!(any member "@sortByAssociatedKeys", "list_int_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Int)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_uint_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Uint)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_double_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Double)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_bool_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Bool)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_google.protobuf.Duration_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Duration)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_google.protobuf.Timestamp_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Timestamp)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by),
    overload!(any member "@sortByAssociatedKeys", "list_string_sortByAssociatedKeys", (LIST, Type::list_of(&Type::String)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by_text),
    overload!(any member "@sortByAssociatedKeys", "list_bytes_sortByAssociatedKeys", (LIST, Type::list_of(&Type::Bytes)) -> LIST, sort_by,
        cost: cost_sort_by, estimate: estimate_sort_by_text),
    overload!("lists.range", "lists_range", (Type::Int) -> Type::list_of(&Type::Int), range,
        cost: cost_of_result, estimate: estimate_range),
    overload!(member "reverse", "list_reverse", (LIST) -> LIST, reverse,
        cost: cost_of_result, estimate: estimate_reverse),
    overload!(member "distinct", "list_distinct", (LIST) -> LIST, distinct,
        cost: cost_distinct, estimate: estimate_distinct),
];

fn slice<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let fail =
        |reason: std::fmt::Arguments<'_>| Err(arena.error(format_args!("cannot slice({start}, {end}), {reason}")));
    if start < 0 || end < 0 {
        return fail(format_args!("negative indexes not supported"));
    }
    if start > end {
        return fail(format_args!("start index must be less than or equal to end index"));
    }
    if (list.len() as i64) < end {
        return fail(format_args!("list is length {}", list.len()));
    }
    let items: Vec<Val<'a>> = (start..end).filter_map(|at| list.get(at as usize, arena)).collect::<Result<_, _>>()?;
    Ok(arena.list_val(&items))
}

fn flatten<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (list, depth) = match *args {
        [Val::List(list)] => (list, 1),
        [Val::List(list), Val::Int(depth)] => (list, depth),
        [other] => return Err(arena.error(format_args!("no such overload: {}.flatten()", other.type_name()))),
        [list, depth] => {
            let (list, depth) = (list.type_name(), depth.type_name());
            return Err(arena.error(format_args!("no such overload: {list}.flatten({depth})")));
        }
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth.min(FLATTEN_DEPTH_MAX), &mut flat, arena)?;
    Ok(arena.list_val(&flat))
}

fn flatten_into<'a>(list: List<'a>, depth: i64, flat: &mut Vec<Val<'a>>, arena: &'a Arena) -> Outcome<'a, ()> {
    for item in list.iter(arena) {
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(inner, depth - 1, flat, arena)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::List(list)] => sort_by_keys(list, list, arena),
        _ => Err(Error::new("no such overload: sort")),
    }
}

fn sort_by<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::List(list), Val::List(keys)] => sort_by_keys(list, keys, arena),
        _ => Err(Error::new("no such overload: @sortByAssociatedKeys")),
    }
}

/// The items of `list` in the order of the keys at the same places.
fn sort_by_keys<'a>(list: List<'a>, keys: List<'a>, arena: &'a Arena) -> Outcome<'a> {
    if list.len() != keys.len() {
        return Err(arena.error(format_args!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let keys = keys.to_slice(arena)?;
    let Some(first) = keys.first() else { return Ok(Val::List(list)) };
    if !first.has_order() {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    let items = list.to_slice(arena)?;
    let order = order::sorted(keys.len(), &|i, j| keys[i].compare(keys[j]) == Ok(Ordering::Less));
    let sorted: Vec<Val<'a>> = order.iter().map(|at| items[*at]).collect();
    Ok(arena.list_val(&sorted))
}

fn range<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Int(n)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    if n < 0 {
        return Err(arena.error(format_args!("lists.range: size must be non-negative, got {n}")));
    }
    if n > RANGE_MAX {
        let problem = format_args!("lists.range: size {n} exceeds maximum allowed ({RANGE_MAX})");
        return Err(arena.error(problem));
    }
    let items: Vec<Val<'a>> = (0..n).map(Val::Int).collect();
    Ok(arena.list_val(&items))
}

fn reverse<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut items = list.to_slice(arena)?.to_vec();
    items.reverse();
    Ok(arena.list_val(&items))
}

fn distinct<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    if list.is_empty() {
        return Ok(Val::List(list));
    }
    let mut unique: Vec<Val<'a>> = Vec::new();
    for item in list.iter(arena) {
        let item = item?;
        if !unique.iter().any(|other| item.equal(*other, arena) == Ok(true)) {
            unique.push(item);
        }
    }
    Ok(arena.list_val(&unique))
}
