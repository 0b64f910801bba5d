//! Validation of a value against its schema, in the words that upstream uses for custom resources.
//!
//! The order of checks, what counts as a match when alternatives compete, and where an error is said to be all follow
//! upstream's OpenAPI validator, because its messages reach users.

mod formats;
mod lists;
mod number;
mod outcome;
mod place;
mod ratchet;

use object::{Errors, Value};

use crate::MAX_DEPTH;
use crate::types::{Node, Rules, Schema, Shape};
pub use formats::{check as check_format, is_known_format};
pub use lists::validate_lists;
pub use number::go_number;
use outcome::Outcome;
use place::{Place, Steps};
pub use ratchet::Old;

/// Everything that is wrong with a value.
pub fn validate(schema: Schema<'_>, value: &Value) -> Errors {
    check(Place::root(schema), value, None).into_errors()
}

/// Everything that is wrong with a value that replaces `old`, except for what is wrong in parts that stayed the same.
pub fn validate_update(schema: Schema<'_>, value: &Value, old: &Value) -> Errors {
    let old = Old { schema, value: old };
    ratchet::check(Place::root(schema), value, Some(old)).into_errors()
}

/// Everything that is wrong with a value that stands by itself; errors are placed below `at`.
pub fn validate_part(schema: Schema<'_>, value: &Value, at: &str) -> Errors {
    below(validate(schema, value), at)
}

/// The same for a value that replaces `old`.
pub fn validate_part_update(schema: Schema<'_>, value: &Value, old: &Value, at: &str) -> Errors {
    below(validate_update(schema, value, old), at)
}

fn below(errors: Errors, at: &str) -> Errors {
    let mut placed = Errors::new();
    for mut error in errors {
        error.field = if error.field == "<nil>" { at.to_string() } else { format!("{at}.{}", error.field) };
        placed.push(error);
    }
    placed
}

/// All checks of one place, in upstream's order. `old` is what the value was, where that can be told.
fn check(place: Place<'_>, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if place.depth >= MAX_DEPTH {
        outcome.composite(format!("{} is nested too deeply", object::quote(&place.path.to_string())));
        return outcome;
    }
    let types = types_of(place.schema.node);
    let rules = place.schema.rules.as_deref();
    let format = format_of(place.schema.node, types);
    if value.is_null() {
        outcome.merge(check_type(place, types, format, value));
        outcome.merge(check_enum(place.path, rules, value));
        return outcome;
    }
    if !types.is_empty() || !format.is_empty() {
        outcome.matched(check_type(place, types, format, value));
    }
    outcome.matched(check_alternatives(place, rules, value, old));
    match value {
        Value::String(text) => {
            outcome.matched(check_string(place.path, rules, text));
            if let Some(valid) = formats::check(format, text) {
                let mut result = Outcome::default();
                if !valid {
                    result.wrong_type(place.path, format, text);
                }
                outcome.matched(result);
            }
        }
        Value::Int(_) | Value::Float(_) => outcome.matched(number::check(place.path, types, format, rules, value)),
        Value::List(items) => outcome.matched(check_list(place, rules, items, old)),
        _ => {}
    }
    outcome.matched(check_enum(place.path, rules, value));
    if let Value::Map(map) = value {
        outcome.matched(check_map(place, rules, map, old));
    }
    outcome.matches += 1;
    outcome
}

/// The OpenAPI types that a node allows; none where any will do.
fn types_of(node: &Node) -> &'static [&'static str] {
    if node.untyped {
        return &[];
    }
    match node.shape {
        Shape::Any | Shape::Fields | Shape::StructOrList(_) | Shape::StructOrBool(_) | Shape::StructOrStrings(_) => &[],
        Shape::RawExtension | Shape::Struct(_) | Shape::Map(_) => &["object"],
        Shape::Bool => &["boolean"],
        Shape::Int32 | Shape::Int64 => &["integer"],
        Shape::Float => &["number"],
        Shape::String | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Duration => &["string"],
        Shape::IntOrString => &["integer", "string"],
        Shape::Quantity => &["string", "number"],
        Shape::List(_) => &["array"],
    }
}

/// The format that counts here: formats that are unknown, or do not go with the type, are as good as not there.
fn format_of<'a>(node: &'a Node, types: &[&str]) -> &'a str {
    let implied = if matches!(node.shape, Shape::Int32) { "int32" } else { "" };
    let stated = node.rules.as_deref().and_then(|rules| rules.format.as_deref()).unwrap_or(implied);
    let only = if let [only] = types { only } else { "" };
    if is_known_format(only, stated) { stated } else { "" }
}

/// The JSON type of a value and the format that Go's representation of it has.
fn kind_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Int(_) => ("integer", "int64"),
        Value::Float(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::List(_) => ("array", ""),
        Value::Map(_) => ("object", ""),
        Value::Raw(raw) => (raw.type_name(), ""),
    }
}

fn check_type(place: Place<'_>, types: &[&str], format: &str, value: &Value) -> Outcome {
    let mut outcome = Outcome::default();
    let (kind, own_format) = kind_of(value);
    if value.is_null() {
        if !types.is_empty() && !place.schema.nullable {
            outcome.wrong_type(place.path, &types.join(","), kind);
            return outcome;
        }
        outcome.matches = 1;
        return outcome;
    }
    let whole = matches!(value, Value::Float(f) if number::is_whole(*f)) && types.contains(&"integer");
    let fits = types.contains(&kind) || whole || (kind == "integer" && types.contains(&"number"));
    let textual = matches!(value, Value::String(_) | Value::List(_));
    let numeric = types.contains(&"number") || types.contains(&"integer");
    if !textual && !format.is_empty() && !fits && own_format != format {
        outcome.wrong_type(place.path, format, own_format);
    } else if !numeric && !format.is_empty() && textual {
        outcome.matches = 1;
    } else if !fits {
        outcome.wrong_type(place.path, &types.join(","), kind);
    } else {
        outcome.matches = 1;
    }
    outcome
}

fn check_enum(path: Steps<'_>, rules: Option<&Rules>, value: &Value) -> Outcome {
    let mut outcome = Outcome::default();
    let allowed = rules.map(|r| r.enumeration.as_slice()).unwrap_or_default();
    if !allowed.is_empty() && !allowed.iter().any(|a| is_enum_member(a, value)) {
        outcome.not_supported(path, value, allowed);
    }
    outcome
}

/// Numbers are converted to the type of the allowed value before they are compared, as Go does it. A null is never a
/// member: upstream skips it.
fn is_enum_member(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Null, _) => false,
        (Value::Int(a), Value::Float(v)) => *a == *v as i64,
        (Value::Float(a), Value::Int(v)) => *a == *v as f64,
        _ => allowed == value,
    }
}

fn check_string(path: Steps<'_>, rules: Option<&Rules>, text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(rules) = rules else { return outcome };
    let length = text.chars().count() as u64;
    if let Some(max) = rules.max_length.filter(|max| length > *max) {
        outcome.too_long(path, max);
    } else if let Some(min) = rules.min_length.filter(|min| length < *min) {
        outcome.invalid(path, text.into(), format!("should be at least {min} chars long"));
    } else if let Some(pattern) = &rules.pattern
        && pattern.matches(text) != Some(true)
    {
        outcome.invalid(path, text.into(), format!("should match '{}'", pattern.as_str()));
    }
    outcome
}

fn check_list(place: Place<'_>, rules: Option<&Rules>, items: &[Value], old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Shape::List(inner) = &place.schema.node.shape {
        for (at, item) in items.iter().enumerate() {
            let old = old.and_then(|old| old.item(item));
            outcome.merge(ratchet::check(place.item(at, inner), item, old));
        }
    }
    if let Some(rules) = rules {
        let size = items.len() as u64;
        if let Some(min) = rules.min_items.filter(|min| size < *min) {
            outcome.invalid(place.path, size_value(size), format!("should have at least {min} items"));
        }
        if let Some(max) = rules.max_items.filter(|max| size > *max) {
            outcome.too_many(place.path, size, max, "items");
        }
        if rules.unique_items && lists::has_duplicates(items) {
            outcome.invalid(place.path, "".into(), "shouldn't contain duplicates".into());
        }
    }
    outcome.matches += 1;
    outcome
}

fn check_map(place: Place<'_>, rules: Option<&Rules>, map: &object::Map, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let size = map.len() as u64;
    if let Some(min) = rules.and_then(|r| r.min_properties).filter(|min| size < *min) {
        outcome.invalid(place.path, size_value(size), format!("should have at least {min} properties"));
    }
    if let Some(max) = rules.and_then(|r| r.max_properties).filter(|max| size > *max) {
        outcome.too_many(place.path, size, max, "properties");
    }
    if let Shape::Map(inner) = &place.schema.node.shape {
        for (key, value) in map.iter() {
            outcome.merge(ratchet::check(place.key(key, inner), value, old.and_then(|old| old.key(key))));
        }
    }
    let known = place.schema.as_struct();
    if rules.is_some_and(|rules| rules.forbids_others) {
        let other = |key: &&str| known.is_none_or(|known| known.field(key).is_none());
        map.keys().filter(other).for_each(|key| outcome.forbidden(place.path, key));
    }
    for field in known.map(|s| s.fields.as_slice()).unwrap_or_default() {
        let Some(value) = map.get(&field.name) else { continue };
        // The type of an object is the same before and after by the time rules are checked, so it is checked always.
        let old = old.filter(|_| !(place.path.is_empty() && matches!(field.name.as_str(), "apiVersion" | "kind")));
        let old = old.and_then(|old| old.key(&field.name));
        outcome.merge(ratchet::check(place.field(&field.name, &field.node), value, old));
    }
    let stated = rules.map(|r| r.required.as_slice()).unwrap_or_default();
    let missing = |name: &str| !map.contains_key(name);
    if stated.is_empty() {
        let fields = known.map(|s| s.fields.as_slice()).unwrap_or_default();
        let required = fields.iter().filter(|f| f.required && missing(&f.name));
        required.for_each(|field| outcome.required(place.path, &field.name));
    } else {
        stated.iter().filter(|name| missing(name)).for_each(|name| outcome.required(place.path, name));
    }
    outcome
}

fn size_value(size: u64) -> Value {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

/// `anyOf`, `oneOf`, `allOf` and `not`.
fn check_alternatives(place: Place<'_>, rules: Option<&Rules>, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.matches += 1;
    let Some(rules) = rules.filter(|rules| rules.has_alternatives()) else { return outcome };
    let path = object::quote(&place.path.to_string());
    let results =
        |nodes: &[Node]| -> Vec<Outcome> { nodes.iter().map(|node| check(place.branch(node), value, old)).collect() };
    if !rules.any_of.is_empty() {
        any_of(&path, results(&rules.any_of), &mut outcome);
    }
    if !rules.one_of.is_empty() {
        one_of(&path, results(&rules.one_of), &mut outcome);
    }
    if !rules.all_of.is_empty() {
        all_of(&path, results(&rules.all_of), &mut outcome);
    }
    if let Some(not) = &rules.not
        && check(place.branch(not), value, old).is_valid()
    {
        outcome.composite(format!("{path} must not validate the schema (not)"));
    }
    outcome
}

/// Of several failures, the one that got furthest tells most. The first of equals counts.
fn best(failures: Vec<Outcome>) -> Option<Outcome> {
    failures.into_iter().reduce(|best, next| if next.matches > best.matches { next } else { best })
}

fn any_of(path: &str, mut results: Vec<Outcome>, outcome: &mut Outcome) {
    match results.iter().position(Outcome::is_valid) {
        Some(first) => outcome.merge(results.swap_remove(first)),
        None => {
            outcome.composite(format!("{path} must validate at least one schema (anyOf)"));
            best(results).into_iter().for_each(|best| outcome.merge(best));
        }
    }
}

fn one_of(path: &str, results: Vec<Outcome>, outcome: &mut Outcome) {
    let (mut valid, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Outcome::is_valid);
    let message = |found: &str| format!("{path} must validate one and only one schema (oneOf). {found}");
    match valid.len() {
        0 => {
            outcome.composite(message("Found none valid"));
            best(failed).into_iter().for_each(|best| outcome.merge(best));
        }
        1 => outcome.merge(valid.remove(0)),
        several => outcome.composite(message(&format!("Found {several} valid alternatives"))),
    }
}

fn all_of(path: &str, results: Vec<Outcome>, outcome: &mut Outcome) {
    let total = results.len();
    let valid = results.iter().filter(|result| result.is_valid()).count();
    results.into_iter().for_each(|result| outcome.merge(result));
    if valid < total {
        let none = if valid == 0 { ". None validated" } else { "" };
        outcome.composite(format!("{path} must validate all the schemas (allOf){none}"));
    }
}

#[cfg(test)]
mod tests;
