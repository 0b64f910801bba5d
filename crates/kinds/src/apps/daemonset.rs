//! Daemon sets: a pod on every node that fits.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Error, Facts, Strategy, columns as cells};

use super::shared::{self, TEMPLATE};
use crate::common::{columns, internal, percent, pod_template, selector, versioned};

const SPEC: &str = "io.k8s.api.apps.v1.DaemonSetSpec";
const POD_TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
/// How often the template changed. Other versions had a field for it, and every daemon set still has it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub struct DaemonSet;

const FACTS: Facts = Facts {
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    hidden_annotations: &[TEMPLATE_GENERATION],
    ..Facts::WITH_STATUS
};

impl Strategy for DaemonSet {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        shared::default_template(object);
        if object.str_at(&["spec", "updateStrategy", "type"]) == "RollingUpdate" {
            object.set_default(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
            object.set_default(&["spec", "updateStrategy", "rollingUpdate", "maxSurge"], 0);
        }
        if object.annotation(TEMPLATE_GENERATION).is_none() {
            object.set_annotation(TEMPLATE_GENERATION, "0");
        }
    }

    fn check_conversion(&self, object: &Value) -> Result<(), Error> {
        template_generation(object).map_err(|why| shared::undecodable("DaemonSet", &why))?;
        Ok(())
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        let generation = template_generation(object).unwrap_or(0).max(1);
        object.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
        shared::drop_disabled(cx, object, None);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        shared::drop_disabled(cx, new, Some(old));
        let mut generation = template_generation(old).unwrap_or(0);
        if !versioned::same(POD_TEMPLATE, new.at(&TEMPLATE), old.at(&TEMPLATE)) {
            generation = generation.saturating_add(1);
        }
        new.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
    }

    /// The count is part of the spec to upstream, whatever the annotation in the request says.
    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        new.set_annotation(TEMPLATE_GENERATION, &template_generation(old).unwrap_or(0).to_string());
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, object, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        shared::selector_stays(new, old, errors);
        validate_spec(cx, new, Some(old), errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        shared::not_negative(&new.field("status"), &counts, errors);
        shared::collisions_only_grow(new, old, errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            Some(old) if object.annotation(TEMPLATE_GENERATION) == old.annotation(TEMPLATE_GENERATION) => Vec::new(),
            old => shared::template_warnings(cx, object, old),
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let count = |field| Value::from(shared::number(object, &["status", field]));
        let pod = object.at(&TEMPLATE).field("spec");
        let (containers, images) = columns::containers(pod);
        vec![
            object.name().into(),
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            columns::labels(pod.field("nodeSelector")).into(),
            cells::age(cx, object),
            containers.into(),
            images.into(),
            shared::selector_cell(object.at(&["spec", "selector"])),
        ]
    }
}

fn template_generation(object: &Value) -> Result<i64, String> {
    object.annotation(TEMPLATE_GENERATION).map_or(Ok(0), shared::parse_int)
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let (spec, mut options) = (object.field("spec"), shared::template_options(cx, object, old));
    if let Some(old) = old {
        options.allow_invalid_selector_values |= selector::has_invalid_value(old.at(&["spec", "selector"]).value());
    }
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    let tolerated = selector::LabelSelectorValidationOptions {
        allow_invalid_values: options.allow_invalid_selector_values,
        ..selector::LabelSelectorValidationOptions::default()
    };
    selector::validate(&selected, tolerated, errors);
    if selector::compile(selected.value()).is_ok_and(|compiled| !selector::selects(&compiled, template.value())) {
        template.at(&["metadata", "labels"]).invalid(errors, "`selector` does not match template `labels`");
    }
    shared::not_empty(&selected, "daemonset", errors);
    pod_template::validate(&template, &options, errors);
    shared::runs_for_ever(&template, "DaemonSet", errors);
    spec.field("minReadySeconds").non_negative(errors);
    validate_update_strategy(&spec.field("updateStrategy"), errors);
    spec.field("revisionHistoryLimit").non_negative(errors);
}

fn validate_update_strategy(strategy: &Cursor, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => rolling.required(errors, ""),
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        _ => {
            let shown = internal::shown("DaemonSetUpdateStrategy", strategy.value());
            errors.not_supported(strategy.path(), shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

/// A node's pod is replaced before or after the old one goes: one of the two numbers is set.
fn validate_rolling_update(rolling: &Cursor, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    percent::validate(&unavailable, errors);
    percent::validate(&surge, errors);
    percent::at_most_everything(&unavailable, errors);
    percent::at_most_everything(&surge, errors);
    match (percent::is_zero(&unavailable), percent::is_zero(&surge)) {
        (false, false) => surge.invalid(errors, "may not be set when maxUnavailable is non-zero"),
        (true, true) => unavailable.required(errors, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            DaemonSet,
            "
            apiVersion: apps/v1
            kind: DaemonSet
            metadata: {name: agent}
            spec:
              revisionHistoryLimit: 10
              updateStrategy: {type: RollingUpdate}
              selector: {matchLabels: {app: agent}}
              template:
                metadata: {labels: {app: agent}}
                spec:
                  restartPolicy: Always
                  dnsPolicy: ClusterFirst
                  terminationGracePeriodSeconds: 30
                  containers:
                  - {name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File}
            ",
        )
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("", ""),
            (
                "spec: {selector: null}",
                r#"spec.template.metadata.labels: Invalid value: {"app":"agent"}: `selector` does not match template `labels`"#,
            ),
            (
                "spec: {selector: {matchLabels: null}, minReadySeconds: -1, revisionHistoryLimit: -1}",
                "spec.selector: Invalid value: {}: empty selector is invalid for daemonset
                 spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
                 spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "spec: {updateStrategy: {type: Now}}",
                r#"spec.updateStrategy: Unsupported value: {"Type":"Now","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete""#,
            ),
            (
                "spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 1}}}",
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ),
            (
                "spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0%}}}",
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ),
        ]);
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        let generation = |object: Value| object.annotation(TEMPLATE_GENERATION).map(str::to_string);
        let set = |number: &str| format!("metadata: {{annotations: {{{TEMPLATE_GENERATION}: '{number}'}}}}");
        assert_eq!(generation(check().try_create("").unwrap()), Some("1".into()));
        assert_eq!(generation(check().try_create(&set("7")).unwrap()), Some("7".into()));
        assert_eq!(generation(check().try_update(&set("3"), "").unwrap()), Some("3".into()));
        assert_eq!(generation(check().try_update(&set("3"), &set("9")).unwrap()), Some("3".into()));
        assert_eq!(generation(check().try_update_status(&set("3"), &set("9")).unwrap()), Some("3".into()));
        let changed = "spec: {template: {spec: {hostNetwork: true}}}";
        assert_eq!(generation(check().try_update(&set("3"), changed).unwrap()), Some("4".into()));
        let refused = check().try_create(&set("x")).unwrap_err().to_string();
        assert_eq!(
            refused,
            r#"400 DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: parsing "x": invalid syntax"#
        );
    }

    #[test]
    fn the_selector_stays() {
        check().update(&[(
            "",
            "spec: {selector: {matchLabels: {app: other}}}",
            r#"spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable
               spec.template.metadata.labels: Invalid value: {"app":"agent"}: `selector` does not match template `labels`"#,
        )]);
    }

    #[test]
    fn cells_show_counts() {
        check().cells(&[(
            "{spec: {template: {spec: {nodeSelector: {a: b}}}}, status: {desiredNumberScheduled: 3, numberReady: 1}}",
            "agent 3 0 1 0 0 a=b <unknown> c i app=agent",
        )]);
    }
}
