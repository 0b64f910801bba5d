//! Defaults of a pod spec that depend on other fields. They run on every decode, so all of them are idempotent.

use object::Value;

use super::visit::{change_containers, change_each};
use super::{resources, volumes};
use crate::common::image;

/// Fills a pod spec, in a pod or in a template.
pub fn default(spec: &mut Value) {
    if !matches!(spec, Value::Map(_)) {
        return;
    }
    service_account(spec);
    change_containers(spec, container);
    change_each(spec, "volumes", volume);
    for list in [&["overhead"][..], &["resources", "limits"], &["resources", "requests"]] {
        if let Some(list) = spec.at_mut(list) {
            resources::round_up(list);
        }
    }
}

/// The account has two fields, of which `serviceAccountName` counts.
fn service_account(spec: &mut Value) {
    let name = match spec.str_at(&["serviceAccountName"]) {
        "" => spec.str_at(&["serviceAccount"]).to_string(),
        name => name.to_string(),
    };
    if !name.is_empty() {
        spec.set(&["serviceAccountName"], name.as_str());
        spec.set(&["serviceAccount"], name);
    } else {
        spec.remove(&["serviceAccount"]);
    }
}

fn container(container: &mut Value) {
    if container.str_at(&["imagePullPolicy"]).is_empty() {
        let policy = image::default_pull_policy(container.str_at(&["image"]));
        container.set(&["imagePullPolicy"], policy);
    }
    for which in ["limits", "requests"] {
        if let Some(list) = container.at_mut(&["resources", which]) {
            resources::round_up(list);
        }
    }
}

fn volume(volume: &mut Value) {
    if !volumes::has_source(volume) {
        volume.set(&["emptyDir"], Value::map());
    }
    if !volume.field("image").is_null() && volume.str_at(&["image", "pullPolicy"]).is_empty() {
        let policy = image::default_pull_policy(volume.str_at(&["image", "reference"]));
        volume.set(&["image", "pullPolicy"], policy);
    }
    for which in ["limits", "requests"] {
        if let Some(list) = volume.at_mut(&["ephemeral", "volumeClaimTemplate", "spec", "resources", which]) {
            resources::round_up(list);
        }
    }
}

/// Fills what only real pods have: requests from limits, host ports on the host's network.
pub fn default_pod(spec: &mut Value) {
    if !matches!(spec, Value::Map(_)) {
        return;
    }
    if spec.field("terminationGracePeriodSeconds").as_int().is_some_and(|seconds| seconds < 0) {
        spec.set(&["terminationGracePeriodSeconds"], 1);
    }
    spec.set_default(&["enableServiceLinks"], true);
    let host_network = spec.field("hostNetwork").as_bool() == Some(true);
    for list in ["containers", "initContainers"] {
        change_each(spec, list, |container| {
            requests_from_limits(container);
            if host_network {
                change_each(container, "ports", host_port);
            }
        });
    }
}

fn requests_from_limits(container: &mut Value) {
    let limits = container.at(&["resources", "limits"]).as_map().filter(|limits| !limits.is_empty()).cloned();
    let Some(limits) = limits else { return };
    let requests = container.slot(&["resources", "requests"]).make_map();
    for (name, limit) in limits {
        if !requests.contains_key(&name) {
            requests.insert(name, limit);
        }
    }
}

fn host_port(port: &mut Value) {
    let number = port.field("containerPort").as_int().unwrap_or(0);
    if port.field("hostPort").as_int().unwrap_or(0) == 0 && number != 0 {
        port.set(&["hostPort"], number);
    }
}
