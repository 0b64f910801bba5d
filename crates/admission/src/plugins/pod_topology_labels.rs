//! PodTopologyLabels: a pod that is bound to a node carries the labels that say in which zone and region it is.

use async_trait::async_trait;
use object::{Meta, Status, Value};

use crate::{Attributes, Plugin};

pub struct PodTopologyLabels;

const LABELS: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

#[async_trait]
impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    /// The object is a pod or, for the subresource `binding`, a Binding, whose labels end up on the pod.
    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let about_pods = attributes.resource.group.is_empty() && attributes.resource.resource == "pods";
        if !about_pods || !attributes.cx.features.enabled("PodTopologyLabelsAdmission") {
            return Ok(());
        }
        let node = match attributes.subresource {
            "" => object.str_at(&["spec", "nodeName"]),
            "binding" if object.str_at(&["target", "kind"]) == "Node" => object.str_at(&["target", "name"]),
            _ => "",
        };
        if node.is_empty() {
            return Ok(());
        }
        // A node that does not exist has nothing to copy; that it is missing is not for this plugin to say.
        if let Some(node) = attributes.cx.lookup.get("", "nodes", "", node) {
            for label in LABELS {
                if let Some(text) = node.label(label) {
                    object.set(&["metadata", "labels", label], text);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create};

    #[test]
    fn labels_come_from_the_node() {
        let node = value!({ "metadata": { "name": "n", "labels": { "topology.kubernetes.io/zone": "z", "a": "b" } } });
        let world = World::default().with("", "nodes", node);
        let zone = value!({ "topology.kubernetes.io/zone": "z" });
        let cases = [
            ("pods", value!({ "spec": { "nodeName": "n" } }), zone.clone()),
            ("pods", value!({ "spec": { "nodeName": "other" } }), Value::Null),
            ("pods", value!({ "spec": {} }), Value::Null),
            ("pods/binding", value!({ "target": { "kind": "Node", "name": "n" } }), zone),
            ("pods/binding", value!({ "target": { "kind": "Thing", "name": "n" } }), Value::Null),
        ];
        for (resource, object, labels) in cases {
            let made = create(&PodTopologyLabels, &world, resource, object).expect("never refuses");
            assert_eq!(made.object.at(&["metadata", "labels"]), &labels);
        }
    }
}
