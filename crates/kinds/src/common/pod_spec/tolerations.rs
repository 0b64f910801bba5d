//! Tolerations of taints.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names, quote};

use super::PodValidationOptions;
use crate::common::checks::Checks;

pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn validate(tolerations: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    for toleration in tolerations.each() {
        validate_one(&toleration, options, errors);
    }
}

fn validate_one(toleration: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let (key, operator) = (toleration.field("key"), toleration.field("operator"));
    let (value, effect) = (toleration.field("value"), toleration.field("effect"));
    if !key.str().is_empty() {
        key.check(errors, names::label_key);
    } else if operator.str() != "Exists" {
        let detail = r#"operator must be Exists when `key` is empty, which means "match all values and all keys""#;
        operator.bad(errors, detail);
    }
    if toleration.field("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
        effect.bad(errors, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    // Upstream reports what is wrong with the value at the operator.
    match operator.str() {
        "" | "Equal" => {
            let messages = names::label_value(value.str());
            if !messages.is_empty() {
                operator.invalid_as(errors, value.str(), messages.join(";"));
            }
        }
        "Exists" if !value.str().is_empty() => {
            operator.invalid_as(errors, value.str(), "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" if options.toleration_comparisons => number(&value, errors),
        "Lt" | "Gt" => operator.not_supported(errors, &["Equal", "Exists", "Lt", "Gt"]),
        _ => operator.not_supported(errors, &["Equal", "Exists"]),
    }
    if !effect.str().is_empty() {
        effect.one_of(errors, &EFFECTS);
    }
}

fn number(value: &Cursor, errors: &mut Errors) {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    value.check(errors, names::decimal_integer);
    if let Err(error) = value.str().parse::<i64>() {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        value.bad(errors, format!("strconv.ParseInt: parsing {}: {problem}", quote(value.str())));
    }
}

/// An update may add tolerations and change how long one lasts, and nothing else.
pub fn only_added(new: &Cursor, old: &Value, options: &PodValidationOptions, errors: &mut Errors) {
    fn without_seconds(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.str_at(&[field]))
    }
    let now: BTreeSet<[&str; 4]> = new.each().map(|toleration| without_seconds(toleration.value())).collect();
    if !old.as_list().unwrap_or(&[]).iter().all(|toleration| now.contains(&without_seconds(toleration))) {
        return new.forbidden(errors, "existing toleration can not be modified except its tolerationSeconds");
    }
    validate(new, options, errors);
}
