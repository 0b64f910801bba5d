//! PodNodeSelector: pods run on the nodes that their namespace, or else the cluster, says.

use std::collections::BTreeMap;

use async_trait::async_trait;
use object::{GroupResource, Map, Meta, Status, Value};

use super::plain_failure;
use crate::{Attributes, Configuration, Plugin};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";

type Labels = BTreeMap<String, String>;

/// What the configuration says: for each namespace the labels its pods may select by, and the default for those that do not
/// say.
pub struct PodNodeSelector {
    configured: BTreeMap<String, String>,
}

impl PodNodeSelector {
    pub fn new(config: &Configuration) -> Result<PodNodeSelector, String> {
        let own = config.of("PodNodeSelector").cloned().unwrap_or_default();
        let entries = own.field("podNodeSelectorPluginConfig").as_map().into_iter().flat_map(Map::iter);
        let text = |value: &Value| value.as_str().unwrap_or("").to_string();
        Ok(PodNodeSelector { configured: entries.map(|(key, value)| (key.to_string(), text(value))).collect() })
    }

    /// The labels of the namespace's annotation, or the cluster's default.
    fn wanted(&self, attributes: &Attributes<'_>) -> Result<Labels, Status> {
        let name = attributes.cx.namespace;
        let namespace = attributes.cx.lookup.get("", "namespaces", "", name);
        let namespace = namespace.ok_or_else(|| Status::internal(format!("namespace {name} does not exist")))?;
        let text = namespace.annotation(ANNOTATION);
        labels(text.unwrap_or_else(|| self.configured.get(CLUSTER_DEFAULT).map_or("", String::as_str)))
    }

    fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let selector = selector(pod);
        if conflict(&self.wanted(attributes)?, &selector) {
            return Err(refuse(pod, "pod node label selector conflicts with its namespace node label selector"));
        }
        let allowed = labels(self.configured.get(attributes.cx.namespace).map_or("", String::as_str))?;
        let within = allowed.is_empty() || selector.iter().all(|(key, value)| allowed.get(key) == Some(value));
        if within {
            return Ok(());
        }
        Err(refuse(pod, "pod node label selector labels conflict with its namespace whitelist"))
    }
}

#[async_trait]
impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let wanted = self.wanted(attributes)?;
        if conflict(&wanted, &selector(pod)) {
            return Err(refuse(pod, "pod node label selector conflicts with its namespace node label selector"));
        }
        for (key, value) in wanted {
            pod.set(&["spec", "nodeSelector", &key], value);
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

fn refuse(pod: &Value, why: &str) -> Status {
    Status::forbidden(&GroupResource::new("", "pods"), pod.name(), why)
}

fn selector(pod: &Value) -> Labels {
    let entries = pod.at(&["spec", "nodeSelector"]).as_map().into_iter().flat_map(Map::iter);
    entries.map(|(key, value)| (key.to_string(), value.as_str().unwrap_or("").to_string())).collect()
}

fn conflict(first: &Labels, second: &Labels) -> bool {
    first.iter().any(|(key, value)| second.get(key).is_some_and(|other| other != value))
}

/// `key=value,key=value`.
fn labels(text: &str) -> Result<Labels, Status> {
    let mut labels = Labels::new();
    if text.is_empty() {
        return Ok(labels);
    }
    for item in text.split(',') {
        let parts: Vec<&str> = item.split('=').collect();
        let [key, value] = parts.as_slice() else {
            return Err(plain_failure(format!("invalid selector: [{item}]")));
        };
        let (key, value) = (key.trim(), value.trim());
        if let Some(why) = object::names::label_key(key).first() {
            return Err(plain_failure(format!("invalid label key {}: {why}", object::quote(key))));
        }
        if let Some(why) = object::names::label_value(value).first() {
            return Err(plain_failure(format!("invalid label value {}: {why}", object::quote(value))));
        }
        labels.insert(key.to_string(), value.to_string());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create};

    #[test]
    fn namespaces_choose_nodes() {
        let text = b"podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=1, ns: 'a=1,b=2,c=3'}";
        let config = Configuration::parse(text, |_| Ok(Vec::new())).unwrap();
        let plugin = PodNodeSelector::new(&config).unwrap();
        let plain = World::default().with("", "namespaces", value!({"metadata": {"name": "ns"}}));
        let mut own = value!({"metadata": {"name": "ns"}});
        own.set(&["metadata", "annotations", ANNOTATION], "b=2");
        let own = World::default().with("", "namespaces", own);
        let pod = |selector: Value| value!({"metadata": {"name": "p"}, "spec": {"nodeSelector": selector}});
        let selected = |world: &World, selector: Value| {
            create(&plugin, world, "pods", pod(selector))
                .map(|admitted| admitted.object.at(&["spec", "nodeSelector"]).clone())
        };
        assert_eq!(selected(&plain, value!({})), Ok(value!({"a": "1"})));
        assert_eq!(selected(&own, value!({"c": "3"})), Ok(value!({"b": "2", "c": "3"})));
        for (world, selector, want) in [
            (&plain, value!({"a": "2"}), "conflicts with its namespace node label selector"),
            (&own, value!({"d": "4"}), "labels conflict with its namespace whitelist"),
        ] {
            let refused = selected(world, selector).unwrap_err();
            assert!(refused.ends_with(want), "{refused}");
        }
    }
}
