//! ExtendedResourceToleration, and what tolerations have to do with each other.

use std::collections::BTreeSet;

use async_trait::async_trait;
use object::{Status, Value, names, value};

use crate::{Attributes, Plugin};

/// Pods that ask for special devices tolerate the taint that keeps others away from them.
pub struct ExtendedResourceToleration;

#[async_trait]
impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let containers = ["containers", "initContainers"].map(|field| pod.list_at(&["spec", field]));
        let requests = containers.into_iter().flatten().filter_map(|c| c.at(&["resources", "requests"]).as_map());
        let extended: BTreeSet<String> =
            requests.flat_map(|map| map.keys()).filter(|name| is_extended(name)).map(str::to_string).collect();
        for resource in extended {
            add_or_update(pod, value!({"key": resource, "operator": "Exists", "effect": "NoSchedule"}));
        }
        Ok(())
    }
}

/// Whether a resource is an extended resource: fully qualified, and not one of Kubernetes.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && names::label_key(&format!("requests.{name}")).is_empty()
}

/// Adds a toleration, in place of one for the same taint.
fn add_or_update(pod: &mut Value, toleration: Value) {
    let list = pod.slot(&["spec", "tolerations"]).make_list();
    let same = |other: &Value| {
        ["key", "effect", "value"].iter().all(|field| other.str_at(&[field]) == toleration.str_at(&[field]))
            && operator(other) == operator(&toleration)
    };
    if list.iter().any(same) {
        list.iter_mut().filter(|other| same(other)).for_each(|other| *other = toleration.clone());
    } else {
        list.push(toleration);
    }
}

fn operator(toleration: &Value) -> &str {
    toleration.str_at(&["operator"])
}

/// The first and the second together, without those that others make redundant.
pub fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let later = all[place + 1..].iter().any(|other| other != one && covers(other, one));
        if !later && !merged.iter().any(|other| covers(other, one)) {
            merged.push((*one).clone());
        }
    }
    merged
}

/// Whether each toleration is covered by one that is allowed.
pub fn all_allowed(tolerations: &[Value], allowed: &[Value]) -> bool {
    allowed.is_empty() || tolerations.iter().all(|one| allowed.iter().any(|wide| covers(wide, one)))
}

/// Whether whatever one toleration tolerates the wide one does, too.
fn covers(wide: &Value, one: &Value) -> bool {
    if wide == one {
        return true;
    }
    let text = |value: &Value, field: &str| value.str_at(&[field]).to_string();
    let (key, effect) = (text(wide, "key"), text(wide, "effect"));
    if text(one, "key") != key && (!key.is_empty() || operator(wide) != "Exists") {
        return false;
    }
    if text(one, "effect") != effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(limit) = wide.field("tolerationSeconds").as_int()
        && one.field("tolerationSeconds").as_int().is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match operator(wide) {
        "Equal" | "" => operator(one) == "Equal" && text(one, "value") == text(wide, "value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{World, create};

    #[test]
    fn devices_are_tolerated() {
        let pod = value!({"spec": {"containers": [
            {"resources": {"requests": {"cpu": "1", "example.com/gpu": "1", "kubernetes.io/x": "1"}}}
        ]}});
        let admitted = create(&ExtendedResourceToleration, &World::default(), "pods", pod).unwrap();
        assert_eq!(
            *admitted.object.at(&["spec", "tolerations"]),
            value!([{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
        );
    }

    #[test]
    fn wide_tolerations_cover_narrow_ones() {
        let equal = value!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"});
        let exists = value!({"key": "a", "operator": "Exists"});
        let everything = value!({"operator": "Exists"});
        assert!(covers(&exists, &equal) && covers(&everything, &exists));
        assert!(!covers(&equal, &exists));
        let (narrow, wide) = ([equal], [exists]);
        assert_eq!(merge(&narrow, &wide), wide);
        assert_eq!(merge(&wide, &narrow), wide);
        assert!(!all_allowed(&wide, &narrow));
    }
}
