//! The row of a service in a table.

use std::collections::BTreeSet;

use object::labels::{cell, format_labels};
use object::{Map, Meta, Value};
use registry::{Context, columns};

use super::facts::*;

pub fn cells(cx: &Context, service: &Value) -> Vec<Value> {
    let selector = service.at(&["spec", "selector"]).as_map();
    let pairs = selector.into_iter().flat_map(Map::iter).map(|(key, value)| (key, value.as_str().unwrap_or("")));
    vec![
        service.name().into(),
        kind(service).into(),
        cluster_ips(service).first().copied().unwrap_or("<none>").into(),
        external_address(service).into(),
        ports_cell(service).into(),
        columns::age(cx, service),
        cell(format_labels(pairs)).into(),
    ]
}

fn external_address(service: &Value) -> String {
    let external = || service.list_at(&["spec", "externalIPs"]).iter().filter_map(Value::as_str);
    let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_string() } else { text };
    match kind(service) {
        "ClusterIP" | "NodePort" => or(external().collect::<Vec<_>>().join(","), "<none>"),
        "LoadBalancer" => {
            let addresses: BTreeSet<&str> = service
                .list_at(&["status", "loadBalancer", "ingress"])
                .iter()
                .map(ingress)
                .filter(|a| !a.is_empty())
                .collect();
            or(addresses.into_iter().chain(external()).collect::<Vec<_>>().join(","), "<pending>")
        }
        "ExternalName" => service.str_at(&["spec", "externalName"]).to_string(),
        _ => "<unknown>".to_string(),
    }
}

fn ingress(ingress: &Value) -> &str {
    match ingress.str_at(&["ip"]) {
        "" => ingress.str_at(&["hostname"]),
        ip => ip,
    }
}

fn ports_cell(service: &Value) -> String {
    let text = |port: &Value| {
        let (number, protocol) = (port_number(port), port.str_at(&["protocol"]));
        match node_port(port) {
            node if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let texts: Vec<String> = ports(service).iter().map(text).collect();
    cell(texts.join(","))
}
