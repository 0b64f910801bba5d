//! CONNECT: exec, attach, port-forward, log and proxy, which go through to a node.

use authz::Permit;
use object::{GroupResource, Meta, Status};

use crate::reply::Reply;
use crate::scope::Scope;

/// Whether a subresource is a connection rather than an object.
pub fn handles(subresource: &str) -> bool {
    matches!(subresource, "exec" | "attach" | "portforward" | "proxy" | "log")
}

/// Finds what is to be connected to. The answers are upstream's for targets that do not exist or have no node yet; a
/// connection to a real kubelet is not made by this server.
pub async fn connect(scope: &mut Scope, _permit: Permit) -> Result<Reply, Status> {
    let storage = scope.storage()?;
    let info = &scope.call.info;
    let target = storage.get(&info.namespace, &info.name).await?;
    match info.resource.as_str() {
        "pods" => {
            let node = target.str_at(&["spec", "nodeName"]);
            if node.is_empty() {
                return Err(no_node(scope, target.name()));
            }
            let nodes = GroupResource::new("", "nodes");
            if scope.api.context(&scope.call.user, "", "v1", "", false).lookup.get("", "nodes", "", node).is_none() {
                return Err(Status::not_found(&nodes, node));
            }
            Err(Status::unavailable(format!(
                "error trying to reach the kubelet of node {node}: connections to nodes are not made by this server yet"
            )))
        }
        "services" => {
            Err(Status::unavailable(format!("no endpoints available for service {}", object::quote(&info.name))))
        }
        _ => Err(Status::unavailable(format!(
            "error trying to reach node {}: connections to nodes are not made by this server yet",
            info.name
        ))),
    }
}

fn no_node(scope: &Scope, pod: &str) -> Status {
    let message = match scope.call.info.subresource.as_str() {
        "log" => return Status::bad_request(format!("pod {pod} does not have a host assigned")),
        _ => format!("pod {pod} does not have a host assigned"),
    };
    Status::bad_request(message)
}
