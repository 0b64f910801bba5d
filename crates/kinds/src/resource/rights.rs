//! Who may say what in the status of a claim: the binder of claims, and drivers about their own devices.

use std::collections::{BTreeMap, BTreeSet};

use object::{Errors, Path, Value, names};
use registry::Context;
use request::{Access, User};

use super::status;
use crate::common::versioned;

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const ALLOCATION: &str = "io.k8s.api.resource.v1.AllocationResult";
const CONSUMER: &str = "io.k8s.api.resource.v1.ResourceClaimConsumerReference";
const DEVICE: &str = "io.k8s.api.resource.v1.AllocatedDeviceStatus";

/// Checks a prepared status against the one before.
pub async fn authorize(cx: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    status::authorize_admin(cx, new, old, errors);
    if !cx.features.enabled("DRAResourceClaimGranularStatusAuthorization") {
        return;
    }
    let (new, old) = (new.field("status"), old.field("status"));
    authorize_binding(cx, new, old, errors).await;
    if cx.features.enabled("DRAResourceClaimDeviceStatus") && !new.field("allocation").is_null() {
        authorize_devices(cx, new, old, errors).await;
    }
}

/// A verb on a virtual subresource of all claims.
fn access<'a>(cx: &Context<'a>, verb: &'a str, subresource: &'a str) -> Access<'a> {
    let (group, version) = (cx.group, cx.version);
    Access { group, version, resource: "resourceclaims", subresource, ..Access::to_resource(cx.user, verb) }
}

async fn check(cx: &Context<'_>, access: &Access<'_>) -> Result<(), String> {
    cx.lookup.may(access).await.map_err(|reason| access.refusal(&reason).message)
}

/// Schedulers bind claims of all namespaces, so that is what they need the right to.
async fn authorize_binding(cx: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let same = |field: &str, kind: &str| versioned::same(kind, new.field(field), old.field(field));
    if same("allocation", ALLOCATION) && same_list(CONSUMER, new.field("reservedFor"), old.field("reservedFor")) {
        return;
    }
    if let Err(why) = check(cx, &access(cx, cx.verb, "binding")).await {
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{}\" permission: {why}",
            cx.verb
        );
        errors.forbidden(&Path::of("status.allocation"), detail);
    }
}

fn same_list(kind: &str, new: &Value, old: &Value) -> bool {
    let (new, old) = (new.as_list().unwrap_or_default(), old.as_list().unwrap_or_default());
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| versioned::same(kind, new, old))
}

/// Each driver whose devices are written about is a right of its own; a driver's agent on the node where the devices are
/// needs less than one that is anywhere.
async fn authorize_devices(cx: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let anywhere = format!("arbitrary-node:{}", cx.verb);
    let on_the_node = format!("associated-node:{}", cx.verb);
    let verbs = if is_on_node(cx.user, node_of(new.field("allocation"))) {
        vec![on_the_node, anywhere]
    } else {
        vec![anywhere]
    };
    for driver in changed_drivers(new, old) {
        let mut refusal = None;
        for verb in &verbs {
            let access = Access { namespace: cx.namespace, name: driver, ..access(cx, verb, "driver") };
            match check(cx, &access).await {
                Ok(()) => {
                    refusal = None;
                    break;
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        if let Some(why) = refusal {
            let detail = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                verbs.join(" ")
            );
            errors.forbidden(&Path::of("status.devices"), detail);
        }
    }
}

/// The drivers about whose devices something was added, changed or taken away.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let driver = |device: &'a Value| device.str_at(&["driver"]);
    let mut before: BTreeMap<String, &Value> =
        old.list_at(&["devices"]).iter().map(|device| (status::id(device), device)).collect();
    let mut changed = BTreeSet::new();
    for device in new.list_at(&["devices"]) {
        match before.remove(&status::id(device)) {
            Some(known) if versioned::same(DEVICE, known, device) => {}
            _ => {
                changed.insert(driver(device));
            }
        }
    }
    changed.extend(before.into_values().map(driver));
    changed
}

/// The one node that an allocation is for, "" if there is not exactly one.
fn node_of(allocation: &Value) -> &str {
    let [term] = allocation.list_at(&["nodeSelector", "nodeSelectorTerms"]) else { return "" };
    let ([], [field]) = (term.list_at(&["matchExpressions"]), term.list_at(&["matchFields"])) else { return "" };
    let is_name = field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In";
    match field.list_at(&["values"]) {
        [name] if is_name => name.as_str().unwrap_or(""),
        _ => "",
    }
}

/// Whether this is a service account whose token belongs to a pod on that node.
fn is_on_node(user: &User, node: &str) -> bool {
    let told = user.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, values)| values.as_slice());
    let [name] = told.unwrap_or_default() else { return false };
    !node.is_empty()
        && name == node
        && user.service_account().is_some()
        && names::name_is_dns_subdomain(name, false).is_empty()
}

#[cfg(test)]
mod tests;
