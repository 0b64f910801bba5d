//! LimitRanger: containers get the requests and limits that the namespace's LimitRanges set by default, and containers, pods and
//! claims have to keep to the bounds.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Meta, Status, Value};

use super::forbidden;
use super::resources::{self, ResourceList};
use crate::{Attributes, Operation, Plugin};

pub struct LimitRanger;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest amount whose thousandths fit into 64 bits.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

#[async_trait]
impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if attributes.resource.resource == "pods" {
            for range in ranges(attributes, old) {
                set_defaults(object, &range);
            }
        }
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        for range in ranges(attributes, old) {
            let limits = range.list_at(&["spec", "limits"]);
            let problems = match attributes.resource.resource.as_str() {
                "pods" => pod_problems(attributes, limits, object),
                _ => claim_problems(limits, object),
            };
            if !problems.is_empty() {
                return Err(forbidden(attributes, object::aggregate(problems)));
            }
        }
        Ok(())
    }
}

/// The LimitRanges that apply to a request: to new pods and resized ones, and to claims.
fn ranges(attributes: &Attributes<'_>, old: Option<&Value>) -> Vec<Arc<Value>> {
    let update = attributes.operation == Operation::Update;
    let about = (attributes.resource.group.as_str(), attributes.resource.resource.as_str(), attributes.subresource);
    let applies = match about {
        ("", "pods", "") => !update,
        ("", "pods", "resize") => update,
        ("", "persistentvolumeclaims", "") => true,
        _ => false,
    };
    // An object that is being deleted can always be updated, so that its finalizers can be removed.
    let deleted = old.is_some_and(|old| !old.at(&["metadata", "deletionTimestamp"]).is_null());
    if applies && !deleted { attributes.cx.lookup.list("", "limitranges", attributes.cx.namespace) } else { Vec::new() }
}

fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (object::Map::new(), object::Map::new());
    for limit in range.list_at(&["spec", "limits"]).iter().filter(|limit| limit.str_at(&["type"]) == "Container") {
        for (into, field) in [(&mut requests, "defaultRequest"), (&mut limits, "default")] {
            for (name, amount) in limit.field(field).as_map().into_iter().flat_map(|map| map.iter()) {
                into.insert(name, amount.clone());
            }
        }
    }
    let mut notes = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = pod.at_mut(&["spec", field]).and_then(Value::as_list_mut) else { continue };
        for container in containers {
            let name = container.str_at(&["name"]).to_string();
            for (field, word, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let set = fill(container, field, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {word} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        pod.set_annotation(ANNOTATION, &format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Sets what is missing and returns its names.
fn fill<'a>(container: &mut Value, field: &str, defaults: &'a object::Map) -> Vec<&'a str> {
    let given = container.at(&["resources", field]);
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| given.get(name).is_none()).collect();
    for (name, amount) in &missing {
        container.set(&["resources", field, name], (*amount).clone());
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

fn pod_problems(attributes: &Attributes<'_>, limits: &[Value], pod: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for limit in limits {
        match limit.str_at(&["type"]) {
            "Container" => {
                for container in ["containers", "initContainers"].iter().flat_map(|f| pod.list_at(&["spec", f])) {
                    let requests = resources::list(container.at(&["resources", "requests"]));
                    let limits = resources::list(container.at(&["resources", "limits"]));
                    bounds(limit, &requests, &limits, &mut problems);
                }
            }
            "Pod" => {
                let pod_level = attributes.cx.features.enabled("PodLevelResources");
                let requests = resources::of_pod(pod, "requests", pod_level);
                let limits = resources::of_pod(pod, "limits", pod_level);
                bounds(limit, &requests, &limits, &mut problems);
            }
            _ => {}
        }
    }
    problems
}

fn claim_problems(limits: &[Value], claim: &Value) -> Vec<String> {
    let requests = resources::list(claim.at(&["spec", "resources", "requests"]));
    let mut problems = Vec::new();
    for limit in limits.iter().filter(|limit| limit.str_at(&["type"]) == "PersistentVolumeClaim") {
        for (name, bound) in resources::list(limit.field("min")) {
            problems.extend(Bound::new(limit, &name, &bound).minimum(requests.get(&name), None));
        }
        for (name, bound) in resources::list(limit.field("max")) {
            problems.extend(Bound::new(limit, &name, &bound).maximum_request(requests.get(&name)));
        }
    }
    problems
}

fn bounds(limit: &Value, requests: &ResourceList, limits: &ResourceList, problems: &mut Vec<String>) {
    for (name, bound) in resources::list(limit.field("min")) {
        problems.extend(Bound::new(limit, &name, &bound).minimum(requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in resources::list(limit.field("max")) {
        problems.extend(Bound::new(limit, &name, &bound).maximum(requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in resources::list(limit.field("maxLimitRequestRatio")) {
        problems.extend(Bound::new(limit, &name, &bound).ratio(requests.get(&name), limits.get(&name)));
    }
}

/// A bound on one resource of containers, pods or claims.
struct Bound<'a> {
    kind: &'a str,
    resource: &'a str,
    bound: &'a Quantity,
}

impl<'a> Bound<'a> {
    fn new(limit: &'a Value, resource: &'a str, bound: &'a Quantity) -> Bound<'a> {
        Bound { kind: limit.str_at(&["type"]), resource, bound }
    }

    fn minimum(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let base = format!("minimum {} usage per {} is {}", self.resource, self.kind, self.bound);
        let (asked, limited, bound) = comparable(request, limit, self.bound);
        match (request, limit) {
            (None, _) => Some(format!("{base}.  No request is specified")),
            (Some(request), _) if asked < bound => Some(format!("{base}, but request is {request}")),
            (_, Some(limit)) if limited < bound => Some(format!("{base}, but limit is {limit}")),
            _ => None,
        }
    }

    fn maximum(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let base = format!("maximum {} usage per {} is {}", self.resource, self.kind, self.bound);
        let (asked, limited, bound) = comparable(request, limit, self.bound);
        match (request, limit) {
            (_, None) => Some(format!("{base}.  No limit is specified")),
            (_, Some(limit)) if limited > bound => Some(format!("{base}, but limit is {limit}")),
            (Some(request), _) if asked > bound => Some(format!("{base}, but request is {request}")),
            _ => None,
        }
    }

    fn maximum_request(&self, request: Option<&Quantity>) -> Option<String> {
        let base = format!("maximum {} usage per {} is {}", self.resource, self.kind, self.bound);
        let (asked, _, bound) = comparable(request, None, self.bound);
        match request {
            None => Some(format!("{base}.  No request is specified")),
            Some(request) if asked > bound => Some(format!("{base}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let base = format!("{} max limit to request ratio per {} is {}", self.resource, self.kind, self.bound);
        let (asked, limited, _) = comparable(request, limit, self.bound);
        if asked == 0 {
            return Some(format!("{base}, but no request is specified or request is 0"));
        }
        if limited == 0 {
            return Some(format!("{base}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / asked as f64;
        let too_large = if self.bound.value() <= MAX_MILLI_VALUE {
            ratio * 1000.0 > self.bound.milli_value() as f64
        } else {
            ratio > self.bound.value() as f64
        };
        too_large.then(|| format!("{base}, but provided ratio is {ratio:.6}"))
    }
}

/// The amounts in thousandths, or in units if one of them is too large for that; what is missing counts as zero.
fn comparable(request: Option<&Quantity>, limit: Option<&Quantity>, bound: &Quantity) -> (i64, i64, i64) {
    let whole = |amount: Option<&Quantity>| amount.map_or(0, Quantity::value);
    let milli = |amount: Option<&Quantity>| amount.map_or(0, Quantity::milli_value);
    let units = (whole(request), whole(limit), bound.value());
    if [units.0, units.1, units.2].iter().all(|amount| *amount <= MAX_MILLI_VALUE) {
        (milli(request), milli(limit), bound.milli_value())
    } else {
        units
    }
}
