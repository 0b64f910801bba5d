//! Pod groups: pods that are scheduled together, alone or as parts of groups of groups.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::declared::SCHEDULING;
use crate::common::{conditions, metadata, named};

pub struct PodGroup;
pub struct CompositePodGroup;

const FACTS: Facts =
    Facts { allows_unconditional_update: false, status_resets: Facts::METADATA_AND_SPEC, ..Facts::WITH_STATUS };

/// Fields of a group or its template with the features they need.
pub const GATED: [(&str, &str); 4] = [
    ("schedulingConstraints", "TopologyAwareWorkloadScheduling"),
    ("resourceClaims", "DRAWorkloadResourceClaims"),
    ("preemptionPolicy", "PodGroupPreemptionPolicy"),
    ("parentCompositePodGroupName", "CompositePodGroup"),
];

impl Strategy for PodGroup {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        default_preemption(object);
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object.slot(&["spec"]), &Value::Null, &GATED);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new.slot(&["spec"]), old.field("spec"), &GATED);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        if spec.field("parentCompositePodGroupName").is_set() && !spec.field("workloadRef").is_set() {
            spec.field("workloadRef").required(errors, "must be set when parentCompositePodGroupName is set");
        }
        SCHEDULING.validate(cx, "PodGroupSpec", &spec, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        SCHEDULING.validate(cx, "PodGroupSpec", &new.field("spec"), Some(old.field("spec").value()), errors);
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
        let in_use = !old.list_at(&["spec", "resourceClaims"]).is_empty();
        if !in_use && !cx.features.enabled("DRAWorkloadResourceClaims") {
            new.remove(&["status", "resourceClaimStatuses"]);
        }
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        conditions::validate(&status.field("conditions"), errors);
        let claims = named::names(new.value().list_at(&["spec", "resourceClaims"]));
        for claim in status.field("resourceClaimStatuses").each() {
            let name = claim.field("name");
            if !claims.contains(name.str()) {
                name.bad(errors, "must match the name of an entry in `spec.resourceClaims`");
            }
        }
        SCHEDULING.validate(cx, "PodGroupStatus", &status, Some(old.field("status").value()), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let conditions = object.list_at(&["status", "conditions"]);
        let last = |kind: &str| conditions.iter().rev().find(|condition| condition.str_at(&["type"]) == kind);
        let scheduled = match last("PodGroupInitiallyScheduled").map(|condition| condition.str_at(&["status"])) {
            None => "Pending",
            Some("True") => "Scheduled",
            Some(_) => "Unschedulable",
        };
        let state = last("DisruptionTarget").map_or(scheduled, |condition| condition.str_at(&["reason"]));
        let (policy, workload) = policy_and_workload(object);
        vec![object.name().into(), policy, workload, state.into(), columns::age(cx, object)]
    }
}

impl Strategy for CompositePodGroup {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        default_preemption(object);
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object.slot(&["spec"]), &Value::Null, &GATED[2..3]);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new.slot(&["spec"]), old.field("spec"), &GATED[2..3]);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        SCHEDULING.validate(cx, "CompositePodGroupSpec", &object.field("spec"), None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        SCHEDULING.validate(cx, "CompositePodGroupSpec", &new.field("spec"), Some(old.field("spec").value()), errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        conditions::validate(&new.at(&["status", "conditions"]), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (policy, workload) = policy_and_workload(object);
        vec![object.name().into(), policy, workload, columns::age(cx, object)]
    }
}

/// Takes away fields whose feature is off, unless the old group has them.
pub fn drop_disabled(cx: &Context, new: &mut Value, old: &Value, fields: &[(&str, &str)]) {
    for (field, feature) in fields {
        if !cx.features.enabled(feature) && old.field(field).is_empty() {
            new.remove(&[field]);
        }
    }
}

/// It goes again when its feature is off.
fn default_preemption(object: &mut Value) {
    object.set_default(&["spec", "preemptionPolicy"], "PreemptLowerPriority");
}

fn policy_and_workload(object: &Value) -> (Value, Value) {
    let gang = !object.at(&["spec", "schedulingPolicy", "gang"]).is_null();
    let workload = match object.at(&["spec", "workloadRef"]) {
        Value::Null => "<none>",
        reference => reference.str_at(&["workloadName"]),
    };
    (if gang { "Gang" } else { "Basic" }.into(), workload.into())
}
