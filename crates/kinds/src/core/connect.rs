//! Where connections to pods, services and nodes go: exec, attach, portforward and log to the pod's kubelet, proxies to the
//! address of a pod, an endpoint or a node.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupVersionKind, Meta, Status, Value, names, quote};
use registry::{Connect, ConnectCall, Features, Target};

use super::pod::{self, Location};

/// Resource, subresource and where its connections go.
pub type Connects = Vec<(&'static str, &'static str, Arc<dyn Connect>)>;

/// All connections of the core group.
pub fn connects() -> Connects {
    vec![
        ("pods", "attach", Arc::new(Stream { options: "PodAttachOptions" })),
        ("pods", "exec", Arc::new(Stream { options: "PodExecOptions" })),
        ("pods", "portforward", Arc::new(Stream { options: "PodPortForwardOptions" })),
        ("pods", "log", Arc::new(Log)),
        ("pods", "proxy", Arc::new(PodProxy)),
        ("services", "proxy", Arc::new(ServiceProxy)),
        ("nodes", "proxy", Arc::new(NodeProxy)),
    ]
}

/// The port of a kubelet that has not published another.
const KUBELET_PORT: i64 = 10250;
/// Which of a node's addresses is used: the first type that it has.
const PREFERRED_ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

fn kind(kind: &str) -> GroupVersionKind {
    GroupVersionKind::new("", "v1", kind)
}

/// exec, attach and portforward.
struct Stream {
    options: &'static str,
}

#[async_trait]
impl Connect for Stream {
    fn options(&self) -> GroupVersionKind {
        kind(self.options)
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
        on_kubelet(call).await
    }

    fn unreachable(&self, _: &Target, why: &str) -> Status {
        Status::internal(format!("error dialing backend: {why}"))
    }

    /// A GET that upgrades runs a command just as a POST does.
    fn required_verb(&self, features: &Features) -> Option<&'static str> {
        features.enabled("AuthorizePodWebsocketUpgradeCreatePermission").then_some("create")
    }
}

struct Log;

#[async_trait]
impl Connect for Log {
    fn options(&self) -> GroupVersionKind {
        kind("PodLogOptions")
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
        on_kubelet(call).await
    }

    fn unreachable(&self, target: &Target, why: &str) -> Status {
        let scheme = if target.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}:{}{}", target.host, target.port, target.path);
        Status::internal(format!("Get {}: {why}", quote(&url)))
    }

    fn is_admitted(&self) -> bool {
        false
    }
}

/// The kubelet of a pod's node.
async fn on_kubelet(call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
    let pod = call.storage.get(call.cx.namespace, call.name).await?;
    match pod::locate(&call.cx, &pod, call.options)? {
        Location::Node { node, path } => Ok(Some(Target { path: format!("{path}{}", call.query), ..kubelet(&node)? })),
        Location::Nowhere | Location::Address { .. } => Ok(None),
    }
}

struct PodProxy;

#[async_trait]
impl Connect for PodProxy {
    fn options(&self) -> GroupVersionKind {
        kind("PodProxyOptions")
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
        let (scheme, name, port) = pod::split_proxy_name(call.name)?;
        let pod = call.storage.get(call.cx.namespace, name).await?;
        match pod::locate_proxy(&pod, scheme, port)? {
            Location::Address { scheme, ip, port } => Ok(Some(address(call, &scheme, ip, &port)?)),
            Location::Nowhere | Location::Node { .. } => Err(Status::bad_request("address not allowed")),
        }
    }

    fn unreachable(&self, _: &Target, why: &str) -> Status {
        service_unreachable(why)
    }
}

struct ServiceProxy;

#[async_trait]
impl Connect for ServiceProxy {
    fn options(&self) -> GroupVersionKind {
        kind("ServiceProxyOptions")
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
        let (scheme, name, port) = split("service", call.name)?;
        let namespace = call.cx.namespace;
        let mut port_name = port.to_string();
        // A number is that of the service; its endpoints know the port by name.
        if let Ok(number) = port.parse::<i64>() {
            let service = call.cx.lookup.get("", "services", namespace, name);
            let service = service.ok_or_else(|| Status::not_found(&call.storage.resource, name))?;
            let mut ports = service.list_at(&["spec", "ports"]).iter();
            let found = ports.find(|port| port.field("port").as_int() == Some(number)).ok_or_else(|| {
                Status::unavailable(format!("no service port {number} found for service {}", quote(name)))
            })?;
            port_name = found.str_at(&["name"]).to_string();
        }
        let choices = endpoints(call, name, &port_name);
        // Requests are spread over the endpoints by the time they come.
        let pick = call.cx.now.nanos as usize % choices.len().max(1);
        let none = || Status::unavailable(format!("no endpoints available for service {}", quote(name)));
        let (ip, port) = choices.get(pick).ok_or_else(none)?.clone();
        address(call, scheme, ip, &port.to_string()).map(Some)
    }

    fn unreachable(&self, _: &Target, why: &str) -> Status {
        service_unreachable(why)
    }
}

/// Addresses and ports of a service's endpoints that are ready.
fn endpoints(call: &ConnectCall<'_>, service: &str, port_name: &str) -> Vec<(String, i64)> {
    let slices = call.cx.lookup.list("discovery.k8s.io", "endpointslices", call.cx.namespace);
    let mut found = Vec::new();
    for slice in slices.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(service)) {
        let mut ports = slice.list_at(&["ports"]).iter();
        let port = ports.find(|port| port.str_at(&["name"]) == port_name).and_then(|port| port.field("port").as_int());
        let Some(port) = port else { continue };
        // Only pods are proxied to: an endpoint can be made to point anywhere.
        let ready = slice.list_at(&["endpoints"]).iter().filter(|endpoint| {
            endpoint.at(&["conditions", "ready"]).as_bool() != Some(false)
                && endpoint.str_at(&["targetRef", "kind"]) == "Pod"
        });
        let addresses = ready.filter_map(|endpoint| endpoint.list_at(&["addresses"]).first().and_then(Value::as_str));
        found.extend(addresses.map(|ip| (ip.to_string(), port)));
    }
    found
}

struct NodeProxy;

#[async_trait]
impl Connect for NodeProxy {
    fn options(&self) -> GroupVersionKind {
        kind("NodeProxyOptions")
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status> {
        let (scheme, name, port) = split("node", call.name)?;
        let node = call.cx.lookup.get("", "nodes", "", name);
        let node = node.ok_or_else(|| Status::not_found(&call.storage.resource, name))?;
        // A node publishes its own addresses, so they must not be those of this machine.
        let mut target = Target { path: call.proxied_path(), only_global: true, ..kubelet(&node)? };
        if let Ok(port) = port.parse::<u16>()
            && port != target.port
        {
            target = Target { kubelet: false, tls: scheme == "https", port, ..target };
        }
        Ok(Some(target))
    }

    fn unreachable(&self, _: &Target, why: &str) -> Status {
        service_unreachable(why)
    }
}

fn service_unreachable(why: &str) -> Status {
    Status::unavailable(format!("error trying to reach service: {why}"))
}

/// `name`, `name:port` or `scheme:name:port`.
fn split<'a>(what: &str, id: &'a str) -> Result<(&'a str, &'a str, &'a str), Status> {
    pod::split_proxy_name(id).map_err(|_| Status::bad_request(format!("invalid {what} request {}", quote(id))))
}

/// How a node's kubelet is reached.
fn kubelet(node: &Value) -> Result<Target, Status> {
    let known = node.list_at(&["status", "addresses"]);
    let mut preferred = PREFERRED_ADDRESSES.iter();
    let found = preferred.find_map(|kind| known.iter().find(|address| address.str_at(&["type"]) == *kind));
    let Some(found) = found else {
        return Err(Status::unknown(500, "no preferred addresses found; known addresses: []"));
    };
    let endpoint = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).as_int();
    let port = endpoint.filter(|port| *port > 0).unwrap_or(KUBELET_PORT);
    let port = u16::try_from(port).map_err(|_| Status::internal(format!("{port} is not a port")))?;
    let host = found.str_at(&["address"]).to_string();
    Ok(Target { kubelet: true, tls: true, host, port, ..Target::default() })
}

/// A pod's or an endpoint's address.
fn address(call: &ConnectCall<'_>, scheme: &str, host: String, port: &str) -> Result<Target, Status> {
    let tls = scheme == "https";
    let default = if tls { 443 } else { 80 };
    let number = if port.is_empty() { Ok(default) } else { port.parse() };
    let port = number.map_err(|_| Status::bad_request(format!("{} is not a port", quote(port))))?;
    if names::parse_ip_sloppy(&host).is_none() {
        return Err(Status::bad_request("address not allowed"));
    }
    Ok(Target { tls, host, port, path: call.proxied_path(), ..Target::default() })
}
