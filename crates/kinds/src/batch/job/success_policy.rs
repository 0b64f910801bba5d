//! When a job counts as done before all of its indexes are.

use object::{Cursor, Errors};

use super::indexes;

const RULES_MAX: usize = 20;
const INDEXES_MAX_BYTES: usize = 64 * 1024;

pub fn validate(spec: &Cursor, errors: &mut Errors) {
    let rules = spec.at(&["successPolicy", "rules"]);
    if rules.is_empty() {
        rules.required(errors, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        errors.too_many(rules.path(), rules.len(), RULES_MAX);
    }
    let completions = spec.field("completions").int();
    for rule in rules.each() {
        validate_rule(&rule, completions, errors);
    }
}

fn validate_rule(rule: &Cursor, completions: i64, errors: &mut Errors) {
    let (count, list) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
    if !count.is_set() && !list.is_set() {
        rule.required(errors, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = list.opt_str() {
        if text.len() > INDEXES_MAX_BYTES {
            errors.too_long(list.path(), INDEXES_MAX_BYTES);
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(why) => list.invalid(errors, format!("error parsing succeededIndexes: {why}")),
        }
    }
    let Some(wanted) = count.opt_int() else { return };
    count.non_negative(errors);
    if wanted > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        count.invalid(errors, detail);
    }
    if list.is_set() && wanted > total {
        let of = "the number of indexes in the specified succeededIndexes field";
        count.invalid(errors, format!("must be less than or equal to {total} ({of})"));
    }
}
