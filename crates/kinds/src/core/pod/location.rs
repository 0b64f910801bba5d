//! Where a connection to a pod goes: log, exec, attach, portforward and proxy.

use std::sync::Arc;

use object::{Errors, GroupKind, GroupResource, Meta, Status, Value, names, quote};
use registry::Context;

use super::container::{container_for, log_options};

/// What a connection is made to.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// Nothing yet: the log of a pod that has no node is empty.
    Nowhere,
    /// The kubelet of a node.
    Node { node: Arc<Value>, path: String },
    /// The pod's own address; the scheme and the port may be empty.
    Address { scheme: String, ip: String, port: String },
}

/// Finds the place for `cx.subresource` of a pod. `options` are the query's, by name.
pub fn locate(cx: &Context, pod: &Value, options: &Value) -> Result<Location, Status> {
    let (namespace, name) = (pod.namespace(), pod.name());
    let asked = options.str_at(&["container"]);
    let path = match cx.subresource {
        "log" => {
            let mut errors = Errors::new();
            log_options(cx.features, options, &mut errors);
            if !errors.is_empty() {
                return Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), name, &errors));
            }
            request::path(["containerLogs", namespace, name, container_for(pod, asked)?])
        }
        "portforward" => request::path(["portForward", namespace, name]),
        stream => request::path([stream, namespace, name, container_for(pod, asked)?]),
    };
    let path = path.map_err(|error| Status::bad_request(error.to_string()))?;
    let node_name = pod.str_at(&["spec", "nodeName"]);
    if node_name.is_empty() {
        return match cx.subresource {
            "log" => Ok(Location::Nowhere),
            _ => Err(Status::bad_request(format!("pod {name} does not have a host assigned"))),
        };
    }
    match cx.lookup.get("", "nodes", "", node_name) {
        Some(node) => Ok(Location::Node { node, path }),
        // Upstream says that the pod by the node's name is missing.
        None => Err(Status::not_found(&GroupResource::new("", "pods"), node_name)),
    }
}

/// The parts of what a proxy request calls a pod: `name`, `name:port` or `scheme:name:port`.
pub fn split_proxy_name(id: &str) -> Result<(&str, &str, &str), Status> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => ("", "", ""),
    };
    if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
        return Err(Status::bad_request(format!("invalid pod request {}", quote(id))));
    }
    Ok((scheme, name, port))
}

/// The address of a pod for a proxy; without a port the pod's first one is meant.
pub fn locate_proxy(pod: &Value, scheme: &str, port: &str) -> Result<Location, Status> {
    let ip = pod.list_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    if !names::parse_ip_sloppy(ip).is_some_and(names::is_global_unicast) {
        return Err(Status::bad_request("address not allowed"));
    }
    let mut containers = pod.list_at(&["spec", "containers"]).iter();
    let first = containers.find_map(|container| container.list_at(&["ports"]).first());
    let port = match (port, first) {
        ("", Some(first)) => first.field("containerPort").as_int().unwrap_or(0).to_string(),
        (port, _) => port.to_string(),
    };
    Ok(Location::Address { scheme: scheme.to_string(), ip: ip.to_string(), port })
}

#[cfg(test)]
mod tests {
    use registry::Features;
    use request::User;

    use super::*;
    use crate::check::yaml;
    use crate::common::recorded::context;

    fn check(subresource: &str, pod: &str, options: &str, want: Result<Location, &str>) {
        let (features, user) = (Features::default(), User::default());
        let cx = context(subresource, &features, &user);
        let got = locate(&cx, &yaml(pod), &yaml(options)).map_err(|status| status.message);
        assert_eq!(got, want.map_err(str::to_string), "{subresource} of {pod}");
    }

    #[test]
    fn connections_need_a_node() {
        let pod = "{metadata: {name: p, namespace: ns}, spec: {containers: [{name: c}]}}";
        let bound = "{metadata: {name: p, namespace: ns}, spec: {nodeName: m1, containers: [{name: c}]}}";
        check("log", pod, "{}", Ok(Location::Nowhere));
        check("log", pod, "{container: x}", Err("container x is not valid for pod p"));
        check(
            "log",
            pod,
            "{tailLines: -1}",
            Err(r#"PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"#),
        );
        check("exec", pod, "{}", Err("pod p does not have a host assigned"));
        check("portforward", bound, "{}", Err(r#"pods "m1" not found"#));
    }

    #[test]
    fn proxies_need_an_address() {
        let located = |pod: &str, port: &str| locate_proxy(&yaml(pod), "", port).map_err(|status| status.message);
        let pod = "{status: {podIPs: [{ip: 10.0.0.1}]}, spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}}";
        let at = |port: &str| {
            Ok(Location::Address { scheme: String::new(), ip: "10.0.0.1".to_string(), port: port.to_string() })
        };
        assert_eq!(located(pod, ""), at("80"));
        assert_eq!(located(pod, "99"), at("99"));
        for ip in ["", "127.0.0.1", "169.254.169.254", "::1", "0.0.0.0", "224.0.0.1"] {
            let pod = format!("{{status: {{podIPs: [{{ip: '{ip}'}}]}}}}");
            assert_eq!(located(&pod, ""), Err("address not allowed".to_string()), "{ip}");
        }
        assert_eq!(split_proxy_name("https:p:80").ok(), Some(("https", "p", "80")));
        assert_eq!(split_proxy_name("p").ok(), Some(("", "p", "")));
        let refused = split_proxy_name("a:b:c:d").map_err(|status| status.message);
        assert_eq!(refused, Err(r#"invalid pod request "a:b:c:d""#.to_string()));
    }
}
