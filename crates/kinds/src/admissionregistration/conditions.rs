//! Match conditions: expressions that narrow down what a webhook or a policy is about.

use std::collections::BTreeSet;

use cel::policy::{Compiler, Wanted};
use object::{Cursor, Errors, names};

use super::expressions::{self, Stored};
use crate::common::checks::Checks;

const CONDITIONS_MAX: usize = 64;

/// Checks match conditions. `params` says whether they can use params.
pub fn validate(conditions: &Cursor, params: bool, stored: &Stored<'_>, errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions.path(), conditions.len(), CONDITIONS_MAX);
    }
    let compiler = Compiler::new(params);
    let mut seen = BTreeSet::new();
    for condition in conditions.each() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        let text = expression.str().trim();
        if text.is_empty() {
            expression.required(errors, "");
        } else if !errors.is_full() {
            let compiled = compiler.expression(text, Wanted::Bool, true, stored.mode(text));
            expressions::report(&expression, text, compiled, errors);
        }
        if name.require(errors) {
            name.check(errors, names::label_key);
            if !seen.insert(name.str()) {
                errors.duplicate(name.path(), name.str());
            }
        }
    }
}
