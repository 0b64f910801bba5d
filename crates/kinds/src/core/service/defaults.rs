//! Defaults: what each type of service assumes.

use object::Value;

use super::facts;

const AFFINITY_SECONDS: i64 = 3 * 60 * 60;

pub fn apply(service: &mut Value) {
    let spec = service.slot(&["spec"]);
    default_text(spec, "sessionAffinity", "None");
    match spec.str_at(&["sessionAffinity"]) {
        "None" => {
            spec.remove(&["sessionAffinityConfig"]);
        }
        "ClientIP" => spec.set_default(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"], AFFINITY_SECONDS),
        _ => {}
    }
    default_text(spec, "type", "ClusterIP");
    for port in spec.get_mut("ports").and_then(Value::as_list_mut).into_iter().flatten() {
        default_port(port);
    }
    if facts::is_externally_accessible(service) {
        default_text(service.slot(&["spec"]), "externalTrafficPolicy", "Cluster");
    }
    if matches!(facts::kind(service), "ClusterIP" | "NodePort" | "LoadBalancer") {
        service.set_default(&["spec", "internalTrafficPolicy"], "Cluster");
    }
    if facts::kind(service) == "LoadBalancer" {
        service.set_default(&["spec", "allocateLoadBalancerNodePorts"], true);
        let ingresses = service.at_mut(&["status", "loadBalancer", "ingress"]).and_then(Value::as_list_mut);
        for ingress in ingresses.into_iter().flatten().filter(|ingress| !ingress.str_at(&["ip"]).is_empty()) {
            ingress.set_default(&["ipMode"], "VIP");
        }
    }
}

fn default_port(port: &mut Value) {
    default_text(port, "protocol", "TCP");
    if port.field("targetPort").is_empty() {
        let number = facts::port_number(port);
        port.set(&["targetPort"], number);
    }
}

/// Sets a string that is missing or empty.
fn default_text(of: &mut Value, field: &str, text: &str) {
    if of.str_at(&[field]).is_empty() {
        of.set(&[field], text);
    }
}
