//! What a node asks for on behalf of its pods: tokens for audiences they use, and certificates they mount.

use object::{Meta, Status, Value, quote};
use request::Access;

use super::{MIRROR, Request};
use crate::plugins::plain_failure;
use crate::{Host, Operation};

pub async fn check_token(request: &Request<'_>, server: &dyn Host) -> Result<(), Status> {
    let attributes = request.attributes;
    if request.operation() != Operation::Create || attributes.subresource != "token" {
        return Ok(());
    }
    let bound = request.object.at(&["spec", "boundObjectRef"]);
    let (name, uid) = (bound.str_at(&["name"]), bound.str_at(&["uid"]));
    if bound.str_at(&["apiVersion"]) != "v1" || bound.str_at(&["kind"]) != "Pod" || name.is_empty() {
        return request.refuse("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return request.refuse("node requested token with a pod binding without a uid");
    }
    let pod = request.lookup("pods", attributes.cx.namespace, name)?;
    if pod.uid() != uid {
        return request.refuse(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod.str_at(&["spec", "nodeName"]) != request.node {
        return request.refuse("node requested token bound to a pod scheduled on a different node");
    }
    if !attributes.cx.features.enabled("ServiceAccountNodeAudienceRestriction") {
        return Ok(());
    }
    check_audience(request, server, &pod).await
}

async fn check_audience(request: &Request<'_>, server: &dyn Host, pod: &Value) -> Result<(), Status> {
    let audience = match request.object.list_at(&["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or(""),
        _ => return request.refuse("node may only request 0 or 1 audiences"),
    };
    match uses_audience(request, pod, audience) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(why) => return request.refuse(format!("error validating audience {}: {why}", quote(audience))),
    }
    let verb = "request-serviceaccounts-token-audience";
    if allowed(request, server, verb, audience, request.attributes.name).await {
        return Ok(());
    }
    let user = &request.attributes.cx.user.name;
    request.refuse(format!("{user} is not authorized to request tokens for audience {}", quote(audience)))
}

/// Whether a volume of the pod brings tokens for the audience, by itself or through its driver.
fn uses_audience(request: &Request<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut problems = Vec::new();
    for volume in pod.list_at(&["spec", "volumes"]) {
        let mut sources =
            volume.list_at(&["projected", "sources"]).iter().map(|source| source.field("serviceAccountToken"));
        if sources.any(|token| !token.is_null() && token.str_at(&["audience"]) == audience) {
            return Ok(true);
        }
        match driver(request, pod, volume).and_then(|driver| driver_uses(request, &driver, audience)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => problems.push(why),
        }
    }
    if problems.is_empty() { Ok(false) } else { Err(object::aggregate(problems)) }
}

/// Volumes of other times, and the drivers that serve them now.
const MIGRATED: &[(&str, &str)] = &[
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

fn migrated(volume: &Value) -> &'static str {
    let found = MIGRATED.iter().find(|(field, _)| !volume.field(field).is_null());
    found.map_or("", |(_, driver)| driver)
}

/// The driver of a volume, "" if there is none.
fn driver(request: &Request<'_>, pod: &Value, volume: &Value) -> Result<String, String> {
    let claim = if !volume.at(&["ephemeral", "volumeClaimTemplate"]).is_null() {
        format!("{}-{}", pod.name(), volume.str_at(&["name"]))
    } else if !volume.field("persistentVolumeClaim").is_null() {
        volume.str_at(&["persistentVolumeClaim", "claimName"]).to_string()
    } else if !volume.field("csi").is_null() {
        return Ok(volume.str_at(&["csi", "driver"]).to_string());
    } else {
        return Ok(migrated(volume).to_string());
    };
    let lookup = request.attributes.cx.lookup;
    let found = lookup.get("", "persistentvolumeclaims", pod.namespace(), &claim);
    let found = found.ok_or_else(|| format!("persistentvolumeclaim {} not found", quote(&claim)))?;
    let name = found.str_at(&["spec", "volumeName"]);
    let bound = lookup.get("", "persistentvolumes", "", name);
    let bound = bound.ok_or_else(|| format!("persistentvolume {} not found", quote(name)))?;
    match bound.str_at(&["spec", "csi", "driver"]) {
        "" => Ok(migrated(bound.field("spec")).to_string()),
        driver => Ok(driver.to_string()),
    }
}

fn driver_uses(request: &Request<'_>, driver: &str, audience: &str) -> Result<bool, String> {
    if driver.is_empty() {
        return Ok(false);
    }
    let found = request.attributes.cx.lookup.get("storage.k8s.io", "csidrivers", "", driver);
    let found = found.ok_or_else(|| format!("csidriver.storage.k8s.io {} not found", quote(driver)))?;
    let requests = found.list_at(&["spec", "tokenRequests"]);
    Ok(requests.iter().any(|request| request.str_at(&["audience"]) == audience))
}

async fn allowed(request: &Request<'_>, server: &dyn Host, verb: &str, resource: &str, name: &str) -> bool {
    let attributes = request.attributes;
    let access = Access {
        group: &attributes.resource.group,
        version: &attributes.resource.version,
        resource,
        namespace: attributes.cx.namespace,
        name,
        ..Access::to_resource(attributes.cx.user, verb)
    };
    server.allows(&access).await.is_ok()
}

pub async fn check_pod_certificate(request: &Request<'_>, server: &dyn Host) -> Result<(), Status> {
    let attributes = request.attributes;
    if !attributes.cx.features.enabled("PodCertificateRequest") {
        return request.refuse("PodCertificateRequest feature gate is disabled");
    }
    if request.operation() != Operation::Create {
        return request.refuse(format!("unexpected operation {}", request.operation().as_str()));
    }
    if !attributes.subresource.is_empty() {
        return request.refuse(format!("unexpected subresource {}", attributes.subresource));
    }
    let pod = check_named(request)?;
    let spec = request.object.field("spec");
    let (signer, account) = (spec.str_at(&["signerName"]), spec.str_at(&["serviceAccountName"]));
    let sources = pod.list_at(&["spec", "volumes"]).iter().flat_map(|volume| volume.list_at(&["projected", "sources"]));
    let mut certificates = sources.map(|source| source.field("podCertificate"));
    let mounted = certificates.any(|own| !own.is_null() && own.str_at(&["signerName"]) == signer);
    let verb = "request-serviceaccounts-podcertificate-signer";
    if mounted || allowed(request, server, verb, &signer.replace('/', ":"), account).await {
        return Ok(());
    }
    let (pod, signer) = (pod_id(request), quote(signer));
    request.refuse(format!("pod {pod} does not mount a podCertificate projected volume for signer {signer}"))
}

/// Namespace and name of the pod that a certificate is for, quoted.
fn pod_id(request: &Request<'_>) -> String {
    let name = request.object.str_at(&["spec", "podName"]);
    quote(&format!("{}/{name}", request.attributes.cx.namespace))
}

/// Everything the request names must be there and be the one that is meant: the node, the pod and its account.
fn check_named(request: &Request<'_>) -> Result<std::sync::Arc<Value>, Status> {
    let spec = request.object.field("spec");
    let text = |field: &str| spec.str_at(&[field]);
    let (namespace, id) = (request.attributes.cx.namespace, pod_id(request));
    let refuse = |why: String| request.refuse(why).map(|()| std::sync::Arc::new(Value::Null));
    let lookup = |what: &str, resource: &str, namespace: &str, name: &str, shown: &str| {
        request.lookup(resource, namespace, name).map_err(|status| {
            plain_failure(format!(
                "while retrieving {what} {shown} named in the PodCertificateRequest: {}",
                status.message
            ))
        })
    };
    if text("nodeName") != request.node {
        return refuse(format!(
            "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
            quote(text("nodeName")),
            quote(request.node)
        ));
    }
    let node = lookup("node", "nodes", "", text("nodeName"), &quote(text("nodeName")))?;
    if node.uid() != text("nodeUID") {
        return Err(plain_failure(format!(
            "PodCertificateRequest for pod {id} names node UID {}, inconsistent with the running node ({})",
            quote(text("nodeUID")),
            quote(node.uid())
        )));
    }
    let pod = lookup("pod", "pods", namespace, text("podName"), &id)?;
    if pod.uid() != text("podUID") {
        return Err(plain_failure(format!(
            "PodCertificateRequest for pod {id} contains pod UID ({}) which differs from running pod {}",
            quote(text("podUID")),
            quote(pod.uid())
        )));
    }
    if pod.str_at(&["spec", "nodeName"]) != text("nodeName") {
        let node = quote(text("nodeName"));
        return refuse(format!("pod {id} is not running on node {node} named in the PodCertificateRequest"));
    }
    if pod.annotation(MIRROR).is_some() {
        return refuse(format!("pod {id} is a mirror pod"));
    }
    let account = pod.str_at(&["spec", "serviceAccountName"]);
    if text("serviceAccountName") != account {
        return refuse(format!(
            "PodCertificateRequest for pod {id} contains serviceAccountName ({}) that differs from running pod ({})",
            quote(text("serviceAccountName")),
            quote(account)
        ));
    }
    let shown = quote(&format!("{namespace}/{account}"));
    let found = lookup("service account", "serviceaccounts", namespace, account, &shown)?;
    if found.uid() != text("serviceAccountUID") {
        return Err(plain_failure(format!(
            "PodCertificateRequest for pod {id} names service account UID {}, which differs from the running service account ({})",
            quote(text("serviceAccountUID")),
            quote(found.uid())
        )));
    }
    Ok(pod)
}
