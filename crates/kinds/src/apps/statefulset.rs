//! Stateful sets: pods with names and volumes of their own.

use object::{Cursor, Errors, Map, Meta, Path, Value, names, value};
use registry::{Context, Facts, Strategy, columns as cells};

use super::shared::{self, MORE_THAN_REPLICAS, TEMPLATE};
use crate::common::checks::{Checks, IMMUTABLE, immutable_text};
use crate::common::pod_spec::warnings::claim_fractions;
use crate::common::pod_spec::{self, PodValidationOptions};
use crate::common::{claim, columns, internal, metadata, percent, pod_template, selector, versioned};

const SPEC: &str = "io.k8s.api.apps.v1.StatefulSetSpec";
const CLAIMS: &str = "[]PersistentVolumeClaim";
const ONLY_ROLLING: &str = "only allowed for updateStrategy 'RollingUpdate'";

pub struct StatefulSet;

const FACTS: Facts = Facts {
    name: names::name_is_dns_label,
    generation: Some(|new, old| !versioned::same(SPEC, new.field("spec"), old.field("spec"))),
    ..Facts::WITH_STATUS
};

impl Strategy for StatefulSet {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        shared::default_template(object);
        if let Some(spec) = object.get_mut("spec") {
            default_update_strategy(spec);
        }
        // Claims in a list of templates say what they are, whether or not the client did.
        let claims = object.at_mut(&["spec", "volumeClaimTemplates"]).and_then(Value::as_list_mut);
        for claim in claims.into_iter().flatten() {
            claim.set(&["apiVersion"], "v1");
            claim.set(&["kind"], "PersistentVolumeClaim");
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_max_unavailable(cx, object, &Value::Null);
        shared::drop_disabled(cx, object, None);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_max_unavailable(cx, new, old);
        shared::drop_disabled(cx, new, Some(old));
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let tolerated =
            Tolerated { recreate: cx.features.enabled("StatefulSetRecreateStrategy"), ..Tolerated::default() };
        let options = shared::template_options(cx, object, None);
        validate_spec(cx, &object.field("spec"), &options, tolerated, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let options = shared::template_options(cx, new, Some(old));
        let mut tolerated = Tolerated {
            service_name: true,
            claims: true,
            recreate: cx.features.enabled("StatefulSetRecreateStrategy")
                || old.at(&["spec", "updateStrategy", "type"]).str() == "Recreate",
            template: false,
        };
        // What was wrong before may stay.
        let mut problems = Errors::new();
        validate_spec(cx, &old.field("spec"), &options, tolerated, &mut problems);
        tolerated.template = !problems.is_empty();
        validate_spec(cx, &new.field("spec"), &options, tolerated, errors);
        shared::selector_stays(new, old, errors);
        let (claims, old_claims) =
            (new.at(&["spec", "volumeClaimTemplates"]), old.at(&["spec", "volumeClaimTemplates"]));
        if !internal::same(CLAIMS, claims.value(), old_claims.value()) {
            claims.invalid_as(errors, internal::shown(CLAIMS, claims.value()), IMMUTABLE);
        }
        for field in ["serviceName", "podManagementPolicy"] {
            immutable_text(&new.at(&["spec", field]), &old.at(&["spec", field]), errors);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        shared::not_negative(&status, &counts, errors);
        for field in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
            shared::at_most(&status, field, "replicas", MORE_THAN_REPLICAS, errors);
        }
        let more_than_ready = "cannot be greater than status.readyReplicas";
        shared::at_most(&status, "availableReplicas", "readyReplicas", more_than_ready, errors);
        shared::collisions_only_grow(new, old, errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = match old {
            Some(old) if old.generation() == object.generation() => Vec::new(),
            old => shared::template_warnings(cx, object, old),
        };
        for (i, claim) in object.list_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
            // Upstream's path leaves the claim's spec out on a create, and has it in capitals on an update.
            let mut path = Path::of("spec.volumeClaimTemplates").index(i);
            if old.is_some() {
                path = path.field("Spec");
            }
            claim_fractions(&Cursor::new(claim.field("spec"), path), &mut warnings);
        }
        if object.at(&["spec", "revisionHistoryLimit"]).as_int().is_some_and(|limit| limit < 0) {
            let what = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {what}"));
        }
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (ready, wanted) = (["status", "readyReplicas"], ["spec", "replicas"]);
        let ready = format!("{}/{}", shared::number(object, &ready), shared::number(object, &wanted));
        let (containers, images) = columns::containers(object.at(&TEMPLATE).field("spec"));
        vec![object.name().into(), ready.into(), cells::age(cx, object), containers.into(), images.into()]
    }
}

/// What an update lets pass because it was there before.
#[derive(Clone, Copy, Default)]
struct Tolerated {
    service_name: bool,
    template: bool,
    claims: bool,
    recreate: bool,
}

fn default_update_strategy(spec: &mut Value) {
    if spec.str_at(&["updateStrategy", "type"]).is_empty() {
        spec.set(&["updateStrategy", "type"], "RollingUpdate");
        spec.set_default(&["updateStrategy", "rollingUpdate"], Map::new());
    }
    let is_rolling = spec.str_at(&["updateStrategy", "type"]) == "RollingUpdate";
    if is_rolling && !spec.at(&["updateStrategy", "rollingUpdate"]).is_null() {
        spec.set_default(&["updateStrategy", "rollingUpdate", "partition"], 0);
        // It goes again when its feature is off.
        spec.set_default(&["updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
    }
}

fn drop_max_unavailable(cx: &Context, new: &mut Value, old: &Value) {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    if !cx.features.enabled("MaxUnavailableStatefulSet") && old.at(&path).is_null() {
        new.remove(&path);
    }
}

fn validate_spec(
    cx: &Context,
    spec: &Cursor,
    options: &PodValidationOptions,
    tolerated: Tolerated,
    errors: &mut Errors,
) {
    validate_policies(spec, tolerated, errors);
    if !tolerated.claims {
        let options = claim::ClaimValidationOptions::for_template(cx, None);
        for claim in spec.field("volumeClaimTemplates").each() {
            claim::spec(&claim.field("spec"), options, errors);
        }
    }
    spec.field("replicas").non_negative(errors);
    spec.field("minReadySeconds").non_negative(errors);
    spec.at(&["ordinals", "start"]).non_negative(errors);
    let service = spec.field("serviceName");
    if !tolerated.service_name && !service.is_empty() {
        service.check(errors, names::dns1123_label);
    }
    shared::validate_selector(spec, "statefulset", errors);
    if let Some(selector) = shared::compiled(spec, errors, "") {
        let checked = template_to_check(spec);
        let template = Cursor::new(&checked, spec.path().field("template"));
        shared::must_match(&selector, &template, errors);
        validate_template(&template, options, tolerated, errors);
    }
    shared::runs_for_ever(&spec.field("template"), "StatefulSet", errors);
}

fn validate_policies(spec: &Cursor, tolerated: Tolerated, errors: &mut Errors) {
    let management = spec.field("podManagementPolicy");
    if management.require(errors) && !matches!(management.str(), "OrderedReady" | "Parallel") {
        management.bad(errors, "must be 'OrderedReady' or 'Parallel'");
    }
    validate_update_strategy(&spec.field("updateStrategy"), tolerated, errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for field in ["whenDeleted", "whenScaled"] {
            retention.field(field).one_of(errors, &["Retain", "Delete"]);
        }
    }
}

fn validate_update_strategy(strategy: &Cursor, tolerated: Tolerated, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "" => strategy.required(errors, ""),
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        kind if kind == "OnDelete" || (kind == "Recreate" && tolerated.recreate) => {
            if rolling.is_set() {
                let shown = internal::shown("RollingUpdateStatefulSetStrategy", rolling.value());
                rolling.invalid_as(errors, shown, ONLY_ROLLING);
            }
        }
        _ => {
            let shown = internal::shown("StatefulSetUpdateStrategy", strategy.value());
            let detail = match tolerated.recreate {
                true => "must be 'RollingUpdate', 'OnDelete', or 'Recreate'",
                false => "must be 'RollingUpdate' or 'OnDelete'",
            };
            strategy.invalid_as(errors, shown, detail);
        }
    }
}

fn validate_rolling_update(rolling: &Cursor, errors: &mut Errors) {
    rolling.field("partition").non_negative(errors);
    let unavailable = rolling.field("maxUnavailable");
    if !unavailable.is_set() {
        return;
    }
    percent::validate(&unavailable, errors);
    if percent::is_zero(&unavailable) {
        unavailable.invalid(errors, "cannot be 0");
    }
    percent::at_most_everything(&unavailable, errors);
}

/// The template as its pods will have it: the controller sets their hostname and subdomain, and adds their claims as
/// volumes, in place of the template's own of the same name.
fn template_to_check(spec: &Cursor) -> Value {
    let mut template = spec.field("template").value().clone();
    let claims = spec.field("volumeClaimTemplates");
    template.remove(&["spec", "subdomain"]);
    template.remove(&["spec", "hostname"]);
    if claims.is_empty() {
        return template;
    }
    let mut names: Vec<&str> = claims.each().map(|claim| claim.at(&["metadata", "name"]).str()).collect();
    names.sort_unstable();
    names.dedup();
    let from_claim = |name: &&str| value!({"name": (*name), "persistentVolumeClaim": {"claimName": (*name)}});
    let mut volumes: Vec<Value> = names.iter().map(from_claim).collect();
    let others = template.list_at(&["spec", "volumes"]).iter();
    volumes.extend(others.filter(|volume| !names.contains(&volume.str_at(&["name"]))).cloned());
    template.set(&["spec", "volumes"], volumes);
    template
}

/// Upstream checks the metadata of the template twice.
fn validate_template(template: &Cursor, options: &PodValidationOptions, tolerated: Tolerated, errors: &mut Errors) {
    if !tolerated.template {
        pod_template::validate(template, options, errors);
    }
    let at = |field: &'static str| Cursor::new(template.at(&["metadata", field]).value(), template.path().field(field));
    selector::labels(&at("labels"), errors);
    metadata::annotations(&at("annotations"), errors);
    pod_spec::annotations::validate(&at("annotations"), &template.field("spec"), options, errors);
}

#[cfg(test)]
mod tests;
