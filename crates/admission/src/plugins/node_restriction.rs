//! NodeRestriction: a kubelet changes its own node and the pods bound to it, and nothing else.

mod nodes;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupResource, Meta, Status, Value, quote};
use request::User;

use super::certificates::subject;
use super::forbidden;
use crate::{Attributes, Host, Operation, Plugin};

pub struct NodeRestriction {
    pub server: Arc<dyn Host>,
}

const USER_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";
const MIRROR: &str = "kubernetes.io/config.mirror";

#[async_trait]
impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        self.check(attributes, Some(object), old).await
    }

    /// What is deleted is not there to be changed, so that deletions are looked at here.
    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if attributes.operation != Operation::Delete {
            return Ok(());
        }
        self.check(attributes, object, old).await
    }
}

/// A request by a node.
struct Request<'a> {
    node: &'a str,
    attributes: &'a Attributes<'a>,
    object: &'a Value,
    old: &'a Value,
}

impl NodeRestriction {
    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(node) = node_of(attributes.cx.user) else { return Ok(()) };
        if node.is_empty() {
            let user = quote(&attributes.cx.user.name);
            return Err(forbidden(attributes, format!("could not determine node from user {user}")));
        }
        let (object, old) = (object.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
        let request = Request { node, attributes, object, old };
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "pods") => pods::check(&request),
            ("", "nodes") => nodes::check(&request),
            ("", "persistentvolumeclaims") => nodes::check_claim(&request),
            ("", "serviceaccounts") => tokens::check_token(&request, &*self.server).await,
            ("certificates.k8s.io", "podcertificaterequests") => {
                tokens::check_pod_certificate(&request, &*self.server).await
            }
            ("certificates.k8s.io", "certificatesigningrequests") => request.check_certificate(),
            ("coordination.k8s.io", "leases") => request.check_lease(),
            ("storage.k8s.io", "csinodes") => request.check_csi_node(),
            ("resource.k8s.io", "resourceslices") => request.check_slice(),
            _ => Ok(()),
        }
    }
}

/// The node that a user is; None if it is something else.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix(USER_PREFIX).filter(|_| user.is_member(NODES_GROUP))
}

impl Request<'_> {
    fn refuse(&self, why: impl std::fmt::Display) -> Result<(), Status> {
        Err(forbidden(self.attributes, why))
    }

    fn operation(&self) -> Operation {
        self.attributes.operation
    }

    /// The name of what is created or changed.
    fn target(&self) -> &str {
        if self.operation() == Operation::Create { self.object.name() } else { self.attributes.name }
    }

    fn lookup(&self, resource: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let found = self.attributes.cx.lookup.get("", resource, namespace, name);
        // Upstream's caches name things in the singular.
        let singular = resource.trim_end_matches('s');
        found.ok_or_else(|| Status::not_found(&GroupResource::new("", singular), name))
    }

    fn check_lease(&self) -> Result<(), Status> {
        if self.attributes.cx.namespace != LEASES {
            return self.refuse(format!("can only access leases in the \"{LEASES}\" system namespace"));
        }
        if self.target() != self.node {
            return self.refuse("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn check_csi_node(&self) -> Result<(), Status> {
        if self.target() != self.node {
            return self.refuse("can only access CSINode with the same name as the requesting node");
        }
        if self.attributes.subresource != "status" {
            return Ok(());
        }
        if !self.attributes.cx.features.enabled("CSIVolumeHealth") {
            return self.refuse("CSIVolumeHealth feature gate is disabled");
        }
        if self.operation() != Operation::Update {
            return self.refuse(format!("unexpected operation \"{}\"", self.operation().as_str()));
        }
        if self.object.field("spec") != self.old.field("spec") {
            let node = quote(self.node);
            return self.refuse(format!("node {node} is not allowed to modify CSINode spec via status"));
        }
        Ok(())
    }

    fn check_slice(&self) -> Result<(), Status> {
        let (slice, verb) = match self.operation() {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.old, "delete"),
            _ => return Ok(()),
        };
        if slice.str_at(&["spec", "nodeName"]) == self.node {
            return Ok(());
        }
        self.refuse(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
    }

    /// Certificates for kubelets name the node they are for.
    fn check_certificate(&self) -> Result<(), Status> {
        const SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
        let features = self.attributes.cx.features;
        let for_kubelets = SIGNERS.contains(&self.object.str_at(&["spec", "signerName"]));
        if self.operation() != Operation::Create
            || !for_kubelets
            || features.enabled("AllowInsecureKubeletCertificateSigningRequests")
        {
            return Ok(());
        }
        let wanted = format!("{USER_PREFIX}{}", self.node);
        match subject(self.object) {
            Err(why) => self.refuse(format!("unable to parse csr: {why}")),
            Ok(subject) if subject.common_name == wanted => Ok(()),
            Ok(_) => self.refuse(format!("can only create a node CSR with CN={wanted}")),
        }
    }
}
