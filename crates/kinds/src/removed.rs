//! Versions that are not served any more but may still be in storage, and how their objects become those of the stored
//! version. Versions that differ in nothing but their name need no conversion and are not listed.

use std::sync::Arc;

use object::{Meta, Value, value};
use registry::Convert;

use crate::{Conversions, events};

const ROLLBACK_TO: &str = "deprecated.deployment.rollback.rollbackTo";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const KEEP_ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const MATCH_BY_VERSION: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Group, version and resource of each, as the catalog takes them.
pub fn conversions() -> Conversions {
    let flow = "flowcontrol.apiserver.k8s.io";
    let rows: [(&str, &str, &str, fn(&mut Value)); 15] = [
        ("apps", "v1beta1", "deployments", rollback_to_annotation),
        ("extensions", "v1beta1", "deployments", rollback_to_annotation),
        ("extensions", "v1beta1", "daemonsets", template_generation_to_annotation),
        ("extensions", "v1beta1", "ingresses", ingress),
        ("networking.k8s.io", "v1beta1", "ingresses", ingress),
        ("discovery.k8s.io", "v1beta1", "endpointslices", endpoint_topology),
        (flow, "v1beta1", "prioritylevelconfigurations", assured_shares),
        (flow, "v1beta2", "prioritylevelconfigurations", assured_shares),
        (flow, "v1beta3", "prioritylevelconfigurations", drop_shares_annotation),
        ("node.k8s.io", "v1alpha1", "runtimeclasses", runtime_class),
        ("policy", "v1beta1", "poddisruptionbudgets", empty_selector),
        (RBAC, "v1alpha1", "rolebindings", subjects),
        (RBAC, "v1alpha1", "clusterrolebindings", subjects),
        ("apps", "v1beta1", "statefulsets", claim_templates),
        ("apps", "v1beta2", "statefulsets", claim_templates),
    ];
    let converted = rows.map(|(group, version, resource, change)| {
        let convert: Arc<dyn Convert> = Arc::new(Removed(change));
        (group, version, resource, convert)
    });
    let mut all: Conversions = converted.into();
    all.push(("events.k8s.io", "v1beta1", "events", Arc::new(events::Conversion)));
    all
}

/// A version that is only read.
struct Removed(fn(&mut Value));

impl Convert for Removed {
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        (self.0)(&mut object);
        Ok(object)
    }

    fn from_storage(&self, object: Value) -> Result<Value, String> {
        Err(format!("{} is of a version that is not served", object.name()))
    }
}

fn rollback_to_annotation(deployment: &mut Value) {
    if let Some(rollback) = deployment.remove(&["spec", "rollbackTo"]) {
        let revision = rollback.field("revision").as_int().unwrap_or(0);
        deployment.set_annotation(ROLLBACK_TO, &revision.to_string());
    }
}

fn template_generation_to_annotation(daemon_set: &mut Value) {
    if let Some(generation) = daemon_set.remove(&["spec", "templateGeneration"]) {
        daemon_set.set_annotation(TEMPLATE_GENERATION, &generation.as_int().unwrap_or(0).to_string());
    }
}

/// Claims inside a StatefulSet have no type of their own, as in the stored version.
fn claim_templates(stateful_set: &mut Value) {
    let templates = stateful_set.at_mut(&["spec", "volumeClaimTemplates"]).and_then(Value::as_list_mut);
    for template in templates.into_iter().flatten() {
        template.remove(&["apiVersion"]);
        template.remove(&["kind"]);
    }
}

fn ingress(ingress: &mut Value) {
    if let Some(mut backend) = ingress.remove(&["spec", "backend"]) {
        ingress_backend(&mut backend);
        ingress.set(&["spec", "defaultBackend"], backend);
    }
    for rule in ingress.at_mut(&["spec", "rules"]).and_then(Value::as_list_mut).into_iter().flatten() {
        for path in rule.at_mut(&["http", "paths"]).and_then(Value::as_list_mut).into_iter().flatten() {
            path.set_default(&["pathType"], "ImplementationSpecific");
            path.at_mut(&["backend"]).into_iter().for_each(ingress_backend);
        }
    }
}

fn ingress_backend(backend: &mut Value) {
    let name = backend.remove(&["serviceName"]).unwrap_or_default();
    let port = backend.remove(&["servicePort"]).unwrap_or_default();
    let port = match &port {
        Value::String(name) => value!({"name": (name.clone())}),
        port => match port.as_int() {
            Some(number) if number != 0 => value!({"number": number}),
            _ => Value::Null,
        },
    };
    if name.is_empty() && port.is_null() {
        return;
    }
    backend.set(&["service", "name"], name);
    if !port.is_null() {
        backend.set(&["service", "port"], port);
    }
}

fn endpoint_topology(slice: &mut Value) {
    for endpoint in slice.at_mut(&["endpoints"]).and_then(Value::as_list_mut).into_iter().flatten() {
        let Some(mut topology) = endpoint.remove(&["topology"]) else { continue };
        if let Some(zone) = topology.remove(&["topology.kubernetes.io/zone"]) {
            endpoint.set(&["zone"], zone);
        }
        let hostname = topology.field("kubernetes.io/hostname");
        if !hostname.is_null() && hostname == endpoint.field("nodeName") {
            topology.remove(&["kubernetes.io/hostname"]);
        }
        if !topology.is_empty() {
            endpoint.set(&["deprecatedTopology"], topology);
        }
    }
}

fn assured_shares(level: &mut Value) {
    if let Some(shares) = level.remove(&["spec", "limited", "assuredConcurrencyShares"]) {
        level.set(&["spec", "limited", "nominalConcurrencyShares"], shares);
    }
}

fn drop_shares_annotation(level: &mut Value) {
    level.remove(&["metadata", "annotations", KEEP_ZERO_SHARES]);
}

fn runtime_class(class: &mut Value) {
    let mut spec = class.remove(&["spec"]).unwrap_or_default();
    for (from, to) in [("runtimeHandler", "handler"), ("overhead", "overhead"), ("scheduling", "scheduling")] {
        if let Some(value) = spec.remove(&[from]) {
            class.set(&[to], value);
        }
    }
}

/// In policy/v1beta1 an empty selector matches no pod, in v1 all of them.
fn empty_selector(budget: &mut Value) {
    let path = ["spec", "selector"];
    let selector = budget.at(&path);
    if selector.is_null() {
        return;
    }
    let expressions = selector.list_at(&["matchExpressions"]);
    let is_special = |expression: &Value| expression.str_at(&["key"]) == MATCH_BY_VERSION;
    let no_labels = selector.at(&["matchLabels"]).is_empty();
    match expressions {
        [] if no_labels => {
            let nothing = value!({"matchExpressions": [{"key": MATCH_BY_VERSION, "operator": "Exists"}]});
            budget.set(&path, nothing);
        }
        [only] if no_labels && is_special(only) && only.str_at(&["operator"]) == "DoesNotExist" => {
            budget.set(&path, Value::map());
        }
        _ => {
            let expressions = budget.at_mut(&["spec", "selector", "matchExpressions"]).and_then(Value::as_list_mut);
            expressions.into_iter().for_each(|all| all.retain(|expression| !is_special(expression)));
        }
    }
}

/// Subjects had a version instead of a group, and the user `*` meant all authenticated users.
fn subjects(binding: &mut Value) {
    for subject in binding.at_mut(&["subjects"]).and_then(Value::as_list_mut).into_iter().flatten() {
        let version = subject.remove(&["apiVersion"]).unwrap_or_default();
        let group = match subject.str_at(&["kind"]) {
            "ServiceAccount" => "",
            "User" | "Group" => RBAC,
            _ => version.as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group),
        };
        let group = group.to_string();
        subject.set(&["apiGroup"], group);
        if subject.str_at(&["kind"]) == "User" && subject.str_at(&["name"]) == "*" {
            subject.set(&["kind"], "Group");
            subject.set(&["name"], "system:authenticated");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    fn check(group: &str, version: &str, resource: &str, old: &str, want: &str) {
        let all = conversions();
        let found = all.iter().find(|(g, v, r, _)| (*g, *v, *r) == (group, version, resource));
        let (_, _, _, convert) = found.unwrap();
        assert_eq!(convert.to_storage(yaml(old)).unwrap(), yaml(want), "{group}/{version} {resource}: {old}");
    }

    /// Group, version and resource; the old object; the stored one.
    const CASES: &[(&str, &str, &str)] = &[
        (
            "apps v1beta1 deployments",
            "spec: {rollbackTo: {revision: 3}, replicas: 1}",
            "{metadata: {annotations: {deprecated.deployment.rollback.rollbackTo: '3'}}, spec: {replicas: 1}}",
        ),
        ("extensions v1beta1 deployments", "spec: {replicas: 1}", "spec: {replicas: 1}"),
        (
            "extensions v1beta1 daemonsets",
            "spec: {templateGeneration: 7}",
            "{metadata: {annotations: {deprecated.daemonset.template.generation: '7'}}, spec: {}}",
        ),
        (
            "apps v1beta2 statefulsets",
            "spec: {volumeClaimTemplates: [{kind: PersistentVolumeClaim, apiVersion: v1, spec: {}}]}",
            "spec: {volumeClaimTemplates: [{spec: {}}]}",
        ),
        (
            "extensions v1beta1 ingresses",
            "spec: {backend: {serviceName: s, servicePort: 80}}",
            "spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}",
        ),
        (
            "networking.k8s.io v1beta1 ingresses",
            "spec: {rules: [{http: {paths: [{path: /, backend: {serviceName: s, servicePort: web}}, {pathType: Exact, backend: {resource: {kind: K}}}]}}]}",
            "spec: {rules: [{http: {paths: [{path: /, pathType: ImplementationSpecific, backend: {service: {name: s, port: {name: web}}}}, \
          {pathType: Exact, backend: {resource: {kind: K}}}]}}]}",
        ),
        (
            "discovery.k8s.io v1beta1 endpointslices",
            "endpoints: [{nodeName: n, topology: {topology.kubernetes.io/zone: z, kubernetes.io/hostname: n}}, {topology: {kubernetes.io/hostname: m, a: b}}]",
            "endpoints: [{nodeName: n, zone: z}, {deprecatedTopology: {kubernetes.io/hostname: m, a: b}}]",
        ),
        (
            "flowcontrol.apiserver.k8s.io v1beta2 prioritylevelconfigurations",
            "spec: {limited: {assuredConcurrencyShares: 5}}",
            "spec: {limited: {nominalConcurrencyShares: 5}}",
        ),
        (
            "flowcontrol.apiserver.k8s.io v1beta3 prioritylevelconfigurations",
            "metadata: {annotations: {flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: '', a: b}}",
            "metadata: {annotations: {a: b}}",
        ),
        (
            "node.k8s.io v1alpha1 runtimeclasses",
            "spec: {runtimeHandler: runc, overhead: {podFixed: {cpu: 1}}}",
            "{handler: runc, overhead: {podFixed: {cpu: 1}}}",
        ),
        ("policy v1beta1 poddisruptionbudgets", "spec: {minAvailable: 1}", "spec: {minAvailable: 1}"),
        (
            "policy v1beta1 poddisruptionbudgets",
            "spec: {selector: {}}",
            "spec: {selector: {matchExpressions: [{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: Exists}]}}",
        ),
        (
            "policy v1beta1 poddisruptionbudgets",
            "spec: {selector: {matchExpressions: [{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: DoesNotExist}]}}",
            "spec: {selector: {}}",
        ),
        (
            "policy v1beta1 poddisruptionbudgets",
            "spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: Exists}]}}",
            "spec: {selector: {matchLabels: {a: b}, matchExpressions: []}}",
        ),
        (
            "rbac.authorization.k8s.io v1alpha1 rolebindings",
            "subjects: [{kind: User, name: '*'}, {kind: User, name: u}, {kind: ServiceAccount, name: s, apiVersion: v1}, {kind: X, name: x, apiVersion: g/v1}]",
            "subjects: [{kind: Group, name: 'system:authenticated', apiGroup: rbac.authorization.k8s.io}, {kind: User, name: u, apiGroup: rbac.authorization.k8s.io}, \
          {kind: ServiceAccount, name: s, apiGroup: ''}, {kind: X, name: x, apiGroup: g}]",
        ),
        ("events.k8s.io v1beta1 events", "{note: n, regarding: {name: p}}", "{message: n, involvedObject: {name: p}}"),
    ];

    #[test]
    fn objects_of_removed_versions_become_those_of_stored_ones() {
        for (id, old, want) in CASES {
            let mut words = id.split(' ');
            let mut word = || words.next().unwrap();
            check(word(), word(), word(), old, want);
        }
    }
}
