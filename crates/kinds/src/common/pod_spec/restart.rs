//! When containers are restarted, and what changes their resources without a restart.

use std::collections::BTreeSet;

use object::{Cursor, Errors};

use super::{Scope, visit};
use crate::common::checks::Checks;
use crate::common::internal;

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// The restart policy of a regular container.
pub fn of_container(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let policy = container.field("restartPolicy");
    if scope.options.container_restart_rules {
        policy_and_rules(container, scope, errors);
    } else if policy.is_set() {
        policy.forbidden(errors, "may not be set for non-init containers");
    }
}

/// The restart policy of an init container: `Always` makes it a sidecar.
pub fn of_init_container(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if !policy.is_set() {
        if !rules.is_empty() {
            policy.required(errors, "must specify restartPolicy when restart rules are used");
        }
    } else if !scope.options.container_restart_rules {
        policy.one_of(errors, &["Always"]);
    } else if policy.str() != "Always" || scope.options.restart_all_containers {
        policy_and_rules(container, scope, errors);
    } else if !rules.is_empty() {
        rules.forbidden(errors, "restartPolicyRules are not allowed for init containers with restart policy Always");
    }
}

fn policy_and_rules(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        policy.one_of(errors, &POLICIES);
    } else if rules.is_empty() {
        return;
    } else {
        policy.required(errors, "must specify restartPolicy when restart rules are used");
    }
    if rules.len() > MAX_RULES {
        errors.too_many(rules.path(), rules.len(), MAX_RULES);
    }
    let actions: &[&str] =
        if scope.options.restart_all_containers { &["Restart", "RestartAllContainers"] } else { &["Restart"] };
    for rule in rules.each() {
        rule.field("action").one_of(errors, actions);
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            codes.required(errors, "must be specified");
            continue;
        }
        codes.field("operator").one_of(errors, &["In", "NotIn"]);
        let values = codes.field("values");
        if values.len() > MAX_EXIT_CODES {
            errors.too_many(values.path(), values.len(), MAX_EXIT_CODES);
        }
    }
}

/// What happens to a container when its resources change.
pub fn resize_policies(policies: &Cursor, scope: &Scope, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in policies.each() {
        let (resource, restart) = (policy.field("resourceName").str(), policy.field("restartPolicy").str());
        if !seen.insert(resource) {
            errors.duplicate(policy.path(), resource);
        }
        // Upstream reports these at the list.
        let mut one_of = |value: &str, supported: &[&str]| {
            if value.is_empty() {
                policies.required(errors, "");
            } else if !supported.contains(&value) {
                errors.not_supported(policies.path(), value, supported);
            }
        };
        one_of(resource, &["cpu", "memory"]);
        one_of(restart, &["NotRequired", "RestartContainer"]);
        if scope.restart_policy == "Never" && restart != "NotRequired" {
            policies.invalid_as(errors, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Init containers that end are not restarted for a change of resources.
pub fn init_resize_policies(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let policies = container.field("resizePolicy");
    if !scope.options.allow_sidecar_resize_policy && !policies.is_empty() {
        let shown = internal::shown("[]ContainerResizePolicy", policies.value());
        policies.invalid_as(errors, shown, "must not be set for init containers");
    }
    if visit::is_sidecar(container.value()) || scope.options.allow_restart_on_init_resize {
        return;
    }
    for restart in policies.each().map(|policy| policy.field("restartPolicy")) {
        if restart.str() == "RestartContainer" {
            restart.bad(errors, "must not be set to 'RestartContainer' for non-sidecar initContainers");
        }
    }
}
