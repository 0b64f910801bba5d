//! The mode Node: what kubelets may do. A kubelet reads what the pods bound to its node refer to, and writes what belongs to
//! its node; the admission plugin NodeRestriction checks the contents of what it writes.

mod follow;
mod graph;
mod references;

use std::sync::Arc;

use async_trait::async_trait;
use registry::Features;
use request::{Access, Rule, User};

pub use self::follow::Sources;
use self::follow::{Followed, Source};
use self::graph::{Graph, Kind, Wanted};
use crate::{Authorizer, AuthzMeters, Decision, RulesFor};

/// The group of all kubelets, and how their names begin.
const NODES: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";
/// Where nodes have their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Authorizes requests of kubelets.
pub struct Node {
    graph: Followed,
    /// What any node may do to resources that are not divided between nodes.
    rules: Vec<Rule>,
    gates: Gates,
}

struct Gates {
    pod_certificates: bool,
    read_service_accounts: bool,
    volume_health: bool,
}

impl Node {
    pub fn new(sources: Sources, rules: Vec<Rule>, features: &Features, meters: Arc<AuthzMeters>) -> Node {
        let pod_certificates = features.enabled("PodCertificateRequest");
        let gates = Gates {
            pod_certificates,
            read_service_accounts: pod_certificates
                || features.enabled("KubeletServiceAccountTokenForCredentialProviders"),
            volume_health: features.enabled("CSIVolumeHealth"),
        };
        Node { graph: Followed::new(sources, meters), rules, gates }
    }

    /// Brings the graph up to date. Decisions do so too; calling this from time to time keeps what they have to do short.
    pub fn catch_up(&self) {
        self.graph.catch_up();
    }

    /// Whether objects have changed since the graph was brought up to date.
    pub fn is_behind(&self) -> bool {
        self.graph.is_behind()
    }

    fn judge(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        if access.is_resource {
            match (access.group, access.resource) {
                ("", "secrets") => return self.read(node, Kind::Secret, access),
                ("", "configmaps") => return self.read(node, Kind::ConfigMap, access),
                ("", "persistentvolumeclaims") if access.subresource == "status" => {
                    return self.update_claim_status(node, access);
                }
                ("", "persistentvolumeclaims") => {
                    return self.get(access, |graph| reaches(graph, Kind::Claim, node, access));
                }
                ("", "persistentvolumes") => {
                    return self.get(access, |graph| self.graph.uses_volume(graph, access, node));
                }
                ("resource.k8s.io", "resourceclaims") => {
                    return self.get(access, |graph| reaches(graph, Kind::ResourceClaim, node, access));
                }
                ("storage.k8s.io", "volumeattachments") => {
                    return self.get(access, |graph| self.graph.owns(graph, Source::Attachments, access, node));
                }
                ("", "serviceaccounts") => return self.service_account(node, access),
                ("coordination.k8s.io", "leases") => return lease(node, access),
                ("storage.k8s.io", "csinodes") => return self.csi_node(node, access),
                ("resource.k8s.io", "resourceslices") => return self.resource_slice(node, access),
                ("", "nodes") => return own_node(node, access),
                ("", "pods") => return self.pod(node, access),
                ("certificates.k8s.io", "podcertificaterequests") => return self.pod_certificate(node, access),
                _ => {}
            }
        }
        if self.rules.iter().any(|rule| rule.allows(access)) { Ok(()) } else { no("") }
    }

    /// Allows if the object is related to the node.
    fn related(&self, access: &Access<'_>, is_related: impl FnOnce(&Graph) -> bool) -> Result<(), String> {
        if access.name.is_empty() {
            return no("No Object name found");
        }
        if is_related(&self.graph.read()) { Ok(()) } else { Err(unrelated(access)) }
    }

    fn get(&self, access: &Access<'_>, is_related: impl FnOnce(&Graph) -> bool) -> Result<(), String> {
        if access.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !access.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(access, is_related)
    }

    /// Reads of one object in a namespace; a list or watch names it with a field selector.
    fn read(&self, node: &str, kind: Kind, access: &Access<'_>) -> Result<(), String> {
        if !matches!(access.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !access.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if access.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(access, |graph| reaches(graph, kind, node, access))
    }

    fn update_claim_status(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        if !matches!(access.verb, "update" | "patch") {
            return no("can only get/update/patch this type");
        }
        self.related(access, |graph| reaches(graph, Kind::Claim, node, access))
    }

    fn service_account(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        if access.verb == "get" && access.subresource.is_empty() {
            if !self.gates.read_service_accounts {
                return no("not allowed to get service accounts");
            }
            return self.read(node, Kind::ServiceAccount, access);
        }
        if access.verb != "create" || access.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if access.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(access, |graph| reaches(graph, Kind::ServiceAccount, node, access))
    }

    fn csi_node(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        match access.subresource {
            "" if !is_own_write(access.verb) => {
                return no("can only get, create, update, patch, or delete a CSINode");
            }
            "" => {}
            "status" if !self.gates.volume_health => {
                return no("CSINode status access requires CSIVolumeHealth feature");
            }
            "status" if !matches!(access.verb, "get" | "update" | "patch") => {
                return no("can only get, update, or patch CSINode status");
            }
            "status" => {}
            _ => return no("cannot authorize CSINode subresources"),
        }
        if access.verb != "create" && access.name != node {
            return no("can only access CSINode with the same name as the requesting node");
        }
        Ok(())
    }

    fn resource_slice(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        if !access.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match access.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(access, |graph| self.graph.owns(graph, Source::Slices, access, node))
            }
            "watch" | "list" | "deletecollection" if access.field_selector.requires("spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn pod_certificate(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        if !self.gates.pod_certificates {
            return no("");
        }
        if !access.subresource.is_empty() {
            return no("nodes may not access the status subresource of PodCertificateRequests");
        }
        match access.verb {
            "create" => Ok(()),
            "get" => self.related(access, |graph| self.graph.owns(graph, Source::Certificates, access, node)),
            "list" | "watch" if access.field_selector.requires("spec.nodeName", node) => Ok(()),
            "list" | "watch" => no("can only list/watch podcertificaterequests with nodeName field selector"),
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn pod(&self, node: &str, access: &Access<'_>) -> Result<(), String> {
        let is_bound = |graph: &Graph| self.graph.is_bound(graph, access, node);
        match (access.subresource, access.verb) {
            ("", "get") => self.get(access, is_bound),
            ("", "list" | "watch") if access.field_selector.requires("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !access.name.is_empty() => self.related(access, is_bound),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => no(""),
        }
    }
}

#[async_trait]
impl Authorizer for Node {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        let Some(node) = name_of(access.user) else { return Decision::no_opinion("") };
        if node.is_empty() {
            return Decision::no_opinion(format!("unknown node for user {}", object::quote(&access.user.name)));
        }
        match self.judge(node, access) {
            Ok(()) => Decision::allow(""),
            Err(reason) => Decision::no_opinion(reason),
        }
    }

    fn rules_for(&self, user: &User, _: &str) -> RulesFor {
        if name_of(user).is_none() {
            return RulesFor::default();
        }
        let errors = vec!["node authorizer does not support user rule resolution".to_string()];
        RulesFor { incomplete: true, errors, ..RulesFor::default() }
    }
}

/// The node that a user is the kubelet of; None for other users.
fn name_of(user: &User) -> Option<&str> {
    user.name.strip_prefix(USER_PREFIX).filter(|_| user.is_member(NODES))
}

fn no(reason: &str) -> Result<(), String> {
    Err(reason.to_string())
}

fn unrelated(access: &Access<'_>) -> String {
    let node = name_of(access.user).unwrap_or("");
    format!("no relationship found between node '{node}' and this object")
}

fn reaches(graph: &Graph, kind: Kind, node: &str, access: &Access<'_>) -> bool {
    graph.reaches(&Wanted { kind, namespace: access.namespace, name: access.name }, node)
}

/// Verbs on an object that has the name of its node.
fn is_own_write(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn lease(node: &str, access: &Access<'_>) -> Result<(), String> {
    if !is_own_write(access.verb) {
        return no("can only get, create, update, patch, or delete a node lease");
    }
    if access.namespace != LEASE_NAMESPACE {
        return Err(format!("can only access leases in the {} system namespace", object::quote(LEASE_NAMESPACE)));
    }
    // The name of what is created is in the body; NodeRestriction checks it.
    if access.verb != "create" && access.name != node {
        return no("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn own_node(node: &str, access: &Access<'_>) -> Result<(), String> {
    match (access.subresource, access.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        // By name and not by the graph: kubelets look for their Node before they create it.
        ("", "get" | "list" | "watch") => match access.name {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => Err(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => no(""),
    }
}

#[cfg(test)]
mod tests;
