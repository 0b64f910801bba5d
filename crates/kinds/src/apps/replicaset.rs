//! Replica sets: a number of pods of one template.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns as cells};

use super::shared::{self, MORE_THAN_REPLICAS, TEMPLATE};
use crate::common::{columns, versioned};

const SPEC: &str = "io.k8s.api.apps.v1.ReplicaSetSpec";

pub struct ReplicaSet;

const FACTS: Facts = Facts {
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    ..Facts::WITH_STATUS
};

impl Strategy for ReplicaSet {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        shared::default_template(object);
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        shared::drop_disabled(cx, object, None);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        shared::drop_disabled(cx, new, Some(old));
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, object, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(cx, new, Some(old), errors);
        shared::selector_stays(new, old, errors);
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        let terminating = ["status", "terminatingReplicas"];
        if !cx.features.enabled("DeploymentReplicaSetTerminatingReplicas") && old.at(&terminating).is_null() {
            new.remove(&terminating);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        let counts = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        shared::not_negative(&status, &counts, errors);
        for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
            shared::at_most(&status, field, "replicas", MORE_THAN_REPLICAS, errors);
        }
        let more_than_ready = "cannot be greater than readyReplicas";
        shared::at_most(&status, "availableReplicas", "readyReplicas", more_than_ready, errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            Some(old) if old.generation() == object.generation() => Vec::new(),
            Some(old) => shared::template_warnings(cx, object, Some(old)),
            None => {
                let name = shared::name_warning(object).into_iter();
                name.chain(shared::template_warnings(cx, object, None)).collect()
            }
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (containers, images) = columns::containers(object.at(&TEMPLATE).field("spec"));
        vec![
            object.name().into(),
            shared::number(object, &["spec", "replicas"]).into(),
            shared::number(object, &["status", "replicas"]).into(),
            shared::number(object, &["status", "readyReplicas"]).into(),
            cells::age(cx, object),
            containers.into(),
            images.into(),
            shared::selector_cell(object.at(&["spec", "selector"])),
        ]
    }
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let spec = object.field("spec");
    spec.field("replicas").non_negative(errors);
    spec.field("minReadySeconds").non_negative(errors);
    // Upstream calls it a deployment here.
    shared::validate_selector(&spec, "deployment", errors);
    shared::validate_replicated(&spec, &shared::template_options(cx, object, old), errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            ReplicaSet,
            "
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata: {name: web}
            spec:
              replicas: 1
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
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
                "spec: {replicas: -1, minReadySeconds: -1, selector: {matchLabels: null}}",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0
                 spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
                 spec.selector: Invalid value: {}: empty selector is invalid for deployment",
            ),
        ]);
        check().update(&[(
            "",
            "spec: {selector: {matchLabels: {app: web, a: b}}, template: {metadata: {labels: {a: b}}}}",
            r#"spec.selector: Invalid value: {"matchLabels":{"a":"b","app":"web"}}: field is immutable"#,
        )]);
    }

    #[test]
    fn statuses_are_checked() {
        check().update_status(&[(
            "",
            "status: {replicas: 1, fullyLabeledReplicas: 2, availableReplicas: 1}",
            "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas
             status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
        )]);
    }

    #[test]
    fn cells_show_counts() {
        check().cells(&[
            ("status: {replicas: 1}", "web 1 1 0 <unknown> c i app=web"),
            ("spec: {selector: null}", "web 1 0 0 <unknown> c i <none>"),
        ]);
    }
}
