//! PodTolerationRestriction: pods get the tolerations of their namespace, and may have no others than it allows.

use async_trait::async_trait;
use codec::Notes;
use object::{GroupResource, Meta, Status, Value, value};

use super::tolerations::{all_allowed, merge};
use super::{plain_failure, resources};
use crate::{Attributes, Configuration, Operation, Plugin};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

pub struct PodTolerationRestriction {
    default: Vec<Value>,
    allowed: Vec<Value>,
}

impl PodTolerationRestriction {
    pub fn new(config: &Configuration) -> Result<PodTolerationRestriction, String> {
        let group = "podtolerationrestriction.admission.k8s.io";
        let own = config.of_kind("PodTolerationRestriction", group, "Configuration")?.cloned().unwrap_or_default();
        let list = |field: &str| own.list_at(&[field]).to_vec();
        Ok(PodTolerationRestriction { default: list("default"), allowed: list("whitelist") })
    }

    fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let tolerations = pod.list_at(&["spec", "tolerations"]);
        if tolerations.is_empty() {
            return Ok(());
        }
        let (allowed, scope) = match annotated(attributes, ALLOWED)? {
            Some(own) => (own, "namespace"),
            None => (self.allowed.clone(), "cluster"),
        };
        if all_allowed(tolerations, &allowed) {
            return Ok(());
        }
        Err(plain_failure(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

#[async_trait]
impl Plugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let mut extra = Vec::new();
        if attributes.operation == Operation::Create {
            extra = annotated(attributes, DEFAULTS)?.unwrap_or_else(|| self.default.clone());
        }
        if asks_for_resources(pod) {
            extra.push(value!({
                "key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"
            }));
        }
        if !extra.is_empty() {
            let merged = merge(pod.list_at(&["spec", "tolerations"]), &extra);
            pod.set(&["spec", "tolerations"], merged);
        }
        self.check(attributes, pod)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        match object.filter(|_| attributes.is("", "pods")) {
            Some(pod) => self.check(attributes, pod),
            None => Ok(()),
        }
    }
}

/// Whether the pod's quality of service is better than best effort.
fn asks_for_resources(pod: &Value) -> bool {
    let counts = |value: &Value| {
        let list = resources::list(value);
        list.iter().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && amount.signum() > 0)
    };
    let containers = ["containers", "initContainers"].map(|field| pod.list_at(&["spec", field]));
    let mut all = containers.into_iter().flatten().map(|container| container.field("resources"));
    all.any(|own| counts(own.field("requests")) || counts(own.field("limits")))
        || counts(pod.at(&["spec", "resources", "requests"]))
        || counts(pod.at(&["spec", "resources", "limits"]))
}

/// The tolerations in an annotation of the namespace; None if it has none.
fn annotated(attributes: &Attributes<'_>, key: &str) -> Result<Option<Vec<Value>>, Status> {
    let name = attributes.cx.namespace;
    let namespace = attributes.cx.lookup.get("", "namespaces", "", name);
    let namespace = namespace.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
    let Some(text) = namespace.annotation(key) else { return Ok(None) };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let list = codec::json::decode(text.as_bytes(), None, &mut Notes::ignore());
    let list = list.map_err(|error| plain_failure(error.to_string()))?;
    Ok(Some(list.as_list().unwrap_or(&[]).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{World, create};

    #[test]
    fn namespaces_decide() {
        let plugin = PodTolerationRestriction::new(&Configuration::default()).unwrap();
        let namespace = |key: &str, text: &str| {
            let mut namespace = value!({"metadata": {"name": "ns"}});
            namespace.set(&["metadata", "annotations", key], text);
            World::default().with("", "namespaces", namespace)
        };
        let pod = value!({"metadata": {"name": "p"}, "spec": {"containers": [{}]}});
        let tolerant =
            value!({"metadata": {"name": "p"}, "spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}});
        let world = namespace(DEFAULTS, r#"[{"key":"a","operator":"Exists"}]"#);
        let admitted = create(&plugin, &world, "pods", pod).unwrap();
        assert_eq!(*admitted.object.at(&["spec", "tolerations"]), value!([{"key": "a", "operator": "Exists"}]));
        let world = namespace(ALLOWED, r#"[{"key":"a","operator":"Exists"}]"#);
        let refused = create(&plugin, &world, "pods", tolerant.clone()).unwrap_err();
        assert!(refused.ends_with("conflict with its namespace whitelist"), "{refused}");
        assert!(create(&plugin, &namespace(ALLOWED, ""), "pods", tolerant).is_ok());
    }
}
