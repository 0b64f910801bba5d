//! What a service's fields say about it, read from the object.

use object::Value;

pub const NONE: &str = "None";

pub fn kind(service: &Value) -> &str {
    service.str_at(&["spec", "type"])
}

pub fn cluster_ip(service: &Value) -> &str {
    service.str_at(&["spec", "clusterIP"])
}

pub fn cluster_ips(service: &Value) -> Vec<&str> {
    texts(service, "clusterIPs")
}

pub fn ip_families(service: &Value) -> Vec<&str> {
    texts(service, "ipFamilies")
}

/// The policy, "" if there is none.
pub fn ip_family_policy(service: &Value) -> &str {
    service.str_at(&["spec", "ipFamilyPolicy"])
}

pub fn ports(service: &Value) -> &[Value] {
    service.list_at(&["spec", "ports"])
}

/// The node ports that are set, in order, as often as they occur.
pub fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|port| *port != 0).collect()
}

pub fn node_port(port: &Value) -> i64 {
    port.field("nodePort").as_int().unwrap_or(0)
}

pub fn port_number(port: &Value) -> i64 {
    port.field("port").as_int().unwrap_or(0)
}

pub fn health_check_port(service: &Value) -> i64 {
    service.at(&["spec", "healthCheckNodePort"]).as_int().unwrap_or(0)
}

/// No cluster address on purpose: clients talk to the pods themselves.
pub fn is_headless(service: &Value) -> bool {
    cluster_ips(service) == [NONE]
}

/// Everything but an ExternalName has a cluster address, even if it is `None`.
pub fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

/// Whether the type has node ports at all.
pub fn may_have_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

/// Whether ports that have no node port get one.
pub fn allocates_node_ports(service: &Value) -> bool {
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => service.at(&["spec", "allocateLoadBalancerNodePorts"]).as_bool().unwrap_or(true),
        _ => false,
    }
}

pub fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

pub fn is_externally_accessible(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !service.list_at(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

pub fn has_selector(service: &Value) -> bool {
    !service.at(&["spec", "selector"]).is_empty()
}

fn texts<'a>(service: &'a Value, field: &str) -> Vec<&'a str> {
    service.list_at(&["spec", field]).iter().map(|item| item.as_str().unwrap_or("")).collect()
}
