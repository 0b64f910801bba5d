//! A node's pods: it may create and delete mirrors of what it runs by itself, report on its pods and evict them.

use object::{Meta, Status, Value, quote};

use super::{MIRROR, Request};
use crate::Operation;

pub fn check(request: &Request<'_>) -> Result<(), Status> {
    match request.attributes.subresource {
        "" => check_pod(request),
        "status" => check_status(request),
        "eviction" => check_eviction(request),
        other => request
            .refuse(format!("unexpected pod subresource {}, only 'status' and 'eviction' are allowed", quote(other))),
    }
}

fn check_pod(request: &Request<'_>) -> Result<(), Status> {
    let node = quote(request.node);
    match request.operation() {
        Operation::Create => check_mirror(request),
        Operation::Delete if request.old.str_at(&["spec", "nodeName"]) == request.node => Ok(()),
        Operation::Delete => {
            request.refuse(format!("node {node} can only delete pods with spec.nodeName set to itself"))
        }
        other => request.refuse(format!(
            "unexpected operation \"{}\", node {node} can only create and delete mirror pods",
            other.as_str()
        )),
    }
}

fn check_mirror(request: &Request<'_>) -> Result<(), Status> {
    let (pod, node) = (request.object, quote(request.node));
    if pod.annotation(MIRROR).is_none() {
        let why = format!("pod does not have \"{MIRROR}\" annotation, node {node} can only create mirror pods");
        return request.refuse(why);
    }
    if pod.str_at(&["spec", "nodeName"]) != request.node {
        return request.refuse(format!("node {node} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match pod.owner_references() {
        [owner] => owner,
        [] => return request.refuse(format!("node {node} can only create pods with an owner reference set to itself")),
        _ => {
            let why = format!("node {node} can only create pods with a single owner reference set to itself");
            return request.refuse(why);
        }
    };
    check_owner(request, owner)?;
    match references(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => request.refuse(format!("node {node} can not create pods that reference {what}")),
        Err(why) => request.refuse(format!("error checking mirror pod for API references: {why}")),
    }
}

fn check_owner(request: &Request<'_>, owner: &Value) -> Result<(), Status> {
    let node = quote(request.node);
    let text = |field: &str| owner.str_at(&[field]);
    if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", request.node) {
        return request.refuse(format!("node {node} can only create pods with an owner reference set to itself"));
    }
    if owner.field("controller").as_bool() != Some(true) {
        let why = format!("node {node} can only create pods with a controller owner reference set to itself");
        return request.refuse(why);
    }
    if owner.field("blockOwnerDeletion").as_bool() == Some(true) {
        return request.refuse(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
    }
    let found = request.lookup("nodes", "", request.node)?;
    if found.uid() == text("uid") {
        return Ok(());
    }
    request.refuse(format!("node {} UID mismatch: expected {} got {}", request.node, text("uid"), found.uid()))
}

fn check_status(request: &Request<'_>) -> Result<(), Status> {
    let (new, old, node) = (request.object, request.old, quote(request.node));
    if request.operation() != Operation::Update {
        return request.refuse(format!("unexpected operation \"{}\"", request.operation().as_str()));
    }
    if old.str_at(&["spec", "nodeName"]) != request.node {
        let why = format!("node {node} can only update pod status for pods with spec.nodeName set to itself");
        return request.refuse(why);
    }
    let differs = |path: &[&str]| {
        let (new, old) = (new.at(path), old.at(path));
        new != old && !(new.is_empty() && old.is_empty())
    };
    if differs(&["metadata", "labels"]) {
        return request.refuse(format!("node {node} cannot update labels through pod status"));
    }
    for (field, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
    ] {
        if differs(&["status", field]) {
            return request.refuse(format!("node {node} cannot update {what}"));
        }
    }
    Ok(())
}

fn check_eviction(request: &Request<'_>) -> Result<(), Status> {
    if request.operation() != Operation::Create {
        return request.refuse(format!("unexpected operation {}", request.operation().as_str()));
    }
    let name = match (request.attributes.name, request.object.name()) {
        ("", "") => return request.refuse("could not determine pod from request data"),
        ("", name) | (name, _) => name,
    };
    let pod = request.lookup("pods", request.attributes.cx.namespace, name)?;
    if pod.str_at(&["spec", "nodeName"]) == request.node {
        return Ok(());
    }
    request.refuse(format!("node {} can only evict pods with spec.nodeName set to itself", request.node))
}

/// Volumes that need no other object; a mirror of what a node runs by itself may not reach into the API.
const LOCAL_VOLUMES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

const API_VOLUMES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

const PROJECTIONS: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Which kind of object a pod refers to.
fn references(pod: &Value) -> Result<Option<&'static str>, String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if super::super::service_account::uses_secrets(pod) {
        return Ok(Some("secrets"));
    }
    if uses_config_maps(pod) {
        return Ok(Some("configmaps"));
    }
    if !pod.list_at(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in pod.list_at(&["spec", "volumes"]) {
        let has = |field: &str| !volume.field(field).is_null();
        if LOCAL_VOLUMES.iter().any(|field| has(field)) {
            continue;
        }
        if let Some((_, what)) = API_VOLUMES.iter().find(|(field, _)| has(field)) {
            return Ok(Some(what));
        }
        if !has("projected") {
            return Err(format!("unknown volume type for volume  {}", quote(volume.str_at(&["name"]))));
        }
        for source in volume.list_at(&["projected", "sources"]) {
            if let Some((_, what)) = PROJECTIONS.iter().find(|(field, _)| !source.field(field).is_null()) {
                return Ok(Some(what));
            }
            if source.field("downwardAPI").is_null() {
                return Err(format!("unknown source for projected volume {}", quote(volume.str_at(&["name"]))));
            }
        }
    }
    Ok(None)
}

fn uses_config_maps(pod: &Value) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"].map(|field| pod.list_at(&["spec", field]));
    let in_environment = containers.into_iter().flatten().any(|container| {
        container.list_at(&["env"]).iter().any(|env| !env.at(&["valueFrom", "configMapKeyRef"]).is_null())
            || container.list_at(&["envFrom"]).iter().any(|env| !env.field("configMapRef").is_null())
    });
    let in_volumes = pod.list_at(&["spec", "volumes"]).iter().any(|volume| {
        let projected = volume.list_at(&["projected", "sources"]);
        !volume.field("configMap").is_null() || projected.iter().any(|source| !source.field("configMap").is_null())
    });
    in_environment || in_volumes
}
