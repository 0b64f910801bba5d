//! What the containers of a pod use together.

use std::collections::BTreeMap;

use object::Value;
use object::quantity::Quantity;

use registry::Features;

use super::visit::is_sidecar;
use crate::common::checks::quantity;
use crate::common::resources::is_pod_level;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// What a pod's containers ask for (`requests`) or may use (`limits`) at the same time: regular containers and sidecars
/// together, or an init container with the sidecars before it, whichever is more.
pub fn of_containers(spec: &Value, which: &str) -> Amounts {
    let own = |container: &Value| -> Amounts { of_list(container.at(&["resources", which])) };
    let mut total = Amounts::new();
    for container in spec.list_at(&["containers"]) {
        add(&mut total, &own(container));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.list_at(&["initContainers"]) {
        let mut amounts = own(container);
        if is_sidecar(container) {
            add(&mut total, &amounts);
            add(&mut sidecars, &amounts);
            amounts = sidecars.clone();
        } else {
            add(&mut amounts, &sidecars);
        }
        raise(&mut most, &amounts);
    }
    raise(&mut total, &most);
    total
}

/// The amounts of a resource list.
pub fn of_list(list: &Value) -> Amounts {
    let entries = list.as_map().into_iter().flat_map(|map| map.iter());
    entries.map(|(name, amount)| (name.to_string(), quantity(amount))).collect()
}

/// Adds amounts resource by resource.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => {
                total.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Raises amounts to what `least` has.
pub fn raise(amounts: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        match amounts.get_mut(name) {
            Some(current) if *current >= *amount => {}
            Some(current) => *current = amount.clone(),
            None => {
                amounts.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Whether a pod asks for resources as a whole.
pub fn has_pod_level_resources(spec: &Value) -> bool {
    let of_pod = |which: &&str| spec.at(&["resources", which]).as_map();
    ["requests", "limits"].iter().filter_map(of_pod).any(|map| map.keys().any(is_pod_level))
}

/// The quality of service class a pod's resources give it.
pub fn qos_class(features: &Features, spec: &Value) -> &'static str {
    let resources = spec.field("resources");
    let of_pod = match features.enabled("PodLevelResourcesFixKubeletQOSClass") {
        true => has_pod_level_resources(spec),
        false => !resources.is_null(),
    };
    if features.enabled("PodLevelResources") && of_pod {
        return qos_of(resources);
    }
    let containers = spec.list_at(&["initContainers"]).iter().chain(spec.list_at(&["containers"]));
    let mut class = None;
    for container in containers {
        match (class, qos_of(container.field("resources"))) {
            (_, "Burstable") => return "Burstable",
            (None, own) => class = Some(own),
            (Some(class), own) if class != own => return "Burstable",
            _ => {}
        }
    }
    class.unwrap_or("BestEffort")
}

/// Guaranteed if cpu and memory are set and may not be exceeded, BestEffort if neither is set.
fn qos_of(resources: &Value) -> &'static str {
    let of = |name: &str| {
        let (request, limit) = (quantity(resources.at(&["requests", name])), quantity(resources.at(&["limits", name])));
        match (request == limit, request.is_zero()) {
            (false, _) => "Burstable",
            (true, true) => "BestEffort",
            (true, false) => "Guaranteed",
        }
    };
    match (of("cpu"), of("memory")) {
        (cpu, memory) if cpu == memory => cpu,
        _ => "Burstable",
    }
}
