//! NodeDeclaredFeatureValidator: a running pod changes only in ways that its node says it can follow.

use async_trait::async_trait;
use object::{Meta, Status, Value, quote};

use super::forbidden;
use crate::{Attributes, Plugin};

pub struct NodeDeclaredFeatureValidator;

const DEVICES: &str = "DRANodeAllocatableResources";

#[async_trait]
impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| attributes.cx.features.enabled("NodeDeclaredFeatures")) else {
            return Ok(());
        };
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str(), old) {
            ("", "pods", Some(old)) if matches!(attributes.subresource, "" | "resize") => {
                check_pod(attributes, object, old)
            }
            ("resource.k8s.io", "resourceslices", _) if attributes.cx.features.enabled(DEVICES) => {
                check_slice(attributes, object)
            }
            _ => Ok(()),
        }
    }
}

fn check_pod(attributes: &Attributes<'_>, pod: &Value, old: &Value) -> Result<(), Status> {
    let name = pod.str_at(&["spec", "nodeName"]);
    let needed = needed(pod, old);
    if name.is_empty() || pod.generation() == old.generation() || needed.is_empty() {
        return Ok(());
    }
    let Some(node) = attributes.cx.lookup.get("", "nodes", "", name) else {
        return Err(forbidden(attributes, format!("node {} not found", quote(name))));
    };
    let missing: Vec<&str> = needed.into_iter().filter(|feature| !declares(&node, feature)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why =
        format!("pod update requires features {} which are not available on node {}", missing.join(", "), quote(name));
    Err(forbidden(attributes, why))
}

fn declares(node: &Value, feature: &str) -> bool {
    node.list_at(&["status", "declaredFeatures"]).iter().any(|declared| declared.as_str() == Some(feature))
}

/// Which features of a node this change of a pod needs.
fn needed(pod: &Value, old: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if old.at(&["spec", "resources"]) != pod.at(&["spec", "resources"]) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let (before, after) = (old.list_at(&["spec", "initContainers"]), pod.list_at(&["spec", "initContainers"]));
    let is_sidecar = |container: &Value| container.str_at(&["restartPolicy"]) == "Always";
    let resized = |(old, new): (&Value, &Value)| !is_sidecar(old) && old.field("resources") != new.field("resources");
    if before.iter().zip(after).any(resized) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    let (before, after) = (old.list_at(&["spec", "volumes"]), pod.list_at(&["spec", "volumes"]));
    let resized = |(old, new): (&Value, &Value)| {
        let limit = ["emptyDir", "sizeLimit"];
        let both = !old.at(&limit).is_null() && !new.at(&limit).is_null();
        old.str_at(&["name"]) == new.str_at(&["name"])
            && new.str_at(&["emptyDir", "medium"]) == "Memory"
            && both
            && old.at(&limit) != new.at(&limit)
    };
    if before.len() == after.len() && before.iter().zip(after).any(resized) {
        needed.push("InPlacePodVerticalScalingMemoryBackedVolumes");
    }
    needed
}

/// Devices that take from what a node has to give need nodes that know how to count them.
fn check_slice(attributes: &Attributes<'_>, slice: &Value) -> Result<(), Status> {
    let spec = slice.field("spec");
    let by_device = spec.field("perDeviceNodeSelection").as_bool() == Some(true);
    let devices = spec.list_at(&["devices"]).iter();
    for device in devices.filter(|device| !device.field("nodeAllocatableResources").is_empty()) {
        let place = if by_device { device } else { spec };
        let name = device.str_at(&["name"]);
        let (node, selector) = (place.str_at(&["nodeName"]), place.field("nodeSelector"));
        if !node.is_empty() {
            let Some(found) = attributes.cx.lookup.get("", "nodes", "", node) else {
                let why = format!("node {} not found for device {}", quote(node), quote(name));
                return Err(forbidden(attributes, why));
            };
            check_node(attributes, &found)?;
        } else if !selector.is_null() || place.field("allNodes").as_bool() == Some(true) {
            let nodes = attributes.cx.lookup.list("", "nodes", "");
            for node in nodes.iter().filter(|node| selector.is_null() || selects(selector, node)) {
                check_node(attributes, node)?;
            }
        } else {
            let why = format!(
                "device {} in ResourceSlice has NodeAllocatableResources but does not map to any nodes",
                quote(name)
            );
            return Err(forbidden(attributes, why));
        }
    }
    Ok(())
}

fn check_node(attributes: &Attributes<'_>, node: &Value) -> Result<(), Status> {
    if declares(node, DEVICES) {
        return Ok(());
    }
    Err(forbidden(attributes, format!("node {} does not support {DEVICES} feature", quote(node.name()))))
}

/// Whether one of a node selector's terms fits the node.
fn selects(selector: &Value, node: &Value) -> bool {
    let fits = |requirement: &Value, actual: Option<&str>| {
        let values: Vec<&str> = requirement.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
        let number = |text: &str| text.parse::<i64>().ok();
        match requirement.str_at(&["operator"]) {
            "In" => actual.is_some_and(|actual| values.contains(&actual)),
            "NotIn" => actual.is_none_or(|actual| !values.contains(&actual)),
            "Exists" => actual.is_some(),
            "DoesNotExist" => actual.is_none(),
            operator @ ("Gt" | "Lt") => match (actual.and_then(number), values.first().and_then(|v| number(v))) {
                (Some(actual), Some(bound)) => {
                    if operator == "Gt" {
                        actual > bound
                    } else {
                        actual < bound
                    }
                }
                _ => false,
            },
            _ => false,
        }
    };
    let term_fits = |term: &Value| {
        let (labels, fields) = (term.list_at(&["matchExpressions"]), term.list_at(&["matchFields"]));
        let by_label = |requirement: &Value| fits(requirement, node.label(requirement.str_at(&["key"])));
        (!labels.is_empty() || !fields.is_empty())
            && labels.iter().all(by_label)
            && fields.iter().all(|requirement| fits(requirement, Some(node.name())))
    };
    selector.list_at(&["nodeSelectorTerms"]).iter().any(term_fits)
}
