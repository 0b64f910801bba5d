//! What pods use, and the scopes they are in.

use std::collections::{BTreeMap, BTreeSet};

use object::duration::Duration;
use object::timestamp::Time;
use object::{Value, quantity::Quantity};
use registry::Context;

use super::evaluator::{count, selects};
use crate::plugins::resources::{self, ResourceList};

const COUNT: &str = "count/pods";

/// What every container has to ask for if a quota counts it.
const REQUIRED: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

pub fn counts(name: &str) -> bool {
    let storage = ["ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"];
    let huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    let extended = name.starts_with("requests.")
        && (!is_native(name) || name.starts_with("requests.deviceclass.resource.kubernetes.io/"));
    name == COUNT || name == "pods" || REQUIRED.contains(&name) || storage.contains(&name) || huge || extended
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A pod that ends by itself after some time.
pub fn is_terminating(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).as_int().is_some_and(|seconds| seconds >= 0)
}

pub fn in_scope(selector: &Value, pod: &Value) -> bool {
    match selector.str_at(&["scopeName"]) {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = Some(pod.str_at(&["spec", "priorityClassName"])).filter(|class| !class.is_empty());
            selects(selector, class.as_slice())
        }
        "CrossNamespacePodAffinity" => uses_other_namespaces(pod),
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let known = pod.str_at(&["status", "qosClass"]);
    if !known.is_empty() {
        return known == "BestEffort";
    }
    let asks = |resources: &Value| {
        let lists = ["requests", "limits"].iter().map(|which| resources::list(resources.field(which)));
        let counts = |(name, amount): (&String, &Quantity)| (name == "cpu" || name == "memory") && amount.signum() > 0;
        lists.into_iter().any(|list| list.iter().any(counts))
    };
    let containers = ["containers", "initContainers"].iter().flat_map(|field| pod.list_at(&["spec", field]));
    !asks(pod.at(&["spec", "resources"])) && !containers.into_iter().any(|c| asks(c.field("resources")))
}

fn uses_other_namespaces(pod: &Value) -> bool {
    let other = |term: &Value| !term.list_at(&["namespaces"]).is_empty() || !term.field("namespaceSelector").is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = pod.at(&["spec", "affinity", kind]);
        let required = affinity.list_at(&["requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = affinity.list_at(&["preferredDuringSchedulingIgnoredDuringExecution"]);
        required.iter().any(other) || preferred.iter().any(|term| other(term.field("podAffinityTerm")))
    })
}

/// Which containers do not say how much they need of what.
pub fn missing(cx: &Context<'_>, names: &[&str], pod: &Value) -> Option<String> {
    if cx.features.enabled("PodLevelResources") {
        let own = pod.at(&["spec", "resources"]);
        let set = |which: &str| resources::list(own.field(which)).keys().any(|name| is_pod_level(name));
        if set("requests") || set("limits") {
            return None;
        }
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"].iter().flat_map(|field| pod.list_at(&["spec", field])) {
        let list = |which: &str| resources::list(container.at(&["resources", which]));
        let said = by_quota_name(&list("requests"), &list("limits"));
        for name in names.iter().filter(|name| REQUIRED.contains(name) && !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(container.str_at(&["name"]));
        }
    }
    let joined = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
    let lines: Vec<String> =
        missing.into_iter().map(|(name, containers)| format!("{name} for: {}", joined(containers))).collect();
    (!lines.is_empty()).then(|| format!("must specify {}", lines.join("; ")))
}

fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

pub fn usage(cx: &Context<'_>, pod: &Value) -> ResourceList {
    let mut usage = ResourceList::from([(COUNT.to_string(), count(1))]);
    if is_live(cx, pod) {
        let in_place = cx.features.enabled("InPlacePodVerticalScaling");
        let pod_level = cx.features.enabled("PodLevelResources");
        let mut requests = containers_requests(pod, in_place);
        let mut limits = containers_limits(pod, in_place);
        if pod_level {
            for (total, which) in [(&mut requests, "requests"), (&mut limits, "limits")] {
                let own = resources::list(pod.at(&["spec", "resources", which]));
                total.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
            }
        }
        let overhead = resources::list(pod.at(&["spec", "overhead"]));
        resources::add(&mut requests, &overhead);
        let limited = overhead.into_iter().filter(|(name, _)| limits.get(name).is_some_and(|limit| !limit.is_zero()));
        let limited: ResourceList = limited.collect();
        resources::add(&mut limits, &limited);
        usage.extend(by_quota_name(&requests, &limits));
    }
    usage
}

/// Pods that are done, or should have been gone for long, use nothing any more.
fn is_live(cx: &Context<'_>, pod: &Value) -> bool {
    let deleted = Time::parse(pod.str_at(&["metadata", "deletionTimestamp"])).ok();
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]).as_int();
    let overdue = match (deleted, grace) {
        (Some(deleted), Some(grace)) => cx.now > deleted.0.plus(Duration(grace.saturating_mul(1_000_000_000))),
        _ => false,
    };
    !overdue && !matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded")
}

fn by_quota_name(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::from([("pods".to_string(), count(1))]);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.insert(name.to_string(), request.clone());
            usage.insert(format!("requests.{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests {
        let huge = name.starts_with("hugepages-");
        let extended = (!is_native(name) && !name.starts_with("requests."))
            || name.starts_with("deviceclass.resource.kubernetes.io/");
        if huge {
            usage.insert(name.clone(), request.clone());
        }
        if huge || extended {
            usage.insert(format!("requests.{name}"), request.clone());
        }
    }
    usage
}

/// The most of what containers ask for, what they were given and what they really have while they are being resized.
fn containers_requests(pod: &Value, in_place: bool) -> ResourceList {
    let spec = |container: &Value| resources::list(container.at(&["resources", "requests"]));
    if !in_place {
        return resources::of_containers(pod, spec);
    }
    let infeasible = is_resize_infeasible(pod);
    let wanted = |container: &Value| if infeasible { ResourceList::new() } else { spec(container) };
    let allocated = |container: &Value| match status(pod, container).field("allocatedResources") {
        Value::Null => wanted(container),
        allocated => resources::list(allocated),
    };
    let actual = |container: &Value| match status(pod, container).at(&["resources", "requests"]) {
        Value::Null => allocated(container),
        actual => resources::list(actual),
    };
    let mut total = resources::of_containers(pod, actual);
    resources::maximum(&mut total, &resources::of_containers(pod, allocated));
    if !infeasible {
        resources::maximum(&mut total, &resources::of_containers(pod, spec));
    }
    total
}

fn containers_limits(pod: &Value, in_place: bool) -> ResourceList {
    let spec = |container: &Value| resources::list(container.at(&["resources", "limits"]));
    if !in_place {
        return resources::of_containers(pod, spec);
    }
    let infeasible = is_resize_infeasible(pod);
    let actual = |container: &Value| match status(pod, container).at(&["resources", "limits"]) {
        Value::Null if infeasible => ResourceList::new(),
        Value::Null => spec(container),
        actual => resources::list(actual),
    };
    let mut total = resources::of_containers(pod, actual);
    if !infeasible {
        resources::maximum(&mut total, &resources::of_containers(pod, spec));
    }
    total
}

fn status<'a>(pod: &'a Value, container: &Value) -> &'a Value {
    let name = container.str_at(&["name"]);
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|field| pod.list_at(&["status", field]));
    statuses.find(|status| status.str_at(&["name"]) == name).unwrap_or(&Value::Null)
}

fn is_resize_infeasible(pod: &Value) -> bool {
    let conditions = pod.list_at(&["status", "conditions"]);
    let pending = conditions.iter().find(|condition| condition.str_at(&["type"]) == "PodResizePending");
    pending.is_some_and(|condition| condition.str_at(&["reason"]) == "Infeasible")
}
