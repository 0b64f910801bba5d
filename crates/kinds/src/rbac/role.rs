//! Roles and ClusterRoles: sets of permissions.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy};

use crate::common::selector;

pub struct Role {
    /// Whether this is a Role rather than a ClusterRole.
    pub namespaced: bool,
}

const FACTS: Facts = Facts {
    name: |name, _| names::path_segment_name(name),
    allows_create_on_update: true,
    // Upstream's storage of this kind has none that could.
    deletes_unreadable: false,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for Role {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        self.validate_rules(object, selector::LabelSelectorValidationOptions::default(), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let old = old.value().list_at(&["aggregationRule", "clusterRoleSelectors"]);
        let options = selector::LabelSelectorValidationOptions {
            allow_invalid_values: old.iter().any(selector::has_invalid_value),
            ..selector::LabelSelectorValidationOptions::default()
        };
        self.validate_rules(new, options, errors);
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.meta_str("creationTimestamp").into()]
    }
}

impl Role {
    fn validate_rules(&self, object: &Cursor, options: selector::LabelSelectorValidationOptions, errors: &mut Errors) {
        let rules = object.field("rules");
        for rule in rules.each() {
            self.validate_rule(&rule, errors);
        }
        let aggregation = object.field("aggregationRule");
        if !self.namespaced && aggregation.is_set() {
            validate_aggregation(&aggregation.field("clusterRoleSelectors"), options, errors);
        }
        // Upstream declares this on the type, and looks at what is declared after everything else.
        for rule in rules.each() {
            rule.field("verbs").must_be_set(errors, "");
        }
    }

    fn validate_rule(&self, rule: &Cursor, errors: &mut Errors) {
        let (urls, groups, resources) =
            (rule.field("nonResourceURLs"), rule.field("apiGroups"), rule.field("resources"));
        if urls.is_empty() {
            groups.must_be_set(errors, "resource rules must supply at least one api group");
            resources.must_be_set(errors, "resource rules must supply at least one resource");
            return;
        }
        if self.namespaced {
            urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
        }
        if !(groups.is_empty() && resources.is_empty() && rule.field("resourceNames").is_empty()) {
            urls.invalid(errors, "rules cannot apply to both regular resources and non-resource URLs");
        }
    }
}

fn validate_aggregation(selectors: &Cursor, options: selector::LabelSelectorValidationOptions, errors: &mut Errors) {
    if selectors.is_empty() {
        selectors.required(errors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.each() {
        selector::validate(&selector, options, errors);
        if selector::compile(selector.value()).is_err() {
            // Upstream shows the selector it could not make.
            selector.invalid_as(errors, Value::Null, "invalid label selector.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn rules_are_checked() {
        let base = "{metadata: {name: a}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}";
        Check::new(Role { namespaced: true }, base).create(&[
            ("", ""),
            (
                "rules: [{}]",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group
                 rules[0].resources: Required value: resource rules must supply at least one resource
                 rules[0].verbs: Required value",
            ),
            (
                "rules: [{verbs: [get], nonResourceURLs: [/a], resources: [b]}]",
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs
                 rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
                 non-resource URLs",
            ),
        ]);
        Check::new(Role { namespaced: false }, base).create(&[
            ("rules: [{verbs: [get], nonResourceURLs: [/a]}]", ""),
            (
                "aggregationRule: {clusterRoleSelectors: []}",
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
                 aggregationRule is non-nil",
            ),
        ]);
    }
}
