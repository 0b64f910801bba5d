//! ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::matching;
use crate::common::checks::Checks;
use crate::common::versioned;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

pub struct Binding {
    pub mutating: bool,
}

const VALIDATING: Facts = Facts {
    checks_updated_generate_name: true,
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    generation: Some(|new, old| {
        let spec = "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec";
        !versioned::same(spec, new.field("spec"), old.field("spec"))
    }),
    allows_unconditional_update: false,
    ..Facts::WITHOUT_STATUS
};

const MUTATING: Facts = Facts {
    generation: Some(|new, old| {
        let spec = "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBindingSpec";
        !versioned::same(spec, new.field("spec"), old.field("spec"))
    }),
    ..VALIDATING
};

impl Strategy for Binding {
    fn facts(&self) -> &Facts {
        if self.mutating { &MUTATING } else { &VALIDATING }
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        super::name_warning(cx, object, old).into_iter().collect()
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        super::check_name(cx, object, errors);
        let spec = object.field("spec");
        let (policy, resources) = (spec.field("policyName"), spec.field("matchResources"));
        if !policy.is_empty() {
            policy.check_name(errors, names::name_is_dns_subdomain);
        } else if self.mutating {
            policy.required(errors, "");
        }
        matching::validate_param_ref(&spec.field("paramRef"), errors);
        matching::validate_resources(&resources, errors);
        if self.mutating {
            return matching::validate_mutable(&resources, errors);
        }
        let actions = spec.field("validationActions");
        validate_actions(&actions, errors);
        // Upstream declares these on the type, and looks at what is declared after everything else.
        policy.require(errors);
        actions.must_be_set(errors, "");
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let policy = object.str_at(&["spec", "policyName"]);
        let param = param_cell(object.at(&["spec", "paramRef"]));
        vec![object.name().into(), policy.into(), param.into(), columns::age(cx, object)]
    }
}

fn validate_actions(actions: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for action in actions.each() {
        action.one_of(errors, &ACTIONS);
        if !seen.insert(action.str()) {
            action.duplicate(errors);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        actions.invalid(errors, detail);
    }
}

fn param_cell(param: &Value) -> String {
    let (namespace, name) = (param.str_at(&["namespace"]), param.str_at(&["name"]));
    match (name, param.field("selector")) {
        ("", Value::Null) => "<unset>".to_string(),
        ("", selector) => selector_cell(selector),
        (name, _) if namespace.is_empty() => format!("*/{name}"),
        (name, _) => format!("{namespace}/{name}"),
    }
}

/// A LabelSelector as Go prints one.
fn selector_cell(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_string();
    let labels = selector.field("matchLabels").as_map().into_iter().flat_map(|map| map.iter());
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}: {},", text(value))).collect();
    let expressions = selector.list_at(&["matchExpressions"]).iter().map(|expression| {
        let values: Vec<String> = expression.list_at(&["values"]).iter().map(text).collect();
        let (key, operator) = (expression.str_at(&["key"]), expression.str_at(&["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    let expressions: String = expressions.collect();
    let labels = labels.concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn bindings_are_checked() {
        let check = Check::new(
            Binding { mutating: false },
            "{metadata: {name: a}, spec: {policyName: p, validationActions: [Deny]}}",
        );
        check.create(&[
            ("", ""),
            (
                "spec: {policyName: null, paramRef: {}, validationActions: [Deny, Warn, Deny]}",
                "spec.paramRef: Required value: one of name or selector must be specified
                 spec.paramRef.parameterNotFoundAction: Required value
                 spec.validationActions[2]: Duplicate value: \"Deny\"
                 spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\"]: must not contain both Deny and Warn \
                 (repeating the same validation failure information in the API response and headers serves no purpose)
                 spec.policyName: Required value",
            ),
        ]);
        check.cells(&[
            ("", "a p <unset> <unknown>"),
            ("spec: {paramRef: {name: x}}", "a p */x <unknown>"),
            (
                "spec: {paramRef: {selector: {matchLabels: {k: v}}}}",
                "a p &LabelSelector{MatchLabels:map[string]string{k: v,},MatchExpressions:[]LabelSelectorRequirement{},} \
                 <unknown>",
            ),
        ]);
    }
}
