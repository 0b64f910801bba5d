//! Deployments: replica sets that follow each other.

use object::{Cursor, Errors, Meta, Path, Status, Value};
use registry::{Context, Error, Facts, Strategy, columns as cells};

use super::shared::{self, MORE_THAN_REPLICAS, TEMPLATE};
use crate::common::{checks, columns, internal, percent, selector, versioned};

const SPEC: &str = "io.k8s.api.apps.v1.DeploymentSpec";
/// What apps/v1beta1 had a field for: the revision to roll back to.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

pub struct Deployment;

const FACTS: Facts = Facts {
    // Annotations count too: they are copied to the replica sets.
    generation: Some(|new, old| {
        let annotations = ["metadata", "annotations"];
        !versioned::same(SPEC, new.field("spec"), old.field("spec"))
            || !checks::same(new.at(&annotations), old.at(&annotations))
    }),
    status_resets: &[&["spec"], &["metadata", "labels"]],
    hidden_annotations: &[ROLLBACK_TO],
    ..Facts::WITH_STATUS
};

impl Strategy for Deployment {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        shared::default_template(object);
        if object.str_at(&["spec", "strategy", "type"]) == "RollingUpdate" {
            for field in ["maxUnavailable", "maxSurge"] {
                object.set_default(&["spec", "strategy", "rollingUpdate", field], "25%");
            }
        }
        if object.annotation(ROLLBACK_TO) == Some("") {
            object.remove(&["metadata", "annotations", ROLLBACK_TO]);
        }
    }

    fn check_conversion(&self, object: &Value) -> Result<(), Error> {
        rollback_to(object)?;
        Ok(())
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
        new.keep(&["metadata", "labels"], old);
        let terminating = ["status", "terminatingReplicas"];
        if !cx.features.enabled("DeploymentReplicaSetTerminatingReplicas") && old.at(&terminating).is_null() {
            new.remove(&terminating);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        shared::not_negative(&status, &counts, errors);
        for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
            shared::at_most(&status, field, "replicas", MORE_THAN_REPLICAS, errors);
        }
        let more_than_ready = "cannot be greater than readyReplicas";
        shared::at_most(&status, "availableReplicas", "readyReplicas", more_than_ready, errors);
        shared::collisions_only_grow(new, old, errors);
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
        let count = |field| shared::number(object, &["status", field]);
        let ready = format!("{}/{}", count("readyReplicas"), shared::number(object, &["spec", "replicas"]));
        let (containers, images) = columns::containers(object.at(&TEMPLATE).field("spec"));
        let selected = selector::compile(object.at(&["spec", "selector"]));
        vec![
            object.name().into(),
            ready.into(),
            count("updatedReplicas").into(),
            count("availableReplicas").into(),
            cells::age(cx, object),
            containers.into(),
            images.into(),
            selected.map_or_else(|_| "<invalid>".to_string(), |selector| selector.to_string()).into(),
        ]
    }
}

/// The revision in the annotation. Anything but a number in it could not be read back by other API servers.
fn rollback_to(object: &Value) -> Result<Option<i64>, Status> {
    let Some(text) = object.annotation(ROLLBACK_TO) else { return Ok(None) };
    shared::parse_int(text).map(Some).map_err(|why| {
        let why = format!("failed to parse annotation[{ROLLBACK_TO}]={text} as int64: {why}");
        shared::undecodable("Deployment", &why)
    })
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let spec = object.field("spec");
    spec.field("replicas").non_negative(errors);
    shared::validate_selector(&spec, "deployment", errors);
    shared::validate_replicated(&spec, &shared::template_options(cx, object, old), errors);
    validate_strategy(&spec.field("strategy"), errors);
    let (ready, deadline) = (spec.field("minReadySeconds"), spec.field("progressDeadlineSeconds"));
    ready.non_negative(errors);
    spec.field("revisionHistoryLimit").non_negative(errors);
    if let Ok(Some(revision)) = rollback_to(object.value())
        && revision < 0
    {
        errors.invalid(&Path::of("spec.rollback.version"), revision, checks::IS_NEGATIVE);
    }
    deadline.non_negative(errors);
    if deadline.opt_int().is_some_and(|seconds| seconds <= ready.int()) {
        deadline.invalid(errors, "must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: &Cursor, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "Recreate" if rolling.is_set() => {
            rolling.forbidden(errors, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            rolling.required(errors, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            percent::validate(&unavailable, errors);
            percent::validate(&surge, errors);
            if percent::is_zero(&unavailable) && percent::is_zero(&surge) {
                unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
            }
            percent::at_most_everything(&unavailable, errors);
        }
        _ => {
            let shown = internal::shown("DeploymentStrategy", strategy.value());
            errors.not_supported(strategy.path(), shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

#[cfg(test)]
mod tests;
