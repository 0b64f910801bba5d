//! A node's own object, and the claims whose volumes it grows.

use std::collections::BTreeSet;

use object::{Meta, Status, Value, quote};

use super::Request;
use crate::Operation;

pub fn check(request: &Request<'_>) -> Result<(), Status> {
    let (new, old, node) = (request.object, request.old, quote(request.node));
    let name = request.attributes.name;
    if name != request.node {
        return request.refuse(format!("node {node} is not allowed to modify node {}", quote(name)));
    }
    let config = ["spec", "configSource"];
    match request.operation() {
        Operation::Create => {
            if !new.at(&config).is_null() {
                return request
                    .refuse(format!("node {node} is not allowed to create pods with a non-nil configSource"));
            }
            let labels = forbidden_labels(new, &Value::Null);
            if !labels.is_empty() {
                let why = format!("node {node} is not allowed to set the following labels: {}", labels.join(", "));
                return request.refuse(why);
            }
        }
        Operation::Update => {
            if !new.at(&config).is_null() && new.at(&config) != old.at(&config) {
                return request.refuse(format!(
                    "node {node} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            let differs = |path: &[&str]| {
                let (new, old) = (new.at(path), old.at(path));
                new != old && !(new.is_empty() && old.is_empty())
            };
            if differs(&["spec", "taints"]) {
                return request.refuse(format!("node {node} is not allowed to modify taints"));
            }
            if differs(&["metadata", "ownerReferences"]) {
                return request.refuse(format!("node {node} is not allowed to modify ownerReferences"));
            }
            let labels = forbidden_labels(new, old);
            if !labels.is_empty() {
                return request.refuse(format!("is not allowed to modify labels: {}", labels.join(", ")));
            }
        }
        _ => {}
    }
    Ok(())
}

const KUBELET_LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Changed labels that kubelets may not set: those of Kubernetes, with a few exceptions.
fn forbidden_labels<'a>(new: &'a Value, old: &'a Value) -> Vec<&'a str> {
    let changed = |from: &'a Value, to: &'a Value| {
        from.labels().filter(|(key, value)| to.label(key) != Some(value)).map(|(key, _)| key)
    };
    let changed: BTreeSet<&str> = changed(new, old).chain(changed(old, new)).collect();
    changed.into_iter().filter(|key| is_restricted(key) || (is_kubernetes(key) && !is_kubelets(key))).collect()
}

fn within(key: &str, domain: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|start| start.ends_with('.'))
}

fn is_restricted(key: &str) -> bool {
    within(key, "node-restriction.kubernetes.io")
}

fn is_kubernetes(key: &str) -> bool {
    within(key, "kubernetes.io") || within(key, "k8s.io")
}

fn is_kubelets(key: &str) -> bool {
    KUBELET_LABELS.contains(&key) || within(key, "kubelet.kubernetes.io") || within(key, "node.kubernetes.io")
}

/// A node reports how far the growth of a claim's volume is, and nothing else.
pub fn check_claim(request: &Request<'_>) -> Result<(), Status> {
    if request.attributes.subresource != "status" {
        return request.refuse("may only update PVC status");
    }
    if request.operation() != Operation::Update {
        return request.refuse(format!("unexpected operation \"{}\"", request.operation().as_str()));
    }
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        for field in ["resourceVersion", "managedFields"] {
            claim.remove(&["metadata", field]);
        }
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            claim.remove(&["status", field]);
        }
        claim
    };
    if rest(request.object) == rest(request.old) {
        return Ok(());
    }
    request.refuse(format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions",
        quote(request.node)
    ))
}
