//! Resources of a pod as a whole: what is not said follows from the containers.

use object::Value;
use registry::Context;

use crate::common::pod_spec::resources::list;
use crate::common::pod_spec::usage::{Amounts, of_containers, of_list};
use crate::common::pod_spec::visit::container_values;
use crate::common::resources::{is_huge_page, is_overcommit_allowed, is_pod_level};

/// Completes the resources of a pod that says something about them.
pub fn default(cx: &Context, spec: &mut Value) {
    let on = ["PodLevelResources", "PodLevelResourcesFixDefaulting"].iter().all(|gate| cx.features.enabled(gate));
    let (mut requests, mut limits) = of_pod(spec);
    if !on || (requests.is_empty() && limits.is_empty()) {
        return;
    }
    let (asked, allowed) = (of_containers(spec, "requests"), of_containers(spec, "limits"));
    for (name, amount) in allowed.iter().filter(|(name, _)| is_huge_page(name)) {
        if !requests.contains_key(name) {
            limits.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
    for (name, amount) in asked.iter().filter(|(name, _)| is_pod_level(name) && is_overcommit_allowed(name)) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    // A limit follows only where every container has one.
    for (name, request) in requests.iter().filter(|(name, _)| is_pod_level(name)) {
        let all_limited =
            container_values(spec).all(|container| !container.at(&["resources", "limits", name]).is_null());
        if let Some(limit) = allowed.get(name).filter(|_| all_limited && !limits.contains_key(name)) {
            limits.insert(name.clone(), limit.max(request).clone());
        }
    }
    for (which, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty() {
            spec.set(&["resources", which], list(amounts));
        }
    }
}

fn of_pod(spec: &Value) -> (Amounts, Amounts) {
    let of = |which| of_list(spec.at(&["resources", which]));
    (of("requests"), of("limits"))
}

/// Clients that do not know a pod's own resources must not take them away.
pub fn keep(cx: &Context, new: &mut Value, old: &Value) {
    const RESOURCES: [&str; 2] = ["spec", "resources"];
    if cx.features.enabled("PodLevelResourcesFixDefaulting") && new.at(&RESOURCES).is_null() {
        new.keep(&RESOURCES, old);
    }
}
