//! Amounts of resources by name, and what a pod as a whole asks for.

use std::collections::BTreeMap;

use object::Value;
use object::quantity::Quantity;

/// Resource names and amounts, sorted by name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The list in a field such as `requests`; what cannot be read is left out, as decoding refused it before.
pub fn list(value: &Value) -> ResourceList {
    let entries = value.as_map().into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, value)| Some((name.to_string(), quantity(value)?))).collect()
}

pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Int(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

pub fn to_value(list: &ResourceList) -> Value {
    let mut map = object::Map::new();
    for (name, amount) in list {
        map.insert(name.as_str(), amount.to_string());
    }
    Value::Map(map)
}

pub fn add(into: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        match into.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => {
                into.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Keeps the larger amount of each resource.
pub fn maximum(into: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if into.get(name).is_none_or(|known| amount > known) {
            into.insert(name.clone(), amount.clone());
        }
    }
}

/// The requests or limits of a whole pod as its spec has them. What the pod says for itself wins, if pods may do so.
pub fn of_pod(pod: &Value, which: &str, pod_level: bool) -> ResourceList {
    let mut total = of_containers(pod, |container| list(container.at(&["resources", which])));
    if pod_level {
        let own = list(pod.at(&["spec", "resources", which]));
        total.extend(own.into_iter().filter(|(name, _)| name == "cpu" || name == "memory"));
    }
    total
}

/// What containers need together: they all run at once; init containers run one by one before them, each beside the sidecars
/// that started before it.
pub fn of_containers(pod: &Value, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in pod.list_at(&["spec", "containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut largest) = (ResourceList::new(), ResourceList::new());
    for container in pod.list_at(&["spec", "initContainers"]) {
        let own = of(container);
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            maximum(&mut largest, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            maximum(&mut largest, &together);
        }
    }
    maximum(&mut total, &largest);
    total
}
