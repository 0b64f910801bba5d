//! Updates: what clients may leave out, and what goes when the type changes.

use std::collections::BTreeSet;

use object::{Value, value};

use super::facts::*;
use crate::common::named;

/// Keeps `clusterIPs` in step with `clusterIP` for clients that only know the one. `old` is None on creation.
pub fn normalize_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let Some(old) = old else {
        if !cluster_ip(new).is_empty() && cluster_ips(new).is_empty() {
            let only = cluster_ip(new).to_string();
            new.set(&["spec", "clusterIPs"], vec![only]);
        }
        return;
    };
    let same_single = cluster_ip(old) == cluster_ip(new);
    if cluster_ips(new).is_empty() && !cluster_ips(old).is_empty() && same_single {
        new.keep(&["spec", "clusterIPs"], old);
    }
    if !same_single && cluster_ips(old) == cluster_ips(new) {
        let single = cluster_ip(new).to_string();
        if single.is_empty() {
            new.remove(&["spec", "clusterIPs"]);
        } else {
            new.set(&["spec", "clusterIPs"], vec![single]);
        }
    }
}

/// Fills in what was allocated before and the client did not send, so that the same document can be applied twice.
pub fn patch_allocated_values(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if cluster_ip(new).is_empty() {
            new.keep(&["spec", "clusterIP"], old);
        }
        if cluster_ips(new).is_empty() && !cluster_ips(old).is_empty() {
            new.keep(&["spec", "clusterIPs"], old);
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(new) {
        patch_node_ports(new, old);
    }
    if needs_health_check(old) && needs_health_check(new) && health_check_port(new) == 0 {
        new.keep(&["spec", "healthCheckNodePort"], old);
    }
}

/// Ports are matched by name; a node port that the new service uses elsewhere is not given a second time.
fn patch_node_ports(new: &mut Value, old: &Value) {
    let requested: BTreeSet<i64> = node_ports(new).into_iter().collect();
    let used: BTreeSet<i64> = node_ports(old).into_iter().filter(|port| requested.contains(port)).collect();
    let by_name = named::last_by_name(ports(old));
    let Some(ports) = new.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut) else { return };
    for port in ports.iter_mut().filter(|port| node_port(port) == 0) {
        let before = by_name.get(port.str_at(&["name"])).map_or(0, |port| node_port(port));
        if before != 0 && !used.contains(&before) {
            port.set(&["nodePort"], before);
        }
    }
}

/// Takes away what the new type has no use for, unless the client changed it, which is for validation to judge.
pub fn drop_type_dependent(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        drop_addresses(new, old);
    }
    if may_have_node_ports(old) && !may_have_node_ports(new) && adds_no_node_port(new, old) {
        let ports = new.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
        for port in ports.into_iter().flatten() {
            port.remove(&["nodePort"]);
        }
    }
    if needs_health_check(old) && !needs_health_check(new) && health_check_port(old) == health_check_port(new) {
        new.remove(&["spec", "healthCheckNodePort"]);
    }
    let was_load_balancer = kind(old) == "LoadBalancer" && kind(new) != "LoadBalancer";
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if was_load_balancer && same(new, old, field) {
            new.remove(&["spec", field]);
        }
    }
    let policy = "externalTrafficPolicy";
    if is_externally_accessible(old) && !is_externally_accessible(new) && same(new, old, policy) {
        new.remove(&["spec", policy]);
    }
    if kind(new) != "LoadBalancer" {
        new.set(&["status", "loadBalancer"], value!({}));
    }
}

fn drop_addresses(new: &mut Value, old: &Value) {
    if cluster_ip(new) == cluster_ip(old) && cluster_ips(new) == cluster_ips(old) {
        new.remove(&["spec", "clusterIP"]);
        new.remove(&["spec", "clusterIPs"]);
    }
    if ip_families(new) == ip_families(old) {
        new.remove(&["spec", "ipFamilies"]);
    }
    if ip_family_policy(new) == ip_family_policy(old) {
        new.remove(&["spec", "ipFamilyPolicy"]);
    }
}

fn adds_no_node_port(new: &Value, old: &Value) -> bool {
    let before = node_ports(old);
    node_ports(new).iter().all(|port| before.contains(port))
}

fn same(new: &Value, old: &Value, field: &str) -> bool {
    new.at(&["spec", field]) == old.at(&["spec", field])
}
