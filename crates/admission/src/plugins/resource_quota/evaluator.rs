//! [`Evaluator`]: what an object uses of which resource that quotas count.

use object::quantity::{Format, Quantity};
use object::{Meta, Value};
use registry::Context;

use super::pods;
use crate::plugins::resources::{self, ResourceList};
use crate::{Attributes, Operation};

/// How objects of a kind are counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluator {
    Pods,
    Services,
    Claims,
    DeviceClaims,
    /// Of all other kinds, only the number counts, by one or two names.
    Count(Vec<String>),
}

/// Quotas do not count what is not stored, nor events.
const IGNORED: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

const SERVICES: &[&str] = &["count/services", "services", "services.nodeports", "services.loadbalancers"];
const CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What a request for all devices counts as: no claim can get more.
const ALL_DEVICES: i64 = 32;

impl Evaluator {
    /// The evaluator of a request, None if it cannot change what is used.
    pub fn of(attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Option<Evaluator> {
        let (group, resource) = (attributes.resource.group.as_str(), attributes.resource.resource.as_str());
        let create = attributes.operation == Operation::Create;
        let itself = attributes.subresource.is_empty();
        match (group, resource) {
            ("", "pods") => {
                let terminating = |pod: &Value| pods::is_terminating(pod);
                let changed = old.is_some_and(|old| terminating(old) != terminating(object));
                let resized = attributes.subresource == "resize" && !create;
                ((itself && (create || changed)) || resized).then_some(Evaluator::Pods)
            }
            ("", "services") => itself.then_some(Evaluator::Services),
            ("", "persistentvolumeclaims") => {
                let status = attributes.subresource == "status" && !create;
                (itself || status).then_some(Evaluator::Claims)
            }
            ("resource.k8s.io", "resourceclaims") if attributes.cx.features.enabled("DynamicResourceAllocation") => {
                itself.then_some(Evaluator::DeviceClaims)
            }
            ("resource.k8s.io", "resourceclaims") => {
                (itself && create).then(|| Evaluator::Count(vec![DEVICE_CLAIMS.to_string()]))
            }
            _ if !itself || !create => None,
            _ => Evaluator::of_resource(group, resource),
        }
    }

    /// How the objects of a resource are counted, None if they are not.
    pub fn of_resource(group: &str, resource: &str) -> Option<Evaluator> {
        Some(match (group, resource) {
            about if IGNORED.contains(&about) => return None,
            ("", "pods") => Evaluator::Pods,
            ("", "services") => Evaluator::Services,
            ("", "persistentvolumeclaims") => Evaluator::Claims,
            ("resource.k8s.io", "resourceclaims") => Evaluator::DeviceClaims,
            ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") => {
                Evaluator::Count(vec![format!("count/{resource}"), resource.to_string()])
            }
            ("", _) => Evaluator::Count(vec![format!("count/{resource}")]),
            _ => Evaluator::Count(vec![format!("count/{resource}.{group}")]),
        })
    }

    /// Whether this resource of a quota is counted here.
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Evaluator::Pods => pods::counts(name),
            Evaluator::Services => SERVICES.contains(&name),
            Evaluator::Claims => {
                let by_class =
                    |resource: &&str| name.strip_suffix(*resource).is_some_and(|start| start.ends_with(STORAGE_CLASS));
                name == "count/persistentvolumeclaims" || CLAIMS.contains(&name) || CLAIMS.iter().any(by_class)
            }
            Evaluator::DeviceClaims => name == DEVICE_CLAIMS || name.ends_with(DEVICE_CLASS),
            Evaluator::Count(names) => names.iter().any(|counted| counted == name),
        }
    }

    /// Whether a quota is about this object: it counts something of it, and all its scopes hold it.
    pub fn matches(&self, cx: &Context<'_>, quota: &Value, object: &Value) -> bool {
        let hard = quota.at(&["status", "hard"]).as_map();
        hard.is_some_and(|hard| hard.keys().any(|name| self.counts(name))) && self.in_scopes(cx, quota, object)
    }

    /// Whether all scopes of a quota hold the object.
    pub fn in_scopes(&self, cx: &Context<'_>, quota: &Value, object: &Value) -> bool {
        scopes_of(quota).all(|selector| self.in_scope(cx, &selector, object))
    }

    /// The names of those of a quota's scopes that the object is in.
    pub fn scopes_holding(&self, cx: &Context<'_>, quota: &Value, object: &Value) -> Vec<String> {
        let holding = scopes_of(quota).filter(|selector| self.in_scope(cx, selector, object));
        holding.map(|selector| selector.str_at(&["scopeName"]).to_string()).collect()
    }

    pub fn in_scope(&self, cx: &Context<'_>, selector: &Value, object: &Value) -> bool {
        match self {
            Evaluator::Pods => pods::in_scope(selector, object),
            Evaluator::Claims if cx.features.enabled("VolumeAttributesClass") => {
                selector.str_at(&["scopeName"]) == "VolumeAttributesClass"
                    && selects(selector, &attribute_classes(object))
            }
            _ => false,
        }
    }

    /// What the object would have to say so that it can be counted.
    pub fn missing(&self, cx: &Context<'_>, names: &[&str], object: &Value) -> Option<String> {
        match self {
            Evaluator::Pods => pods::missing(cx, names, object),
            _ => None,
        }
    }

    pub fn usage(&self, cx: &Context<'_>, object: &Value) -> ResourceList {
        match self {
            Evaluator::Pods => pods::usage(cx, object),
            Evaluator::Services => service_usage(object),
            Evaluator::Claims => claim_usage(object),
            Evaluator::DeviceClaims => device_usage(object),
            Evaluator::Count(names) => names.iter().map(|name| (name.clone(), count(1))).collect(),
        }
    }
}

/// The scopes of a quota, however they are written, as selectors.
fn scopes_of(quota: &Value) -> impl Iterator<Item = Value> {
    let exists = |scope: &Value| object::value!({ "scopeName": (scope.clone()), "operator": "Exists" });
    let plain = quota.list_at(&["spec", "scopes"]).iter().map(exists);
    plain.chain(quota.list_at(&["spec", "scopeSelector", "matchExpressions"]).iter().cloned())
}

pub fn count(number: i64) -> Quantity {
    Quantity::new(number, Format::DecimalSi)
}

/// Whether one of these names fits a scope's selector; without any name, whether none is fine.
pub fn selects(selector: &Value, names: &[&str]) -> bool {
    let values = selector.list_at(&["values"]);
    let listed = |name: &&str| values.iter().any(|value| value.as_str() == Some(name));
    match selector.str_at(&["operator"]) {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(listed),
        "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
        _ => false,
    }
}

/// Every class that the claim has, had or should have.
fn attribute_classes(claim: &Value) -> Vec<&str> {
    let names = [
        claim.str_at(&["spec", "volumeAttributesClassName"]),
        claim.str_at(&["status", "currentVolumeAttributesClassName"]),
        claim.str_at(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
    ];
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

fn service_usage(service: &Value) -> ResourceList {
    let ports = service.list_at(&["spec", "ports"]);
    let with_node_port = ports.iter().filter(|port| port.field("nodePort").as_int().unwrap_or(0) != 0).count();
    let allocated = service.at(&["spec", "allocateLoadBalancerNodePorts"]).as_bool() != Some(false);
    let (node_ports, balancers) = match service.str_at(&["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocated => (ports.len(), 1),
        "LoadBalancer" => (with_node_port, 1),
        _ => (0, 0),
    };
    let amounts = [1, 1, node_ports as i64, balancers];
    SERVICES.iter().zip(amounts).map(|(name, amount)| (name.to_string(), count(amount))).collect()
}

fn claim_usage(claim: &Value) -> ResourceList {
    let class = claim
        .annotation("volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]));
    let mut usage = ResourceList::new();
    usage.insert("count/persistentvolumeclaims".to_string(), count(1));
    let mut insert = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            usage.insert(format!("{class}{STORAGE_CLASS}{name}"), amount.clone());
        }
        usage.insert(name.to_string(), amount);
    };
    insert("persistentvolumeclaims", count(1));
    // A claim whose expansion was taken back still holds what was allocated for it.
    let asked = resources::quantity(claim.at(&["spec", "resources", "requests", "storage"]));
    let allocated = resources::quantity(claim.at(&["status", "allocatedResources", "storage"]));
    if let Some(asked) = asked {
        let storage = allocated.filter(|allocated| *allocated > asked).unwrap_or(asked);
        insert("requests.storage", rounded_up(storage));
    }
    usage
}

fn rounded_up(amount: Quantity) -> Quantity {
    let whole = Quantity::new(amount.value(), amount.format());
    if whole > amount { whole } else { amount }
}

fn device_usage(claim: &Value) -> ResourceList {
    let mut usage = ResourceList::new();
    usage.insert(DEVICE_CLAIMS.to_string(), count(1));
    let devices = |request: &Value| {
        let amount = match request.str_at(&["allocationMode"]) {
            "ExactCount" => request.field("count").as_int().unwrap_or(0),
            "All" => ALL_DEVICES,
            _ => 0,
        };
        (format!("{}{DEVICE_CLASS}", request.str_at(&["deviceClassName"])), count(amount))
    };
    for request in claim.list_at(&["spec", "devices", "requests"]) {
        let mut needed = ResourceList::new();
        let choices = request.list_at(&["firstAvailable"]);
        if choices.is_empty() {
            if !request.field("exactly").is_null() {
                needed.extend([devices(request.field("exactly"))]);
            }
        } else {
            // One of them will be taken, and it may be the largest of its class.
            for choice in choices {
                resources::maximum(&mut needed, &ResourceList::from([devices(choice)]));
            }
        }
        resources::add(&mut usage, &needed);
    }
    usage
}
