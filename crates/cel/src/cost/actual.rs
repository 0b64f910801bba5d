//! What calls cost when they are made, as Kubernetes and cel-go count it.

use super::{REGEX_LENGTH, STRING_TRAVERSAL, ceil};
use crate::arena::Arena;
use crate::library::{Cost, Overload};
use crate::val::Val;

/// The cost of a call of the function. Without an overload several were possible when the expression was compiled.
pub(crate) fn actual(function: &str, overload: Option<&Overload>) -> Cost {
    if let Some(cost) = overload.and_then(|overload| overload.cost) {
        return cost;
    }
    let id = overload.map_or("", |overload| overload.id);
    match function {
        "check" => |_, _, _| 350_000,
        "fieldSelector" | "labelSelector" => selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => first_traversed,
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => first_once,
        "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => first_once,
        "ip" if id == "cidr_ip" => one,
        "ip" => first_once,
        "replace" | "split" | "ip.isCanonical" => first_twice,
        "join" => |_, result, _| scaled(result.size(), 2.0 * STRING_TRAVERSAL),
        "find" | "findAll" => regex,
        "containsIP" if id == "cidr_contains_ip_string" => |args, _, _| contains_ip(args) + second(args),
        "containsIP" => |args, _, _| contains_ip(args),
        "containsCIDR" if id == "cidr_contains_cidr_string" => |args, _, _| contains_cidr(args) + second(args),
        "containsCIDR" => |args, _, _| contains_cidr(args),
        _ => standard(id),
    }
}

/// The cost of `==` and `!=`.
pub(crate) const EQUALITY: Cost = |args, _, _| match args {
    [Val::Opaque(_), _] => 1,
    _ => least(args),
};

fn standard(id: &str) -> Cost {
    match id {
        "starts_with_string" | "ends_with_string" => |args, _, _| second(args),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => first_once,
        "in_list" => |args, _, _| args.get(1).map_or(1, |list| list.size()),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => smaller,
        "add_string" | "add_bytes" => |args, _, _| scaled(sizes(args), STRING_TRAVERSAL),
        "matches" | "matches_string" => regex,
        "contains_string" => |args, _, _| scaled(size(args, 0), STRING_TRAVERSAL).saturating_mul(second(args)),
        _ => one,
    }
}

fn one<'a>(_: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    1
}

pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    ceil(size as f64 * factor)
}

fn sizes(args: &[Val<'_>]) -> u64 {
    args.iter().fold(0, |sum, arg| sum.saturating_add(arg.size()))
}

fn size(args: &[Val<'_>], at: usize) -> u64 {
    args.get(at).map_or(1, |arg| arg.size())
}

fn first_once<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    scaled(size(args, 0), STRING_TRAVERSAL)
}

fn first_twice<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    scaled(size(args, 0), 2.0 * STRING_TRAVERSAL)
}

fn second(args: &[Val<'_>]) -> u64 {
    scaled(size(args, 1), STRING_TRAVERSAL)
}

fn smaller<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    least(args)
}

fn least(args: &[Val<'_>]) -> u64 {
    scaled(size(args, 0).min(size(args, 1)), STRING_TRAVERSAL)
}

/// The text, which counts for one character more than it has, times the pattern.
fn regex<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    let text = ceil((1.0 + size(args, 0) as f64) * STRING_TRAVERSAL);
    text.saturating_mul(scaled(size(args, 1), REGEX_LENGTH))
}

fn selector<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    super::selector(super::Range::fixed(size(args, 1))).max
}

fn contains_ip(args: &[Val<'_>]) -> u64 {
    scaled(2 * size(args, 0), STRING_TRAVERSAL)
}

fn contains_cidr(args: &[Val<'_>]) -> u64 {
    contains_ip(args) + scaled(size(args, 0), STRING_TRAVERSAL) + 1
}

/// A walk over the first argument.
fn first_traversed<'a>(args: &[Val<'a>], _: Val<'a>, arena: &'a Arena) -> u64 {
    args.first().map_or(0, |arg| traversal(*arg, arena))
}

fn traversal<'a>(val: Val<'a>, arena: &'a Arena) -> u64 {
    match val {
        Val::String(text) => (text.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::List(list) => {
            list.iter(arena).map(|item| item.map_or(1, |item| traversal(item, arena))).fold(0, u64::saturating_add)
        }
        Val::Map(map) => {
            let entry = |key: Val<'a>| {
                let value = map.find(key, arena).ok().flatten().unwrap_or(Val::Null);
                traversal(key, arena).saturating_add(traversal(value, arena))
            };
            map.keys(arena).into_iter().map(entry).fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}
