//! Whether a value fits its type.

use std::collections::BTreeSet;

use object::{Map, Value};

use super::{Fields, Form, List, Problems, Scalar, Type};
use crate::{PathElement, go};

/// Whether items of keyed lists and sets may repeat: applied configurations must not, stored objects may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

pub(crate) fn validate(value: &Value, of: Type<'_>, duplicates: Duplicates) -> Result<(), Problems> {
    problems(value, of, duplicates).into_result(())
}

fn problems(value: &Value, of: Type<'_>, duplicates: Duplicates) -> Problems {
    match (of.form(Some(value)), value) {
        (Form::Scalar(scalar), value) => match scalar_problem(scalar, Some(value), "") {
            Some(message) => Problems::one(message),
            None => Problems::none(),
        },
        (_, Value::Null) => Problems::none(),
        // Text that is kept as it came can be anything.
        (Form::Map(fields), Value::Raw(_)) if fields.is_deduced() => Problems::none(),
        (Form::List(list), Value::List(items)) => list_problems(items, list, duplicates),
        (Form::List(_), other) => Problems::one(format!("expected list, got &{{{}}}", go::plain(other))),
        (Form::Map(fields), Value::Map(map)) => map_problems(map, fields, duplicates),
        (Form::Map(_), other) => Problems::one(format!("expected map, got &{{{}}}", go::plain(other))),
    }
}

/// Why a value is not such a scalar; null and nothing are everything.
pub(super) fn scalar_problem(scalar: Scalar, value: Option<&Value>, side: &str) -> Option<String> {
    let value = value.filter(|value| !value.is_null() && !fits(scalar, value))?;
    Some(match scalar {
        Scalar::Number => format!("{side}expected numeric (int or float), got {}", object::go_type(value)),
        Scalar::String => {
            format!("{side}expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value))
        }
        Scalar::Boolean => format!("{side}expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Any => format!("{side}expected any scalar, got &{{{}}}", go::plain(value)),
    })
}

/// Whether a value is such a scalar.
pub(super) fn fits(scalar: Scalar, value: &Value) -> bool {
    match scalar {
        Scalar::Number => matches!(value, Value::Int(_) | Value::Float(_)),
        Scalar::String => matches!(value, Value::String(_)),
        Scalar::Boolean => matches!(value, Value::Bool(_)),
        Scalar::Any => !matches!(value, Value::List(_) | Value::Map(_)),
    }
}

fn list_problems(items: &[Value], list: List<'_>, duplicates: Duplicates) -> Problems {
    let mut problems_found = Problems::none();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if problems_found.is_full() {
            break;
        }
        let inner = problems(item, list.items, duplicates);
        if duplicates == Duplicates::Allowed && inner.is_empty() && list.has_name(item) {
            continue;
        }
        let element = if list.is_atomic() {
            PathElement::Index(index as i64)
        } else {
            match list.element(item) {
                Ok(element) => element,
                Err(message) => {
                    problems_found.push(format!("element {index}: {message}"));
                    return problems_found;
                }
            }
        };
        if !list.is_atomic() && duplicates == Duplicates::Refused {
            if seen.contains(&element) {
                problems_found.push(format!("duplicate entries for key {element}"));
            }
            if !inner.is_empty() {
                problems_found.add(inner.below(&element));
            }
            seen.insert(element);
        } else if !inner.is_empty() {
            problems_found.add(inner.below(&element));
        }
    }
    problems_found
}

fn map_problems(map: &Map, fields: Fields<'_>, duplicates: Duplicates) -> Problems {
    let mut problems_found = Problems::none();
    for (key, value) in map.iter() {
        let Some(of) = fields.field(key) else {
            // Upstream stops looking at a map once it meets a field it does not know.
            problems_found.add(Problems::one("field not declared in schema").below(PathElement::field(key)));
            break;
        };
        let inner = problems(value, of, duplicates);
        if !inner.is_empty() {
            problems_found.add(inner.below(PathElement::field(key)));
        }
    }
    problems_found
}
