//! Which requests a webhook or a policy is about.

use std::collections::BTreeSet;

use object::{Cursor, Errors};

use crate::common::checks::Checks;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Checks a RuleWithOperations.
pub fn validate(rule: &Cursor, errors: &mut Errors) {
    let operations = rule.field("operations");
    operations.must_be_set(errors, "");
    alone(&operations, "operations", errors);
    for operation in operations.each() {
        operation.one_of(errors, &OPERATIONS);
    }
    let (groups, versions) = (rule.field("apiGroups"), rule.field("apiVersions"));
    groups.must_be_set(errors, "");
    alone(&groups, "API groups", errors);
    versions.must_be_set(errors, "");
    alone(&versions, "API versions", errors);
    for version in versions.each() {
        version.require(errors);
    }
    validate_resources(&rule.field("resources"), errors);
    rule.field("scope").optional_one_of(errors, &SCOPES);
}

/// A star among other items makes them pointless.
fn alone(items: &Cursor, what: &str, errors: &mut Errors) {
    if items.len() > 1 && items.strs().any(|item| item == "*") {
        items.invalid(errors, format!("if '*' is present, must not specify other {what}"));
    }
}

fn validate_resources(resources: &Cursor, errors: &mut Errors) {
    resources.must_be_set(errors, "");
    let (mut all_of, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    let mut last_is_plain = false;
    for item in resources.each() {
        let text = item.str();
        if !item.require(errors) {
            continue;
        }
        let Some((resource, sub)) = text.split_once('/') else {
            last_is_plain = text != "*";
            continue;
        };
        if all_of.contains(resource) {
            item.bad(errors, format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if everywhere.contains(sub) {
            item.bad(errors, format!("if '*/{sub}' is present, must not specify {text}"));
        }
        if sub == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(sub);
        }
    }
    let has = |wanted: &str| resources.strs().any(|resource| resource == wanted);
    if resources.len() > 1 && has("*/*") {
        resources.invalid(errors, "if '*/*' is present, must not specify other resources");
    }
    // Only the last resource without a subresource counts, as upstream has it.
    if has("*") && last_is_plain {
        resources.invalid(errors, "if '*' is present, must not specify other resources without subresources");
    }
}
