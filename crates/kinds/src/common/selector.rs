//! Labels and label selectors inside objects.

use object::labels::{Selector, SelectorError};
use object::{Cursor, Errors, Meta, Value, names};

use super::checks::{Checks, report};

/// What an update tolerates because the stored object already has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelSelectorValidationOptions {
    pub allow_invalid_values: bool,
    pub allow_unknown_operators: bool,
}

/// Checks a LabelSelector; one that is not there is fine.
pub fn validate(selector: &Cursor, options: LabelSelectorValidationOptions, errors: &mut Errors) {
    labels(&selector.field("matchLabels"), errors);
    for requirement in selector.field("matchExpressions").each() {
        validate_requirement(&requirement, options, errors);
    }
}

fn validate_requirement(requirement: &Cursor, options: LabelSelectorValidationOptions, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Exists" | "DoesNotExist" => {}
        _ if options.allow_unknown_operators => {}
        _ => operator.bad(errors, "not a valid selector operator"),
    }
    requirement.field("key").check(errors, names::label_key);
    if !options.allow_invalid_values {
        for value in values.each() {
            value.check(errors, names::label_value);
        }
    }
}

/// Whether a requirement has a value that no label can have.
pub fn has_invalid_value(selector: &Value) -> bool {
    let expressions = selector.list_at(&["matchExpressions"]).iter();
    expressions
        .flat_map(|expression| expression.list_at(&["values"]))
        .any(|value| !names::label_value(value.as_str().unwrap_or("")).is_empty())
}

/// Checks a map of labels. Upstream reports every error at the map itself.
pub fn labels(labels: &Cursor, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        report(errors, labels.path(), key, names::label_key(key));
        report(errors, labels.path(), value.str(), names::label_value(value.str()));
    }
}

/// The selector an object's LabelSelector stands for: one that is not there selects nothing, an empty one everything.
pub fn compile(selector: &Value) -> Result<Selector, SelectorError> {
    if selector.is_null() {
        return Ok(Selector::nothing());
    }
    Selector::from_value(selector)
}

/// The selector that a plain map of labels stands for, as a Service's or a ReplicationController's is.
pub fn from_map(labels: &Value) -> Selector {
    Selector::from_set(pairs(labels))
}

/// Whether an object's labels pass.
pub fn selects(selector: &Selector, object: &Value) -> bool {
    selector.matches(object.labels())
}

fn pairs(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_map().into_iter().flat_map(|map| map.iter()).map(|(key, value)| (key, value.as_str().unwrap_or("")))
}
