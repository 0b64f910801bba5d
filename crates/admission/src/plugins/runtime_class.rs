//! RuntimeClass: a pod has the overhead of its runtime class, and runs where that runtime is.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Status, Value};

use super::{forbidden, resources};
use crate::{Attributes, Plugin};

pub struct RuntimeClass;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

#[async_trait]
impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let Some(class) = class(attributes, pod)? else { return Ok(()) };
        let overhead = class.at(&["overhead", "podFixed"]);
        if !class.field("overhead").is_null() {
            let given = pod.at(&["spec", "overhead"]);
            if !given.is_empty() && resources::list(given) != resources::list(overhead) {
                return Err(forbidden(attributes, MISMATCH));
            }
            if !overhead.is_null() {
                pod.set(&["spec", "overhead"], overhead.clone());
            }
        }
        set_scheduling(attributes, pod, class.field("scheduling"))
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is("", "pods")) else { return Ok(()) };
        let class = class(attributes, pod)?.filter(|class| !class.field("overhead").is_null());
        let given = pod.at(&["spec", "overhead"]);
        match class {
            Some(class) if resources::list(given) != resources::list(class.at(&["overhead", "podFixed"])) => {
                Err(forbidden(attributes, MISMATCH))
            }
            None if !given.is_null() => {
                let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(forbidden(attributes, why))
            }
            _ => Ok(()),
        }
    }
}

fn class(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
    let Some(name) = pod.at(&["spec", "runtimeClassName"]).as_str() else { return Ok(None) };
    if name.is_empty() {
        // Upstream's client refuses to send a request without a name.
        return Err(Status::unknown(500, "resource name may not be empty"));
    }
    let class = attributes.cx.lookup.get("node.k8s.io", "runtimeclasses", "", name);
    let missing = || forbidden(attributes, format!("pod rejected: RuntimeClass {} not found", object::quote(name)));
    class.map(Some).ok_or_else(missing)
}

fn set_scheduling(attributes: &Attributes<'_>, pod: &mut Value, scheduling: &Value) -> Result<(), Status> {
    if scheduling.is_null() {
        return Ok(());
    }
    for (key, wanted) in scheduling.field("nodeSelector").as_map().into_iter().flat_map(|map| map.iter()) {
        let wanted = wanted.as_str().unwrap_or("");
        let given = pod.at(&["spec", "nodeSelector", key]).as_str();
        if let Some(given) = given.filter(|given| *given != wanted) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return Err(forbidden(attributes, why));
        }
        pod.set(&["spec", "nodeSelector", key], wanted);
    }
    let mut tolerations = pod.list_at(&["spec", "tolerations"]).to_vec();
    tolerations.extend(scheduling.list_at(&["tolerations"]).iter().cloned());
    if !tolerations.is_empty() {
        pod.set(&["spec", "tolerations"], merged(&tolerations));
    }
    Ok(())
}

/// Leaves out tolerations that another one covers; of equal ones the first stays.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (i, toleration) in all.iter().enumerate() {
        let later = &all[i + 1..];
        let redundant = merged.iter().any(|other| covers(other, toleration))
            || later.iter().any(|other| !same(other, toleration) && covers(other, toleration));
        if !redundant {
            merged.push(toleration.clone());
        }
    }
    merged
}

fn same(a: &Value, b: &Value) -> bool {
    let texts = ["key", "operator", "value", "effect"].iter().all(|field| a.str_at(&[field]) == b.str_at(&[field]));
    texts && a.field("tolerationSeconds").as_int() == b.field("tolerationSeconds").as_int()
}

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let (key, operator, effect) = (wide.str_at(&["key"]), wide.str_at(&["operator"]), wide.str_at(&["effect"]));
    let key_fits = narrow.str_at(&["key"]) == key || (key.is_empty() && operator == "Exists");
    let effect_fits = effect.is_empty() || narrow.str_at(&["effect"]) == effect;
    let seconds = |toleration: &Value| toleration.field("tolerationSeconds").as_int();
    let long_enough =
        effect != "NoExecute" || seconds(wide).is_none_or(|wide| seconds(narrow).is_some_and(|narrow| narrow <= wide));
    let value_fits = match operator {
        "Equal" | "" => narrow.str_at(&["operator"]) == "Equal" && narrow.str_at(&["value"]) == wide.str_at(&["value"]),
        "Exists" => true,
        _ => false,
    };
    key_fits && effect_fits && long_enough && value_fits
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create};

    fn world() -> World {
        World::default().with("node.k8s.io", "runtimeclasses", value!({ "metadata": { "name": "plain" } })).with(
            "node.k8s.io",
            "runtimeclasses",
            value!({
                "metadata": { "name": "vm" },
                "overhead": { "podFixed": { "cpu": "1" } },
                "scheduling": {
                    "nodeSelector": { "vm": "yes" },
                    "tolerations": [{ "key": "vm", "operator": "Exists" }],
                },
            }),
        )
    }

    #[test]
    fn pods_get_overhead_and_scheduling() {
        let tolerations = value!([{ "key": "vm", "operator": "Equal", "value": "a", "effect": "NoSchedule" }]);
        let cases = [
            (value!({}), Ok(value!({}))),
            (value!({ "runtimeClassName": "plain" }), Ok(value!({ "runtimeClassName": "plain" }))),
            (
                value!({ "runtimeClassName": "vm", "overhead": { "cpu": "1000m" }, "tolerations": tolerations }),
                Ok(value!({
                    "runtimeClassName": "vm",
                    "overhead": { "cpu": "1" },
                    "nodeSelector": { "vm": "yes" },
                    "tolerations": [{ "key": "vm", "operator": "Exists" }],
                })),
            ),
            (value!({ "runtimeClassName": "no" }), Err("pod rejected: RuntimeClass \"no\" not found")),
            (value!({ "runtimeClassName": "vm", "overhead": { "cpu": "2" } }), Err(MISMATCH)),
            (
                value!({ "overhead": { "cpu": "2" } }),
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
            ),
            (
                value!({ "runtimeClassName": "vm", "nodeSelector": { "vm": "no" } }),
                Err("conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"),
            ),
        ];
        for (spec, expected) in cases {
            let pod = value!({ "metadata": { "name": "p" }, "spec": spec });
            let made = create(&RuntimeClass, &world(), "pods", pod).map(|made| made.object.field("spec").clone());
            let expected = expected.map_err(|why| format!("pods \"p\" is forbidden: {why}"));
            assert_eq!(made, expected);
        }
        let nameless = value!({ "metadata": { "name": "p" }, "spec": { "runtimeClassName": "" } });
        let refused = create(&RuntimeClass, &world(), "pods", nameless).err();
        assert_eq!(refused.as_deref(), Some("resource name may not be empty"));
    }
}
