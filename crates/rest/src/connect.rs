//! CONNECT: exec, attach, port-forward, log and proxy, which go through to a node, a pod or a service.
//!
//! Here it is found out where a connection goes, with upstream's answers where it cannot go anywhere. The connection
//! itself is made by whoever the [`Api`](crate::Api) was given for that.

use std::net::IpAddr;

use authz::Permit;
use http::StatusCode;
use kinds::core::pod::{self, Location};
use object::{Meta, Status, Value, names, quote};
use registry::Lookup;

use crate::forward::forward;
use crate::options::{flag, integer};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;

/// Whether a subresource is a connection rather than an object.
pub fn handles(subresource: &str) -> bool {
    matches!(subresource, "exec" | "attach" | "portforward" | "proxy" | "log")
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A kubelet is spoken to with the server's own certificate, everybody else as a stranger.
    pub kubelet: bool,
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// With the query.
    pub path: String,
}

/// The port of a kubelet that has not said otherwise.
const KUBELET_PORT: i64 = 10250;
/// Which of a node's addresses is used: the first kind that it has.
const PREFERRED_ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

pub async fn connect(scope: &mut Scope, _permit: Permit) -> Result<Reply, Status> {
    scope.storage()?.cache.fresh().await.map_err(|error| Status::internal(error.to_string()))?;
    let target = match scope.call.info.resource.as_str() {
        "pods" => pod_target(scope).await?,
        "services" => Some(service_target(scope)?),
        _ => Some(node_target(scope).await?),
    };
    match target {
        None => {
            let mut reply = Reply::new(StatusCode::NO_CONTENT, "", ReplyBody::Ready(Default::default()));
            reply.headers.clear();
            Ok(reply)
        }
        Some(target) => match scope.api.dial.clone() {
            Some(dial) => forward(scope, dial, &target).await,
            None => Err(Status::unavailable("error trying to reach service: this server makes no connections")),
        },
    }
}

/// None is the log of a pod that runs nowhere yet.
async fn pod_target(scope: &Scope) -> Result<Option<Target>, Status> {
    let storage = scope.storage()?;
    let info = &scope.call.info;
    if info.subresource == "proxy" {
        let (scheme, name, port) = pod::split_proxy_name(&info.name)?;
        let pod = storage.get(&info.namespace, name).await?;
        return match pod::locate_proxy(&pod, scheme, port)? {
            Location::Address { scheme, ip, port } => Ok(Some(address(scope, &scheme, ip, &port)?)),
            Location::Nowhere | Location::Node { .. } => Err(Status::bad_request("address not allowed")),
        };
    }
    let pod = storage.get(&info.namespace, &info.name).await?;
    match pod::locate(&scope.context(false), &pod, &stream_options(scope)?)? {
        Location::Nowhere => Ok(None),
        Location::Node { node, path } => {
            let mut target = kubelet(&node)?;
            target.path = with_query(scope, path);
            Ok(Some(target))
        }
        Location::Address { scheme, ip, port } => Ok(Some(address(scope, &scheme, ip, &port)?)),
    }
}

/// The query as an options object.
fn stream_options(scope: &Scope) -> Result<Value, Status> {
    let call = &scope.call;
    let mut options = Value::map();
    for name in ["container", "sinceTime", "stream"] {
        if let Some(text) = call.query(name) {
            options.set(&[name], text);
        }
    }
    for name in ["tailLines", "limitBytes", "sinceSeconds"] {
        if let Some(number) = integer(call, name)? {
            options.set(&[name], number);
        }
    }
    for name in ["follow", "previous", "timestamps", "insecureSkipTLSVerifyBackend", "stdin", "stdout", "stderr", "tty"]
    {
        if let Some(on) = flag(call, name) {
            options.set(&[name], on);
        }
    }
    if call.info.subresource == "log" && scope.api.features.enabled("PodLogsQuerySplitStreams") {
        options.set_default(&["stream"], "All");
    }
    Ok(options)
}

/// `name`, `name:port` or `scheme:name:port`, as everything that can be proxied to is called.
fn split<'a>(what: &str, id: &'a str) -> Result<(&'a str, &'a str, &'a str), Status> {
    pod::split_proxy_name(id).map_err(|_| Status::bad_request(format!("invalid {what} request {}", quote(id))))
}

fn service_target(scope: &Scope) -> Result<Target, Status> {
    let info = &scope.call.info;
    let (scheme, name, port) = split("service", &info.name)?;
    let unavailable = |why: String| Status::unavailable(why);
    let mut port_name = port.to_string();
    // A number is that of the service; its endpoints know the port by name.
    if let Ok(number) = port.parse::<i64>() {
        let service = scope.api.get("", "services", &info.namespace, name);
        let service = service.ok_or_else(|| Status::not_found(&scope.group_resource(), name))?;
        let ports = service.list_at(&["spec", "ports"]);
        let found = ports.iter().find(|port| port.field("port").as_int() == Some(number));
        let found =
            found.ok_or_else(|| unavailable(format!("no service port {number} found for service {}", quote(name))))?;
        port_name = found.str_at(&["name"]).to_string();
    }
    let none = || unavailable(format!("no endpoints available for service {}", quote(name)));
    let slices = scope.api.list("discovery.k8s.io", "endpointslices", &info.namespace);
    let own = slices.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(name));
    let mut choices: Vec<(String, i64)> = Vec::new();
    for slice in own {
        let mut ports = slice.list_at(&["ports"]).iter();
        let port = ports.find(|port| port.str_at(&["name"]) == port_name).and_then(|port| port.field("port").as_int());
        let Some(port) = port else { continue };
        // Only pods are proxied to: an endpoint can be made to point anywhere.
        let ready = slice.list_at(&["endpoints"]).iter().filter(|endpoint| {
            endpoint.at(&["conditions", "ready"]).as_bool() != Some(false)
                && endpoint.str_at(&["targetRef", "kind"]) == "Pod"
        });
        let addresses = ready.filter_map(|endpoint| endpoint.list_at(&["addresses"]).first().and_then(Value::as_str));
        choices.extend(addresses.map(|ip| (ip.to_string(), port)));
    }
    // Any will do, and not always the same one.
    let pick = scope.api.clock.now().nanos as usize % choices.len().max(1);
    let (ip, port) = choices.get(pick).ok_or_else(none)?.clone();
    address(scope, scheme, ip, &port.to_string())
}

async fn node_target(scope: &Scope) -> Result<Target, Status> {
    let info = &scope.call.info;
    let (scheme, name, port) = split("node", &info.name)?;
    let node = scope.api.get("", "nodes", "", name);
    let node = node.ok_or_else(|| Status::not_found(&scope.group_resource(), name))?;
    let mut target = kubelet(&node)?;
    target.path = proxied_path(scope);
    may_be_proxied(&target).await?;
    if let Ok(port) = port.parse::<u16>()
        && port != target.port
    {
        target = Target { kubelet: false, tls: scheme == "https", port, ..target };
    }
    Ok(target)
}

/// A node says itself where it is, so it must not be able to say that it is this machine.
async fn may_be_proxied(target: &Target) -> Result<(), Status> {
    let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
    let found = found.map_err(|error| Status::bad_request(format!("lookup {}: {error}", target.host)))?;
    let stands_for_another = |ip: IpAddr| {
        let ip = ip.to_canonical();
        let near = match ip {
            IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        !(near || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
    };
    let allowed = found.into_iter().all(|address| stands_for_another(address.ip()));
    if allowed { Ok(()) } else { Err(Status::bad_request("address not allowed")) }
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
    Ok(Target { kubelet: true, tls: true, host, port, path: String::new() })
}

fn address(scope: &Scope, scheme: &str, host: String, port: &str) -> Result<Target, Status> {
    let tls = scheme == "https";
    let default = if tls { 443 } else { 80 };
    let number = if port.is_empty() { Ok(default) } else { port.parse() };
    let port = number.map_err(|_| Status::bad_request(format!("{} is not a port", quote(port))))?;
    if names::parse_ip_sloppy(&host).is_none() {
        return Err(Status::bad_request("address not allowed"));
    }
    Ok(Target { kubelet: false, tls, host, port, path: proxied_path(scope) })
}

/// What comes after `/proxy` in the path, with the query.
fn proxied_path(scope: &Scope) -> String {
    let rest = scope.call.info.path_below_subresource();
    with_query(scope, if rest.is_empty() { "/".to_string() } else { rest.to_string() })
}

fn with_query(scope: &Scope, path: String) -> String {
    let escape = |text: &str| -> String {
        let one = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(one).collect()
    };
    let query = scope.call.query.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    let query: Vec<String> = query.collect();
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}
