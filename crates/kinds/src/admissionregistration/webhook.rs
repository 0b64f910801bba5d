//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::expressions::Stored;
use super::{conditions, rules, webhook_client};
use crate::common::checks::Checks;
use crate::common::{problems, selector, versioned};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

pub struct Webhooks {
    pub mutating: bool,
}

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    generation: Some(registry::is_changed),
    allows_unconditional_update: false,
    ..Facts::WITHOUT_STATUS
};

/// What an update tolerates because the stored object already has it.
#[derive(Clone, Default)]
struct Tolerated<'a> {
    same_conditions: bool,
    stored_conditions: Stored<'a>,
    side_effects: bool,
    unknown_versions: bool,
    repeated_names: bool,
    invalid_selectors: bool,
}

impl Strategy for Webhooks {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        self.validate_all(object, &Tolerated::default(), errors);
        super::check_name(cx, object, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate_all(new, &Tolerated::by(new, old), errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings: Vec<String> = super::name_warning(cx, object, old).into_iter().collect();
        if cx.features.enabled("ExcludeAdmissionWebhookVirtualResources") {
            warnings.extend(excluded_rules(object));
        }
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.list_at(&["webhooks"]).len().into(), columns::age(cx, object)]
    }
}

/// Warnings about rules that name a resource which webhooks never see. A rule with `*` may mean others.
fn excluded_rules(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, hook) in object.list_at(&["webhooks"]).iter().enumerate() {
        for (number, rule) in hook.list_at(&["rules"]).iter().enumerate() {
            let names = |field: &str| rule.list_at(&[field]).iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
            let (groups, resources) = (names("apiGroups"), names("resources"));
            if groups.contains("*") || resources.contains("*") {
                continue;
            }
            let named =
                registry::REVIEWS.iter().filter(|(group, name)| groups.contains(group) && resources.contains(name));
            warnings.extend(named.map(|(group, name)| {
                format!(
                    "webhooks[{at}].rules[{number}]: {name}.{group} is excluded from admission webhooks; this rule will \
                     have no effect"
                )
            }));
        }
    }
    warnings
}

impl<'a> Tolerated<'a> {
    fn by(new: &Cursor, old: &Cursor<'a>) -> Tolerated<'a> {
        let (new, old) = (new.field("webhooks"), old.field("webhooks"));
        let conditions = |hook: &Cursor| hook.field("matchConditions").value().clone();
        let names: BTreeSet<&str> = old.each().map(|hook| hook.field("name").str()).collect();
        Tolerated {
            same_conditions: new.len() == old.len()
                && new
                    .each()
                    .zip(old.each())
                    .all(|(new, old)| versioned::same(super::MATCH_CONDITION, &conditions(&new), &conditions(&old))),
            stored_conditions: old.each().fold(Stored::default(), |stored, hook| {
                stored.and(Stored::of(hook.value().list_at(&["matchConditions"]), &["expression"]))
            }),
            side_effects: old.each().any(|hook| !NO_SIDE_EFFECTS.contains(&hook.field("sideEffects").str())),
            unknown_versions: old.each().any(|hook| {
                let versions = hook.field("admissionReviewVersions");
                !versions.is_empty() && !versions.strs().any(|version| REVIEW_VERSIONS.contains(&version))
            }),
            repeated_names: names.len() < old.len(),
            invalid_selectors: old.each().any(|hook| has_invalid_selector(&hook)),
        }
    }
}

fn has_invalid_selector(hook: &Cursor) -> bool {
    let mut errors = Errors::new();
    for field in ["namespaceSelector", "objectSelector"] {
        selector::validate(&hook.field(field), selector::LabelSelectorValidationOptions::default(), &mut errors);
    }
    !errors.is_empty()
}

impl Webhooks {
    fn validate_all(&self, object: &Cursor, tolerated: &Tolerated<'_>, errors: &mut Errors) {
        let mut seen = BTreeSet::new();
        for hook in object.field("webhooks").each() {
            self.validate_hook(&hook, tolerated, errors);
            validate_versions(&hook.field("admissionReviewVersions"), tolerated, errors);
            let name = hook.field("name");
            if !name.is_empty() && !seen.insert(name.str()) && !tolerated.repeated_names {
                errors.duplicate(name.path(), name.str());
            }
        }
    }

    fn validate_hook(&self, hook: &Cursor, tolerated: &Tolerated<'_>, errors: &mut Errors) {
        let name = hook.field("name");
        problems::report(&name, names::fully_qualified_name(name.str()), errors);
        for rule in hook.field("rules").each() {
            rules::validate(&rule, errors);
        }
        hook.field("failurePolicy").optional_one_of(errors, &["Fail", "Ignore"]);
        hook.field("matchPolicy").optional_one_of(errors, &["Equivalent", "Exact"]);
        let allowed: &[&str] = if tolerated.side_effects { &SIDE_EFFECTS } else { &NO_SIDE_EFFECTS };
        let side_effects = hook.field("sideEffects");
        if side_effects.is_set() {
            side_effects.one_of(errors, allowed);
        } else {
            side_effects.required(errors, format!("must specify one of {}", allowed.join(", ")));
        }
        let timeout = hook.field("timeoutSeconds");
        if timeout.opt_int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
        }
        let options = selector::LabelSelectorValidationOptions {
            allow_invalid_values: tolerated.invalid_selectors,
            ..selector::LabelSelectorValidationOptions::default()
        };
        selector::validate(&hook.field("namespaceSelector"), options, errors);
        selector::validate(&hook.field("objectSelector"), options, errors);
        if self.mutating {
            hook.field("reinvocationPolicy").optional_one_of(errors, &["IfNeeded", "Never"]);
        }
        webhook_client::validate(&hook.field("clientConfig"), errors);
        if !tolerated.same_conditions {
            conditions::validate(&hook.field("matchConditions"), false, &tolerated.stored_conditions, errors);
        }
    }
}

fn validate_versions(versions: &Cursor, tolerated: &Tolerated<'_>, errors: &mut Errors) {
    if versions.is_empty() {
        return versions.required(errors, format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
    }
    let mut seen = BTreeSet::new();
    for version in versions.each() {
        if seen.insert(version.str()) {
            version.check(errors, names::dns1035_label);
        } else {
            version.bad(errors, "duplicate version");
        }
    }
    if !tolerated.unknown_versions && !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        versions.invalid(errors, format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn hooks_are_checked() {
        let check = Check::new(Webhooks { mutating: true }, "{metadata: {name: a}}");
        check.create(&[
            ("", ""),
            (
                "webhooks: [{name: a, rules: [{operations: ['*', CREATE], apiGroups: [''], apiVersions: [v1], \
                 resources: ['a/*', a/b, '*/c', d/c]}], clientConfig: {url: 'http://u@h?q#f'}, timeoutSeconds: 31}]",
                "webhooks[0].name: Invalid value: \"a\": should be a domain with at least three segments separated by dots
                 webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify \
                 other operations
                 webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b
                 webhooks[0].rules[0].resources[3]: Invalid value: \"d/c\": if '*/c' is present, must not specify d/c
                 webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
                 webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
                 webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired \
                 format: https://host[/path]
                 webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL
                 webhooks[0].clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL
                 webhooks[0].clientConfig.url: Invalid value: \"q\": query parameters are not permitted in the URL
                 webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ),
            (
                "webhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: \
                 {name: x, port: 0, path: a//b}}}]",
                "webhooks[0].clientConfig.service.name: Required value
                 webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and \
                 65535, inclusive
                 webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": must start with a '/'
                 webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": segment[0] may not be empty
                 webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": segment[1] may not be empty",
            ),
        ]);
        check.cells(&[("webhooks: [{}]", "a 1 <unknown>")]);
    }
}
