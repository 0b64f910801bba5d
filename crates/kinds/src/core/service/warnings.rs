//! What to warn the author of a service about.

use object::{Cursor, Meta, Value, names};

use super::facts::*;

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

pub fn of_service(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |text: &str| warnings.push(text.to_string());
    let spec = Cursor::root(service).field("spec");
    if service.annotation(TOPOLOGY_HINTS).is_some() {
        warn(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
        );
    }
    let mut found = Vec::new();
    if !matches!(cluster_ip(service), "" | NONE) {
        found.extend(spec.field("clusterIPs").each().filter_map(ip_warning));
    }
    let external = spec.field("externalIPs");
    let headless = kind(service) == "ClusterIP" && cluster_ip(service) == NONE;
    if headless {
        let ignored = [
            ("loadBalancerIP", !spec.field("loadBalancerIP").is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", spec.field("sessionAffinity").str() != "None"),
        ];
        let ignored = ignored.into_iter().filter(|(_, set)| *set);
        found.extend(ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")));
    }
    found.extend(external.each().filter_map(ip_warning));
    if !external.is_empty() && !headless && kind(service) != "ExternalName" {
        found.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_string());
    }
    if !spec.field("loadBalancerIP").is_empty() {
        found.extend(ip_warning(spec.field("loadBalancerIP")));
    }
    let ranges = spec.field("loadBalancerSourceRanges").each();
    found.extend(ranges.flat_map(|range| names::cidr_warnings(&range.path().to_string(), range.str())));
    warnings.extend(found);
    warnings.extend(of_type(service, &spec));
    warnings
}

fn of_type(service: &Value, spec: &Cursor) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_name = kind(service) == "ExternalName";
    if is_name && !spec.field("externalIPs").is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_string());
    }
    if !is_name && !spec.field("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_string());
    }
    if spec.field("trafficDistribution").str() == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_string());
    }
    warnings
}

pub fn of_status(service: &Value) -> Vec<String> {
    let ingresses = Cursor::root(service).at(&["status", "loadBalancer", "ingress"]).each();
    let with_ip = ingresses.filter(|ingress| !ingress.field("ip").is_empty());
    with_ip.filter_map(|ingress| names::ip_warnings(&ingress.path().to_string(), ingress.field("ip").str())).collect()
}

fn ip_warning(ip: Cursor) -> Option<String> {
    names::ip_warnings(&ip.path().to_string(), ip.str())
}
