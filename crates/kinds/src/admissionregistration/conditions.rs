//! Match conditions: expressions that narrow down what a webhook or a policy is about.

use std::collections::BTreeSet;

use object::{Cursor, Errors, names};

use crate::common::checks::Checks;

const CONDITIONS_MAX: usize = 64;

pub fn validate(conditions: &Cursor, errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions.path(), conditions.len(), CONDITIONS_MAX);
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.each() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        if expression.str().trim().is_empty() {
            expression.required(errors, "");
        }
        if name.require(errors) {
            name.check(errors, names::label_key);
            if !seen.insert(name.str()) {
                errors.duplicate(name.path(), name.str());
            }
        }
    }
}
