//! Pod disruption budgets: how many pods of an application may be taken away at a time.

use object::{Cursor, Errors, Meta, Value, names, value};
use registry::{Context, Convert, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::{conditions, internal, percent, selector, versioned};

/// A label that nothing has: with it v1beta1 said what an empty selector says in v1, and the other way round.
const EMPTY_SELECTOR_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
const SPEC: &str = "io.k8s.api.policy.v1.PodDisruptionBudgetSpec";

pub struct PodDisruptionBudget;

const FACTS: Facts = Facts {
    name: names::name_is_path_segment,
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    checks_metadata_last: true,
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    allows_unconditional_update: false,
    ..Facts::WITH_STATUS
};

impl Strategy for PodDisruptionBudget {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, _cx: &Context, object: &mut Value) {
        strip_marker(object);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        let path = ["spec", "selector"];
        if !versioned::same(versioned::LABEL_SELECTOR, new.at(&path), old.at(&path)) {
            strip_marker(new);
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(&object.field("spec"), selector::LabelSelectorValidationOptions::default(), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let mut problems = Errors::new();
        selector::validate(
            &old.at(&["spec", "selector"]),
            selector::LabelSelectorValidationOptions::default(),
            &mut problems,
        );
        let options = selector::LabelSelectorValidationOptions {
            allow_invalid_values: !problems.is_empty(),
            ..selector::LabelSelectorValidationOptions::default()
        };
        validate_spec(&new.field("spec"), options, errors);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        conditions::validate(&status.field("conditions"), errors);
        // What v1beta1 once let through it still does.
        if cx.version == "v1beta1" {
            return;
        }
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            status.field(field).non_negative(errors);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let amount = |field| match object.at(&["spec", field]) {
            Value::String(text) => Value::from(text.clone()),
            Value::Int(number) => number.to_string().into(),
            _ => "N/A".into(),
        };
        let allowed = object.at(&["status", "disruptionsAllowed"]).as_int().unwrap_or(0);
        let (least, most) = (amount("minAvailable"), amount("maxUnavailable"));
        vec![object.name().into(), least, most, allowed.into(), columns::age(cx, object)]
    }
}

/// Budgets that were stored as `policy/v1beta1`, where an empty selector selects no pods.
pub struct FromV1beta1;

impl Convert for FromV1beta1 {
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        let path = ["spec", "selector"];
        let selector = object.at(&path);
        let with_marker =
            |operator: &str| value!({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": operator}]});
        let says = |other: &Value| versioned::same(versioned::LABEL_SELECTOR, selector, other);
        if !selector.is_null() && says(&Value::map()) {
            object.set(&path, with_marker("Exists"));
        } else if says(&with_marker("DoesNotExist")) {
            object.set(&path, Value::map());
        } else {
            strip_marker(&mut object);
        }
        Ok(object)
    }

    fn from_storage(&self, object: Value) -> Result<Value, String> {
        Ok(object)
    }
}

/// The marker stands alone or not at all: what clients select by must not be mixed with it.
fn strip_marker(budget: &mut Value) {
    let Some(selector) = budget.at_mut(&["spec", "selector"]) else { return };
    let none = object::value!({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": "Exists"}]});
    if versioned::same(versioned::LABEL_SELECTOR, selector, &none) {
        return;
    }
    if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_list_mut) {
        expressions.retain(|expression| expression.str_at(&["key"]) != EMPTY_SELECTOR_LABEL);
    }
}

fn validate_spec(spec: &Cursor, options: selector::LabelSelectorValidationOptions, errors: &mut Errors) {
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        let shown = internal::shown("PodDisruptionBudgetSpec", spec.value());
        spec.invalid_as(errors, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for amount in [least, most].iter().filter(|amount| amount.is_set()) {
        percent::validate(amount, errors);
        percent::at_most_everything(amount, errors);
    }
    selector::validate(&spec.field("selector"), options, errors);
    spec.field("unhealthyPodEvictionPolicy").optional_one_of(errors, &["AlwaysAllow", "IfHealthyBudget"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            PodDisruptionBudget,
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}",
        )
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("spec: {minAvailable: 1}", ""),
            (
                "spec: {minAvailable: 1, maxUnavailable: 101%}",
                r#"spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":"101%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set
                   spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#,
            ),
            ("spec: {maxUnavailable: -1}", "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
            (
                "spec: {selector: {matchExpressions: [{key: a, operator: In}]}, unhealthyPodEvictionPolicy: Never}",
                r#"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
                   spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget""#,
            ),
        ]);
    }

    #[test]
    fn the_marker_of_v1beta1_stands_alone() {
        let marker = EMPTY_SELECTOR_LABEL;
        check().stored(&[
            (
                &format!(
                    "spec: {{selector: {{matchLabels: null, matchExpressions: [{{key: {marker}, operator: Exists}}]}}}}"
                ),
                "",
            ),
            (
                &format!("spec: {{selector: {{matchExpressions: [{{key: {marker}, operator: Exists}}]}}}}"),
                "spec: {selector: {matchExpressions: []}}",
            ),
        ]);
    }

    #[test]
    fn selectors_of_v1beta1_select_what_they_did() {
        let marked =
            |operator: &str| value!({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": operator}]});
        let labels = value!({"matchLabels": {"a": "b"}});
        let mut both = labels.clone();
        both.set(&["matchExpressions"], marked("Exists").field("matchExpressions").clone());
        for (selector, want) in [
            (Value::map(), marked("Exists")),
            (marked("DoesNotExist"), Value::map()),
            (labels.clone(), labels.clone()),
            (both, labels),
            (Value::Null, Value::Null),
        ] {
            let mut budget = value!({"spec": {"minAvailable": 1}});
            if !selector.is_null() {
                budget.set(&["spec", "selector"], selector.clone());
            }
            let got = FromV1beta1.to_storage(budget).unwrap();
            let same = versioned::same(versioned::LABEL_SELECTOR, got.at(&["spec", "selector"]), &want);
            assert!(same, "{selector:?}: {got:?}");
        }
    }

    #[test]
    fn counts_in_the_status_are_not_negative() {
        check().update_status(&[
            ("", "status: {currentHealthy: 1, expectedPods: 0}", ""),
            (
                "",
                "status: {disruptionsAllowed: -1, conditions: [{type: A, status: 'True', reason: R, lastTransitionTime: '2026-01-01T00:00:00Z'}, {type: A, status: x, reason: R, lastTransitionTime: '2026-01-01T00:00:00Z'}]}",
                r#"status.conditions[1]: Duplicate value: "A"
                   status.conditions[1].status: Unsupported value: "x": supported values: "False", "True", "Unknown"
                   status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"#,
            ),
        ]);
    }

    #[test]
    fn cells_show_the_budget() {
        check().cells(&[
            ("{spec: {minAvailable: 25%}, status: {disruptionsAllowed: 2}}", "a 25% N/A 2 <unknown>"),
            ("spec: {maxUnavailable: 1}", "a N/A 1 0 <unknown>"),
        ]);
    }
}
