//! What pods and volumes refer to.

use object::{Meta, Value};

use super::graph::{Kind, ObjectRef};

/// Static pods' copies in the API. A node creates those, so they must not relate it to anything.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What [`PodReferences::of`] looks at.
pub const POD_PATHS: &[&str] = &[
    "metadata.namespace",
    "metadata.name",
    "metadata.annotations",
    "spec.nodeName",
    "spec.serviceAccountName",
    "spec.imagePullSecrets",
    "spec.initContainers",
    "spec.containers",
    "spec.ephemeralContainers",
    "spec.volumes",
    "spec.resourceClaims",
    "status.resourceClaimStatuses",
    "status.extendedResourceClaimStatus",
];

/// A pod that is bound to a node.
pub struct PodReferences {
    pub node: String,
    /// Sorted, each once.
    pub targets: Vec<ObjectRef>,
}

impl PodReferences {
    /// None if the pod is not bound.
    pub fn of(pod: &Value) -> Option<PodReferences> {
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return None;
        }
        let mut targets = Vec::new();
        if pod.annotation(MIRROR).is_none() {
            collect(pod, &mut |kind, name| {
                if !name.is_empty() {
                    targets.push(ObjectRef::new(kind, pod.namespace(), name));
                }
            });
        }
        targets.sort_unstable();
        targets.dedup();
        Some(PodReferences { node: node.to_string(), targets })
    }
}

fn collect(pod: &Value, add: &mut dyn FnMut(Kind, &str)) {
    let spec = pod.field("spec");
    add(Kind::ServiceAccount, spec.str_at(&["serviceAccountName"]));
    for secret in spec.list_at(&["imagePullSecrets"]) {
        add(Kind::Secret, secret.str_at(&["name"]));
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        spec.list_at(&[containers]).iter().for_each(|container| of_container(container, add));
    }
    for volume in spec.list_at(&["volumes"]) {
        of_volume(volume, add);
        if !volume.field("ephemeral").is_null() && volume.field("persistentVolumeClaim").is_null() {
            add(Kind::Claim, &format!("{}-{}", pod.name(), volume.str_at(&["name"])));
        }
    }
    for claim in spec.list_at(&["resourceClaims"]) {
        add(Kind::ResourceClaim, resource_claim(pod, claim));
    }
    add(Kind::ResourceClaim, pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]));
}

fn of_container(container: &Value, add: &mut dyn FnMut(Kind, &str)) {
    for source in container.list_at(&["envFrom"]) {
        add(Kind::Secret, source.str_at(&["secretRef", "name"]));
        add(Kind::ConfigMap, source.str_at(&["configMapRef", "name"]));
    }
    for variable in container.list_at(&["env"]) {
        add(Kind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
        add(Kind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
    }
}

fn of_volume(volume: &Value, add: &mut dyn FnMut(Kind, &str)) {
    add(Kind::Claim, volume.str_at(&["persistentVolumeClaim", "claimName"]));
    add(Kind::ConfigMap, volume.str_at(&["configMap", "name"]));
    add(Kind::Secret, volume.str_at(&["secret", "secretName"]));
    add(Kind::Secret, volume.str_at(&["azureFile", "secretName"]));
    add(Kind::Secret, volume.str_at(&["csi", "nodePublishSecretRef", "name"]));
    for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        add(Kind::Secret, volume.str_at(&[source, "secretRef", "name"]));
    }
    for source in volume.list_at(&["projected", "sources"]) {
        add(Kind::Secret, source.str_at(&["secret", "name"]));
        add(Kind::ConfigMap, source.str_at(&["configMap", "name"]));
    }
}

/// The name of the claim; "" if it was not created yet, or never will be.
fn resource_claim<'a>(pod: &'a Value, claim: &'a Value) -> &'a str {
    let own = claim.str_at(&["resourceClaimName"]);
    if !own.is_empty() || claim.str_at(&["resourceClaimTemplateName"]).is_empty() {
        return own;
    }
    let statuses = pod.list_at(&["status", "resourceClaimStatuses"]);
    let found = statuses.iter().find(|status| status.str_at(&["name"]) == claim.str_at(&["name"]));
    found.map_or("", |status| status.str_at(&["resourceClaimName"]))
}

/// A persistent volume that is bound to a claim.
pub struct VolumeReferences {
    pub claim: ObjectRef,
    pub secrets: Vec<ObjectRef>,
}

impl VolumeReferences {
    /// None if the volume has no claim.
    pub fn of(volume: &Value) -> Option<VolumeReferences> {
        let spec = volume.field("spec");
        let claim = spec.field("claimRef");
        if claim.is_null() {
            return None;
        }
        let claim = ObjectRef::new(Kind::Claim, claim.str_at(&["namespace"]), claim.str_at(&["name"]));
        let mut secrets = Vec::new();
        let mut add = |namespace: &str, name: &str| {
            if !name.is_empty() {
                secrets.push(ObjectRef::new(Kind::Secret, namespace, name));
            }
        };
        let azure = spec.field("azureFile");
        add(or_that_of(&claim, azure.str_at(&["secretNamespace"])), azure.str_at(&["secretName"]));
        for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
            let secret = spec.at(&[source, "secretRef"]);
            add(or_that_of(&claim, secret.str_at(&["namespace"])), secret.str_at(&["name"]));
        }
        for path in [
            ["cinder", "secretRef"],
            ["storageos", "secretRef"],
            ["csi", "nodePublishSecretRef"],
            ["csi", "nodeStageSecretRef"],
            ["csi", "nodeExpandSecretRef"],
        ] {
            let secret = spec.at(&path);
            add(secret.str_at(&["namespace"]), secret.str_at(&["name"]));
        }
        Some(VolumeReferences { claim, secrets })
    }
}

/// Volumes of old objects have no namespace with their secrets; those are in the claim's.
fn or_that_of<'a>(claim: &'a ObjectRef, namespace: &'a str) -> &'a str {
    if namespace.is_empty() { &claim.namespace } else { namespace }
}
