//! What the failure of a pod means for its job.

use std::collections::BTreeSet;

use object::{BadValue, Cursor, Errors, names};

use crate::common::checks::Checks;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;

pub fn validate(spec: &Cursor, errors: &mut Errors) {
    let rules = spec.at(&["podFailurePolicy", "rules"]);
    if rules.len() > RULES_MAX {
        errors.too_many(rules.path(), rules.len(), RULES_MAX);
    }
    let pod = spec.at(&["template", "spec"]);
    let containers = [pod.field("containers"), pod.field("initContainers")];
    let names: BTreeSet<&str> = containers.iter().flat_map(|list| list.each()).map(|c| c.field("name").str()).collect();
    for rule in rules.each() {
        validate_rule(&rule, spec, &names, errors);
    }
}

fn validate_rule(rule: &Cursor, spec: &Cursor, containers: &BTreeSet<&str>, errors: &mut Errors) {
    let action = rule.field("action");
    match action.str() {
        "" => action.required(errors, r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
        "FailIndex" if !spec.field("backoffLimitPerIndex").is_set() => {
            action.invalid(errors, "requires the backoffLimitPerIndex to be set");
        }
        _ => {
            action.one_of(errors, &["Count", "FailIndex", "FailJob", "Ignore"]);
        }
    }
    let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
    if codes.is_set() {
        validate_exit_codes(&codes, containers, errors);
    }
    validate_conditions(&conditions, errors);
    let detail = match (codes.is_set(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.invalid(rule.path(), BadValue::Omitted, detail);
}

fn validate_conditions(conditions: &Cursor, errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions.path(), conditions.len(), CONDITIONS_MAX);
    }
    for pattern in conditions.each() {
        pattern.field("type").check(errors, names::label_key);
        let status = pattern.field("status");
        if status.must_be_set(errors, r#"valid values: ["False" "True" "Unknown"]"#) {
            status.one_of(errors, &["False", "True", "Unknown"]);
        }
    }
}

fn validate_exit_codes(codes: &Cursor, containers: &BTreeSet<&str>, errors: &mut Errors) {
    let (operator, container, values) = (codes.field("operator"), codes.field("containerName"), codes.field("values"));
    if operator.must_be_set(errors, r#"valid values: ["In" "NotIn"]"#) {
        operator.one_of(errors, &["In", "NotIn"]);
    }
    if container.opt_str().is_some_and(|name| !containers.contains(name)) {
        container.invalid(errors, "must be one of the container or initContainer names in the pod template");
    }
    if values.is_empty() {
        values.invalid(errors, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(values.path(), values.len(), EXIT_CODES_MAX);
    }
    let (mut seen, mut last, mut ordered) = (BTreeSet::new(), i64::MIN, true);
    for value in values.each() {
        if operator.str() == "In" && value.int() == 0 {
            value.invalid_as(errors, 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            errors.duplicate(value.path(), value.int());
        }
        ordered &= last <= value.int();
        last = value.int();
    }
    if !ordered {
        values.invalid(errors, "must be ordered");
    }
}
