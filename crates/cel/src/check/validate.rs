//! Checks of literals that are made with the expression: durations, timestamps, regular expressions, lists and maps
//! whose elements differ in type, and formats with their arguments.

mod format;

use super::checker::Checked;
use super::unify::is_equivalent;
use crate::environment::Environment;
use crate::syntax::ast::{Kind, Literal, Node};
use crate::syntax::source::Errors;
use crate::time::{MAX_UNIX_SECONDS, MIN_UNIX_SECONDS, Time};
use crate::types::Type;

/// Reports literals that are wrong.
pub fn validate(root: Node<'_>, checked: &Checked<'_>, _: &Environment, errors: &mut Errors<'_>) {
    let mut formats = Vec::new();
    let mut aggregates = Vec::new();
    let mut strings = Vec::new();
    walk(root, false, &mut |node, in_format| {
        format(node, &mut formats);
        format::check(node, checked, &mut strings);
        if !in_format {
            aggregate(node, checked, &mut aggregates);
        }
    });
    for (offset, message) in formats.into_iter().chain(aggregates).chain(strings) {
        errors.at(offset, message);
    }
}

/// Visits all expressions, outer ones first, and tells which are parts of a call of `format`.
fn walk<'b>(node: Node<'b>, in_format: bool, visit: &mut impl FnMut(Node<'b>, bool)) {
    visit(node, in_format);
    match node.kind {
        Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select(select) => walk(select.operand, in_format, visit),
        Kind::Call(call) => {
            let in_format = in_format || call.function == "format";
            call.target.iter().chain(call.args).for_each(|arg| walk(arg, in_format, visit));
        }
        Kind::List(list) => list.elements.iter().for_each(|element| walk(element, in_format, visit)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            walk(entry.key, in_format, visit);
            walk(entry.value, in_format, visit);
        }),
        Kind::Struct(literal) => literal.fields.iter().for_each(|field| walk(field.value, in_format, visit)),
        Kind::Comprehension(loops) => {
            for part in [loops.range, loops.init, loops.condition, loops.step, loops.result] {
                walk(part, in_format, visit);
            }
        }
    }
}

/// `duration('x')`, `timestamp('x')` and the regular expression of `matches`.
fn format(node: Node<'_>, found: &mut Vec<(u32, String)>) {
    let Kind::Call(call) = node.kind else { return };
    let Some(arg) = call.args.first() else { return };
    let Kind::Literal(literal) = arg.kind else { return };
    let is_valid = match (call.function, literal) {
        ("duration", Literal::String(text)) => object::duration::Duration::parse(text).is_ok(),
        ("timestamp", Literal::String(text)) => {
            let in_range = |time: Time| (MIN_UNIX_SECONDS..=MAX_UNIX_SECONDS).contains(&time.instant.secs);
            Time::parse(text).is_ok_and(in_range)
        }
        ("timestamp", Literal::Int(seconds)) => (MIN_UNIX_SECONDS..=MAX_UNIX_SECONDS).contains(seconds),
        ("duration" | "timestamp", Literal::Null) => false,
        ("matches", Literal::String(pattern)) => goregex::check(pattern).is_ok(),
        _ => true,
    };
    if !is_valid {
        found.push((arg.offset, format!("invalid {} argument", call.function)));
    }
}

/// Elements of one list, keys or values of one map, with different types.
fn aggregate(node: Node<'_>, checked: &Checked<'_>, found: &mut Vec<(u32, String)>) {
    let ty = |node: Node<'_>, optional: bool| match &checked.types[node.id as usize] {
        Type::Optional(inner) if optional => (**inner).clone(),
        ty => ty.clone(),
    };
    let mut mismatch = |node: Node<'_>, expected: &Type, actual: &Type| {
        found.push((node.offset, format!("expected type '{expected}' but found '{actual}'")));
    };
    match node.kind {
        Kind::List(list) => {
            let mut first: Option<Type> = None;
            for (i, element) in list.elements.iter().enumerate() {
                let ty = ty(element, list.optional.get(i) == Some(&true));
                match &first {
                    None => first = Some(ty),
                    Some(first) if !is_equivalent(first, &ty) => {
                        mismatch(element, first, &ty);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        Kind::Map(entries) => {
            let Some((first, rest)) = entries.split_first() else { return };
            let (key_type, value_type) = (ty(first.key, false), ty(first.value, first.optional));
            for entry in rest {
                let (key, value) = (ty(entry.key, false), ty(entry.value, entry.optional));
                if !is_equivalent(&key_type, &key) {
                    mismatch(entry.key, &key_type, &key);
                }
                if !is_equivalent(&value_type, &value) {
                    mismatch(entry.value, &value_type, &value);
                }
            }
        }
        _ => {}
    }
}
