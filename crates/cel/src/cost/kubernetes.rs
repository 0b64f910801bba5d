//! The estimates that Kubernetes has for functions, by name.

use super::{CallEstimate, CallNode, REGEX_LENGTH, Range, STRING_TRAVERSAL, selector};
use crate::types::Type;

/// What one authorization check costs; two of them are what one expression may do.
const CHECK: u64 = 350_000;
/// An address has four or sixteen bytes.
const ADDRESS: Range = Range::new(4, 16);
const MAX_NAME_PATTERN: f64 = 128.0;
const MAX_FORMAT_NAME: u64 = 64;

/// The estimate of a call without its arguments; none leaves it to cel-go.
pub(super) fn estimate(
    function: &str,
    overload: &str,
    receiver: Option<&CallNode<'_>>,
    args: &[CallNode<'_>],
) -> Option<CallEstimate> {
    let one = CallEstimate::of(Range::fixed(1));
    let once = |node: &CallNode<'_>| node.size_or_unknown().scaled(STRING_TRAVERSAL);
    let twice = |node: &CallNode<'_>| node.size_or_unknown().scaled(2.0 * STRING_TRAVERSAL);
    Some(match (function, receiver, args) {
        ("check", ..) => CallEstimate::of(Range::fixed(CHECK)),
        (
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed"
            | "reason" | "error" | "errored",
            ..,
        ) => one,
        ("fieldSelector" | "labelSelector", _, [text]) => CallEstimate::of(selector(text.size_or_unknown())),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", Some(list), _) => {
            traversal(function, list)
        }
        ("url" | "jsonpatch.escapeKey", _, [text]) => {
            CallEstimate { cost: once(text), result_size: Some(text.size_or_unknown()) }
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            CallEstimate { cost: once(text), result_size: Some(text.size_or_unknown()) }
        }
        ("replace", Some(text), [from, to, ..]) => {
            let size = replaced(text.size_or_unknown(), from.size_or_unknown(), to.size_or_unknown());
            CallEstimate { cost: twice(text), result_size: Some(size) }
        }
        ("split", Some(text), _) => {
            let limit = args.get(1).and_then(|limit| limit.literal).map(|limit| limit as u64);
            let most = limit.unwrap_or(text.size_or_unknown().max);
            CallEstimate { cost: twice(text), result_size: Some(Range::new(0, most)) }
        }
        ("join", Some(list), _) => join(list, args.first()),
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let size = text.size_or_unknown();
            let cost = size.plus(Range::fixed(1)).scaled(STRING_TRAVERSAL);
            let cost = cost.times(pattern.size_or_unknown().scaled(REGEX_LENGTH));
            CallEstimate { cost, result_size: Some(Range::new(0, size.max)) }
        }
        ("validate", _, [text, ..]) => CallEstimate::of(once(text).scaled(MAX_NAME_PATTERN * REGEX_LENGTH)),
        ("_==_", None, [a, b]) => return equality(a, b),
        _ => return network(function, overload, args),
    })
}

/// Addresses, quantities and versions.
fn network(function: &str, overload: &str, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    let one = CallEstimate::of(Range::fixed(1));
    let once = |node: &CallNode<'_>| node.size_or_unknown().scaled(STRING_TRAVERSAL);
    Some(match (function, args) {
        ("ip", _) if overload == "cidr_ip" => one,
        ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", [text, ..]) => {
            CallEstimate::of(once(text))
        }
        ("ip.isCanonical", [text, ..]) => CallEstimate::of(text.size_or_unknown().scaled(2.0 * STRING_TRAVERSAL)),
        (
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery",
            _,
        ) => one,
        ("containsIP" | "containsCIDR", [other, ..]) => {
            let mut cost = ADDRESS.plus(ADDRESS).scaled(STRING_TRAVERSAL);
            if function == "containsCIDR" {
                cost = cost.plus(ADDRESS.scaled(STRING_TRAVERSAL)).plus(Range::fixed(1));
            }
            if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                cost = cost.plus(once(other));
            }
            CallEstimate::of(cost)
        }
        _ => return None,
    })
}

/// The type of a list's items, or of a map's keys.
fn parameter(ty: &Type) -> Option<&Type> {
    match ty {
        Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) | Type::Map(inner, _) => Some(inner),
        _ => None,
    }
}

fn traversal(function: &str, list: &CallNode<'_>) -> CallEstimate {
    let size = list.size_or_unknown();
    let Some(items) = parameter(list.ty) else {
        // Not a list: a text, of which the function looks at every character.
        return CallEstimate::of(match function {
            "includes" => size.times(Range::fixed(1)),
            _ => size.scaled(STRING_TRAVERSAL),
        });
    };
    let mut each = Range::fixed(1);
    if matches!(items, Type::String | Type::Bytes) {
        each = each.plus(list.item_size.unwrap_or(Range::UNKNOWN).scaled(STRING_TRAVERSAL));
    }
    CallEstimate::of(size.times(each))
}

/// How long a text can be after replacements.
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let (mut count, mut kept) = (Range::fixed(0), Range::fixed(0));
    if from.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / from.min as f64).ceil() as u64;
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / from.max as f64).ceil() as u64;
    }
    count.times(to).plus(kept)
}

fn join(list: &CallNode<'_>, separator: Option<&CallNode<'_>>) -> CallEstimate {
    let count = list.size_or_unknown();
    let mut size = Range::fixed(0);
    if parameter(list.ty).is_some() {
        size = count.times(list.item_size.unwrap_or(Range::UNKNOWN));
    }
    if let Some(separator) = separator {
        let between = Range::new(count.min.saturating_sub(1), count.max.saturating_sub(1));
        size = size.plus(separator.size_or_unknown().times(between));
    }
    CallEstimate { cost: size.scaled(STRING_TRAVERSAL), result_size: Some(size) }
}

/// Values of library types are compared at once, but for formats and URLs.
fn equality(a: &CallNode<'_>, b: &CallNode<'_>) -> Option<CallEstimate> {
    let range = match (a.ty, b.ty) {
        (Type::Opaque(a), Type::Opaque(b)) if a == b && matches!(*a, "net.IP" | "net.CIDR") => Range::fixed(1),
        (Type::Abstract(first), Type::Abstract(second)) if first == second => match *first {
            "kubernetes.NamedFormat" => Range::new(1, MAX_FORMAT_NAME).scaled(STRING_TRAVERSAL),
            "kubernetes.URL" => {
                let size = b.size.unwrap_or(Range::fixed(1));
                Range::new(1, size.max).scaled(STRING_TRAVERSAL)
            }
            _ => Range::fixed(1),
        },
        _ => return None,
    };
    Some(CallEstimate::of(range))
}
