//! cel-go's extension `sets`: lists compared as sets.

use crate::arena::Arena;
use crate::cost::{CallEstimate, CallNode, Range};
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::Type;
use crate::val::{List, Val};

pub static LIBRARY: Library =
    Library { name: "cel.lib.ext.sets", since: Version { major: 1, minor: 29 }, until: None, overloads: OVERLOADS };

const LIST: Type = Type::list_of(&Type::Param("T"));

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("sets.contains", "list_sets_contains_list", (LIST, LIST) -> Type::Bool, contains,
        cost: cost_once, estimate: estimate_once),
    overload!("sets.equivalent", "list_sets_equivalent_list", (LIST, LIST) -> Type::Bool, equivalent,
        cost: cost_twice, estimate: estimate_twice),
    overload!("sets.intersects", "list_sets_intersects_list", (LIST, LIST) -> Type::Bool, intersects,
        cost: cost_once, estimate: estimate_once),
];

fn contains<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(list), Val::List(part)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    contains_all(list, part, arena).map(Val::Bool)
}

fn equivalent<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(a), Val::List(b)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(contains_all(a, b, arena)? && contains_all(b, a, arena)?))
}

fn intersects<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::List(a), Val::List(b)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    for item in a.iter(arena) {
        // Errors are overlooked.
        if b.contains(item?, arena) == Ok(true) {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}

fn contains_all<'a>(list: List<'a>, part: List<'a>, arena: &'a Arena) -> Outcome<'a, bool> {
    for item in part.iter(arena) {
        if !list.contains(item?, arena)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cost_once<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    cost(args, 1)
}

fn cost_twice<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    cost(args, 2)
}

fn cost(args: &[Val<'_>], factor: u64) -> u64 {
    let compared = args.iter().fold(factor, |product, list| product.saturating_mul(list.size()));
    compared.saturating_add(1)
}

fn estimate_once(_: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    estimate(args, 1.0)
}

fn estimate_twice(_: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    estimate(args, 2.0)
}

fn estimate(args: &[CallNode<'_>], factor: f64) -> Option<CallEstimate> {
    let [a, b] = args else { return None };
    let compared = a.size_or_unknown().times(b.size_or_unknown()).scaled(factor);
    Some(CallEstimate { cost: compared.plus(Range::fixed(1)), result_size: None })
}
