//! PodResizeValidator: a running pod is given no more than its node has.

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Cause, Meta, Status, Value, quote};

use super::{forbidden, resources};
use crate::{Attributes, Plugin};

pub struct PodResizeValidator;

#[async_trait]
impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = attributes.resource;
        let resized = resource.group.is_empty() && resource.resource == "pods" && attributes.subresource == "resize";
        let (Some(pod), Some(old)) = (object.filter(|_| resized), old) else { return Ok(()) };
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() || pod.generation() == old.generation() {
            return Ok(());
        }
        let Some(node) = attributes.cx.lookup.get("", "nodes", "", node) else {
            return Err(forbidden(attributes, format!("node {} not found", quote(node))));
        };
        let refuse = |reason: &str, why: String| {
            let mut status = forbidden(attributes, why);
            let cause = Cause { reason: reason.to_string(), message: String::new(), field: String::new() };
            status.details.get_or_insert_default().causes.push(cause);
            Err(status)
        };
        if let Some(system) = node.label("kubernetes.io/os").filter(|system| *system != "linux") {
            let (name, system) = (quote(node.name()), quote(system));
            let why = format!("pod resize is only supported on linux nodes, node {name} is {system}");
            return refuse("UnsupportedPlatform", why);
        }
        match shortage(attributes, pod, &node) {
            None => Ok(()),
            Some(what) => refuse("NodeCapacity", format!("node didn't have enough allocatable resources: {what}")),
        }
    }
}

/// What the node has too little of.
fn shortage(attributes: &Attributes<'_>, pod: &Value, node: &Value) -> Option<String> {
    let pod_level = attributes.cx.features.enabled("PodLevelResources");
    let mut requests = resources::of_pod(pod, "requests", pod_level);
    resources::add(&mut requests, &resources::list(pod.at(&["spec", "overhead"])));
    let allocatable = resources::list(node.at(&["status", "allocatable"]));
    let zero = Quantity::default();
    let mut short = Vec::new();
    for name in ["cpu", "memory"] {
        let (asked, there) = (requests.get(name).unwrap_or(&zero), allocatable.get(name).unwrap_or(&zero));
        if asked > there {
            let shown = |amount: &Quantity| if name == "cpu" { amount.milli_value() } else { amount.value() };
            short.push(format!("{name}, requested: {}, allocatable: {}", shown(asked), shown(there)));
        }
    }
    (!short.is_empty()).then(|| short.join("; "))
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, update};

    #[test]
    fn nodes_must_have_enough() {
        let node = value!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        let world = World::default().with("", "nodes", node);
        let pod = |generation: i64, cpu: &str| {
            value!({"metadata": {"name": "p", "generation": generation}, "spec": {"nodeName": "n", "containers": [
                {"resources": {"requests": {"cpu": cpu}}}
            ]}})
        };
        let resize =
            |cpu: &str| update(&PodResizeValidator, &world, "pods/resize", pod(2, cpu), pod(1, "1")).map(|_| ());
        assert_eq!(resize("2"), Ok(()));
        let why = "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000";
        assert_eq!(resize("3"), Err(why.to_string()));
    }
}
