//! Horizontal pod autoscalers: how many pods there should be, by what is measured.

use object::{Cursor, Errors, GroupVersion, Meta, Value, names, value};
use registry::{Context, Strategy};

use super::{annotations, columns, metrics};
use crate::common::checks::{Checks, NOT_POSITIVE};
use crate::common::{resources, versioned};

const SPEC: &str = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec";
const PERIOD_MAX_SECONDS: i64 = 1800;
const WINDOW_MAX_SECONDS: i64 = 3600;
/// What is kept when nothing else is measured.
pub const DEFAULT_CPU_UTILIZATION: i64 = 80;

pub struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        annotations::drop(object);
        if object.list_at(&["spec", "metrics"]).is_empty() {
            object.set(&["spec", "metrics"], vec![cpu_utilization(DEFAULT_CPU_UTILIZATION)]);
        }
        if let Some(behavior) = object.at_mut(&["spec", "behavior"]).filter(|behavior| !behavior.is_null()) {
            default_rules(behavior, "scaleUp");
            default_rules(behavior, "scaleDown");
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if cx.features.enabled("HPAGeneration") {
            object.set_generation(1);
        }
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        let changed = !versioned::same(SPEC, new.field("spec"), old.field("spec"));
        if changed && cx.features.enabled("HPAGeneration") {
            new.set_generation(old.generation() + 1);
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let tolerated = Tolerated::new(cx, object, None);
        validate_spec(&object.field("spec"), tolerated, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let tolerated = Tolerated::new(cx, new, Some(old));
        validate_spec(&new.field("spec"), tolerated, errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        for condition in status.field("conditions").each() {
            condition.field("observedGeneration").non_negative(errors);
        }
        status.field("currentReplicas").non_negative(errors);
        status.field("desiredReplicas").non_negative(errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        columns::cells(cx, object)
    }
}

/// A metric that keeps the pods' use of CPU at a share of what they ask for.
pub fn cpu_utilization(percent: i64) -> Value {
    value!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// Rules that are given are completed: as fast as it goes upwards, everything at once downwards.
fn default_rules(behavior: &mut Value, direction: &str) {
    let rules = behavior.make_map().entry(direction);
    rules.make_map();
    rules.set_default(&["selectPolicy"], "Max");
    let percent = value!({"type": "Percent", "value": 100, "periodSeconds": 15});
    if direction == "scaleUp" {
        rules.set_default(&["stabilizationWindowSeconds"], 0);
        let pods = value!({"type": "Pods", "value": 4, "periodSeconds": 15});
        rules.set_default(&["policies"], vec![pods, percent]);
    } else {
        rules.set_default(&["policies"], vec![percent]);
    }
}

/// What upstream lets pass, because features are on or the old object has it.
#[derive(Clone, Copy)]
struct Tolerated {
    min_replicas: i64,
    target: Reference,
    described: Reference,
}

/// How the apiVersion of a reference is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    Any,
    /// The core group's has no name.
    CoreToo,
    WithGroup,
}

impl Tolerated {
    fn new(cx: &Context, new: &Cursor, old: Option<&Cursor>) -> Tolerated {
        let at = |object: &Cursor, field: &str| object.at(&["spec", "scaleTargetRef", field]).str().to_string();
        let same = |old: &Cursor, field: &str| at(old, field) == at(new, field);
        let was_zero = old.is_some_and(|old| old.at(&["spec", "minReplicas"]).opt_int() == Some(0));
        let target = match old {
            Some(old) if same(old, "apiVersion") && same(old, "kind") => Reference::Any,
            _ if at(new, "kind") == "ReplicationController" => Reference::CoreToo,
            _ => Reference::WithGroup,
        };
        let was_wrong = old.is_some_and(|old| {
            old.at(&["spec", "metrics"]).each().any(|metric| {
                let described = metric.at(&["object", "describedObject", "apiVersion"]);
                metric.field("type").str() == "Object"
                    && metric.field("object").is_set()
                    && check_api_version(described.str(), Reference::CoreToo).is_err()
            })
        });
        Tolerated {
            min_replicas: if was_zero || cx.features.enabled("HPAScaleToZero") { 0 } else { 1 },
            target,
            described: if was_wrong { Reference::Any } else { Reference::CoreToo },
        }
    }
}

fn validate_spec(spec: &Cursor, tolerated: Tolerated, errors: &mut Errors) {
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.opt_int().is_some_and(|min| max.int() < min) {
        max.invalid_as(errors, max.int(), "must be greater than or equal to `minReplicas`");
    }
    validate_reference(&spec.field("scaleTargetRef"), tolerated.target, errors);
    metrics::validate(&spec.field("metrics"), min.opt_int(), tolerated.described, errors);
    for direction in ["scaleUp", "scaleDown"] {
        validate_rules(&spec.at(&["behavior", direction]), errors);
    }
    // Upstream's declarative rules come last.
    if min.opt_int().is_some_and(|min| min < tolerated.min_replicas) {
        min.invalid(errors, format!("must be greater than or equal to {}", tolerated.min_replicas));
    }
    if max.int() == 0 {
        max.required(errors, "");
    } else if max.int() < 1 {
        max.invalid(errors, "must be greater than or equal to 1");
    }
}

/// Something of any version, named by kind and name.
pub fn validate_reference(reference: &Cursor, versions: Reference, errors: &mut Errors) {
    for field in [reference.field("kind"), reference.field("name")] {
        if field.require(errors) {
            field.check(errors, names::path_segment_name);
        }
    }
    let version = reference.field("apiVersion");
    if let Err(why) = check_api_version(version.str(), versions) {
        version.bad(errors, why);
    }
}

fn check_api_version(version: &str, versions: Reference) -> Result<(), String> {
    if versions == Reference::Any {
        return Ok(());
    }
    let version = GroupVersion::parse(version)?;
    if version.group.is_empty() && versions == Reference::WithGroup {
        return Err("apiVersion must specify API group".to_string());
    }
    Ok(())
}

fn validate_rules(rules: &Cursor, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let (window, policies) = (rules.field("stabilizationWindowSeconds"), rules.field("policies"));
    if window.int() < 0 {
        window.invalid(errors, "must be greater than or equal to zero");
    }
    if window.int() > WINDOW_MAX_SECONDS {
        window.invalid(errors, format!("must be less than or equal to {WINDOW_MAX_SECONDS}"));
    }
    rules.field("selectPolicy").optional_one_of(errors, &["Disabled", "Max", "Min"]);
    if policies.is_empty() {
        policies.required(errors, "must specify at least one Policy");
    }
    for policy in policies.each() {
        policy.field("type").one_of(errors, &["Percent", "Pods"]);
        let (amount, period) = (policy.field("value"), policy.field("periodSeconds"));
        for number in [&amount, &period].into_iter().filter(|number| number.int() <= 0) {
            number.invalid_as(errors, number.int(), NOT_POSITIVE);
        }
        if period.int() > PERIOD_MAX_SECONDS {
            period.invalid(errors, format!("must be less than or equal to {PERIOD_MAX_SECONDS}"));
        }
    }
    let tolerance = rules.field("tolerance");
    if tolerance.is_set() {
        resources::non_negative(&tolerance, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            HorizontalPodAutoscaler,
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {minReplicas: 1, \
             maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}",
        )
    }

    #[test]
    fn metrics_and_rules_are_defaulted() {
        let object = check().decoded("spec: {behavior: {scaleUp: {stabilizationWindowSeconds: 5}}}");
        assert_eq!(object.list_at(&["spec", "metrics"]), [cpu_utilization(80)]);
        assert_eq!(
            object.at(&["spec", "behavior"]),
            &value!({
                "scaleUp": {
                    "stabilizationWindowSeconds": 5,
                    "selectPolicy": "Max",
                    "policies": [
                        {"type": "Pods", "value": 4, "periodSeconds": 15},
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                    ],
                },
                "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
            })
        );
        assert_eq!(check().decoded("").at(&["spec", "behavior"]), &Value::Null);
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("", ""),
            (
                "spec: {minReplicas: -1, maxReplicas: -2, scaleTargetRef: {kind: '', name: a/b, apiVersion: v1}}",
                r#"spec.maxReplicas: Invalid value: -2: must be greater than or equal to `minReplicas`
                   spec.scaleTargetRef.kind: Required value
                   spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'
                   spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group
                   spec.minReplicas: Invalid value: -1: must be greater than or equal to 0
                   spec.maxReplicas: Invalid value: -2: must be greater than or equal to 1"#,
            ),
            (
                "spec: {maxReplicas: null}",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`
                 spec.maxReplicas: Required value",
            ),
            ("spec: {scaleTargetRef: {apiVersion: v1, kind: ReplicationController}}", ""),
            (
                "spec: {scaleTargetRef: {apiVersion: a/b/c}}",
                r#"spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
            ),
            (
                "spec: {minReplicas: 0}",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ),
        ]);
    }

    #[test]
    fn rules_are_checked() {
        check().create(&[(
            "spec: {behavior: {scaleUp: {stabilizationWindowSeconds: 3601, selectPolicy: Some, policies: [], tolerance: '-1'}, \
             scaleDown: {stabilizationWindowSeconds: -1, policies: [{type: All, periodSeconds: 1801}, {type: Pods, value: 1}]}}}",
            r#"spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600
               spec.behavior.scaleUp.selectPolicy: Unsupported value: "Some": supported values: "Disabled", "Max", "Min"
               spec.behavior.scaleUp.policies: Required value: must specify at least one Policy
               spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0
               spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero
               spec.behavior.scaleDown.policies[0].type: Unsupported value: "All": supported values: "Percent", "Pods"
               spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
               spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800
               spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 0: must be greater than zero"#,
        )]);
    }

    #[test]
    fn an_update_tolerates_the_target_it_had() {
        let old = "spec: {scaleTargetRef: {apiVersion: v1}}";
        check().update(&[
            (old, "spec: {maxReplicas: 4, scaleTargetRef: {apiVersion: v1}}", ""),
            ("", old, r#"spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group"#),
        ]);
    }

    #[test]
    fn generations_count_specs() {
        let generation = |patch: &str| check().try_update("metadata: {generation: 1}", patch).unwrap().generation();
        assert_eq!(generation("{metadata: {generation: 1}, spec: {maxReplicas: 4}}"), 2);
        assert_eq!(generation("metadata: {generation: 1, labels: {a: b}}"), 1);
        assert_eq!(check().try_create("").unwrap().generation(), 1);
    }

    #[test]
    fn statuses_are_checked() {
        check().update_status(&[(
            "",
            "status: {currentReplicas: -1, desiredReplicas: -1, conditions: [{type: A, observedGeneration: -1}]}",
            "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to 0
             status.currentReplicas: Invalid value: -1: must be greater than or equal to 0
             status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
        )]);
    }
}
