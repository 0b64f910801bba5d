//! Binding a pod to a node. These writes go past the rules of updates, as upstream's do: the generation stays.

use object::{Cursor, Errors, GroupResource, Meta, Status, Value, names, quote, value};
use registry::{Context, Error};

use super::prepare::set_condition;
use crate::common::checks::Checks;
use crate::common::pod_spec::fields::drop_init_container_annotations;

/// Checks a Binding. Upstream answers with the bare errors and an internal server error.
pub fn validate_binding(binding: &Value) -> Result<(), Error> {
    let target = Cursor::root(binding).field("target");
    let (kind, name) = (target.field("kind"), target.field("name"));
    let mut errors = Errors::new();
    if !matches!(kind.str(), "" | "Node") {
        kind.not_supported(&mut errors, &["Node", "<empty>"]);
    }
    if name.require(&mut errors) && matches!(kind.str(), "" | "Node") {
        name.check_name(&mut errors, names::name_is_dns_subdomain);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Error::Failed(errors.aggregate()))
}

/// The pod, assigned to the node that the binding names, with the binding's annotations and labels over its own.
pub fn bind(cx: &Context, pod: &Value, binding: &Value) -> Result<Value, Status> {
    let name = pod.name();
    let refuse = |why: String| Err(Status::conflict(&GroupResource::new("", "pods/binding"), name, why));
    if pod.is_deleting() {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = pod.str_at(&["spec", "nodeName"]);
    if !node.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {}", quote(node)));
    }
    if !pod.list_at(&["spec", "schedulingGates"]).is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut bound = pod.clone();
    bound.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]));
    if cx.features.enabled("ClearingNominatedNodeNameAfterBinding") {
        bound.remove(&["status", "nominatedNodeName"]);
    }
    copy(&mut bound, binding, "annotations");
    drop_init_container_annotations(&mut bound);
    if cx.features.enabled("PodTopologyLabelsAdmission") {
        copy(&mut bound, binding, "labels");
    }
    set_condition(cx.now, &mut bound, value!({"type": "PodScheduled", "status": "True"}));
    Ok(bound)
}

/// Copies a map of metadata, over what is there.
fn copy(pod: &mut Value, binding: &Value, field: &str) {
    for (key, value) in binding.at(&["metadata", field]).as_map().into_iter().flat_map(|map| map.iter()) {
        pod.set(&["metadata", field, key], value.clone());
    }
}
