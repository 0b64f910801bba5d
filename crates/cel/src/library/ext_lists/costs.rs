//! What the functions on lists cost, as cel-go counts it.

use crate::arena::Arena;
use crate::cost::{CallEstimate, CallNode, LIST_CREATE, Range, STRING_TRAVERSAL};
use crate::val::Val;

/// Every item may be compared with every other, in both directions.
const COMPARE_ALL: f64 = 2.0;

pub fn cost_of_result<'a>(_: &[Val<'a>], result: Val<'a>, _: &'a Arena) -> u64 {
    allocating(1.0, result.size())
}

pub fn cost_flatten<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    let depth = match args.get(1) {
        Some(Val::Int(depth)) => *depth as f64,
        _ => 1.0,
    };
    allocating(depth, args.first().map_or(0, |list| list.size()))
}

pub fn cost_distinct<'a>(args: &[Val<'a>], _: Val<'a>, arena: &'a Arena) -> u64 {
    compare_all(args.first(), arena)
}

pub fn cost_sort<'a>(args: &[Val<'a>], _: Val<'a>, arena: &'a Arena) -> u64 {
    compare_all(args.first(), arena)
}

pub fn cost_sort_by<'a>(args: &[Val<'a>], _: Val<'a>, arena: &'a Arena) -> u64 {
    compare_all(args.get(1), arena)
}

fn compare_all<'a>(list: Option<&Val<'a>>, arena: &'a Arena) -> u64 {
    let Some(Val::List(list)) = list else { return allocating(COMPARE_ALL, 0) };
    let is_text = matches!(list.get(0, arena), Some(Ok(Val::String(_) | Val::Bytes(_))));
    let factor = if is_text { COMPARE_ALL + STRING_TRAVERSAL } else { COMPARE_ALL };
    let size = list.len() as u64;
    allocating(factor, size.saturating_mul(size))
}

/// A call that makes a list.
fn allocating(factor: f64, size: u64) -> u64 {
    let factor = if factor < 0.0 { 1.0 } else { factor };
    ((size as f64 * factor) as u64).saturating_add(1 + LIST_CREATE)
}

pub fn estimate_slice(receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    let (list, [start, end]) = (receiver?, args) else { return None };
    let size = number(end, list.size_or_unknown().max).wrapping_sub(number(start, 0));
    Some(estimate(1.0, Range::fixed(size)))
}

pub fn estimate_range(receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    let (None, [n]) = (receiver, args) else { return None };
    Some(estimate(1.0, Range::fixed(number(n, u64::MAX))))
}

pub fn estimate_reverse(receiver: Option<&CallNode<'_>>, _: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(estimate(1.0, receiver?.size_or_unknown()))
}

pub fn estimate_flatten(receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    let depth = args.first().map_or(1, |depth| number(depth, u64::MAX));
    Some(estimate(depth as f64, receiver?.size_or_unknown()))
}

pub fn estimate_distinct(receiver: Option<&CallNode<'_>>, _: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(squared(receiver?, COMPARE_ALL))
}

pub fn estimate_sort(receiver: Option<&CallNode<'_>>, _: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(squared(receiver?, COMPARE_ALL))
}

pub fn estimate_sort_text(receiver: Option<&CallNode<'_>>, _: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(squared(receiver?, COMPARE_ALL + STRING_TRAVERSAL))
}

pub fn estimate_sort_by(_: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(squared(args.first()?, COMPARE_ALL))
}

pub fn estimate_sort_by_text(_: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    Some(squared(args.first()?, COMPARE_ALL + STRING_TRAVERSAL))
}

fn squared(list: &CallNode<'_>, factor: f64) -> CallEstimate {
    let size = list.size_or_unknown();
    estimate(factor, size.times(size))
}

/// The cost and, as cel-go has it, the size of the result of a call that makes a list.
fn estimate(factor: f64, size: Range) -> CallEstimate {
    CallEstimate { cost: size.scaled(factor).plus(Range::fixed(1 + LIST_CREATE)), result_size: Some(size) }
}

/// The value of an integer literal that is not negative, or `other` for what is no literal.
fn number(node: &CallNode<'_>, other: u64) -> u64 {
    node.literal.map_or(other, |n| u64::try_from(n).unwrap_or(0))
}
