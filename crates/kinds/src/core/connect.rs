//! Where connections to pods, services and nodes go: exec, attach, portforward and log to the pod's kubelet, proxies to the
//! address of a pod, an endpoint or a node.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupVersionKind, Meta, Status, Value, names, quote};
use registry::{Connect, ConnectCall, Error, Exchange, Features, Target};

use super::pod::{self, Location};

/// Resource, subresource and where its connections go.
pub type Connects = Vec<(&'static str, &'static str, Arc<dyn Connect>)>;

/// How kubelets and endpoints are chosen.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Which of a node's addresses is used: the first type that it has (`--kubelet-preferred-address-types`).
    pub address_types: Vec<String>,
    /// The port of a kubelet that has not published another (`--kubelet-port`).
    pub kubelet_port: u16,
    /// The address type of the endpoints that are tried first: that of the first service range.
    pub primary_family: &'static str,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        ConnectOptions {
            address_types: types.map(str::to_string).to_vec(),
            kubelet_port: 10250,
            primary_family: "IPv4",
        }
    }
}

/// All connections of the core group.
pub fn connects(options: &ConnectOptions) -> Connects {
    let kubelets = Kubelets { address_types: options.address_types.clone(), port: options.kubelet_port };
    let stream =
        |options, exchange| -> Arc<dyn Connect> { Arc::new(Stream { options, exchange, kubelets: kubelets.clone() }) };
    vec![
        ("pods", "attach", stream("PodAttachOptions", Exchange::RemoteCommand)),
        ("pods", "exec", stream("PodExecOptions", Exchange::RemoteCommand)),
        ("pods", "portforward", stream("PodPortForwardOptions", Exchange::PortForward)),
        ("pods", "log", Arc::new(Log { kubelets: kubelets.clone() })),
        ("pods", "proxy", Arc::new(PodProxy)),
        ("services", "proxy", Arc::new(ServiceProxy { primary_family: options.primary_family })),
        ("nodes", "proxy", Arc::new(NodeProxy { kubelets })),
    ]
}

fn kind(kind: &str) -> GroupVersionKind {
    GroupVersionKind::new("", "v1", kind)
}

/// exec, attach and portforward.
struct Stream {
    options: &'static str,
    exchange: Exchange,
    kubelets: Kubelets,
}

#[async_trait]
impl Connect for Stream {
    fn options(&self) -> GroupVersionKind {
        kind(self.options)
    }

    fn exchange(&self) -> Exchange {
        self.exchange
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error> {
        let options = call.options;
        let mut query = Vec::new();
        for command in options.list_at(&["command"]) {
            query.push(("command", command.as_str().unwrap_or("").to_string()));
        }
        for (field, parameter) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output")] {
            if options.field(field).as_bool() == Some(true) {
                query.push((parameter, "1".into()));
            }
        }
        let ports = options.list_at(&["ports"]).iter().filter_map(Value::as_int).map(|port| port.to_string());
        let ports = ports.collect::<Vec<_>>().join(",");
        if !ports.is_empty() {
            query.push(("port", ports));
        }
        if options.field("tty").as_bool() == Some(true) {
            query.push(("tty", "1".into()));
        }
        self.kubelets.of_pod(call, query).await
    }

    /// A GET that upgrades runs a command just as a POST does.
    fn required_verb(&self, features: &Features) -> Option<&'static str> {
        features.enabled("AuthorizePodWebsocketUpgradeCreatePermission").then_some("create")
    }
}

struct Log {
    kubelets: Kubelets,
}

#[async_trait]
impl Connect for Log {
    fn options(&self) -> GroupVersionKind {
        kind("PodLogOptions")
    }

    fn exchange(&self) -> Exchange {
        Exchange::Log
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error> {
        let mut query = Vec::new();
        let names =
            ["follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "stream", "tailLines", "timestamps"];
        for name in names {
            match call.options.field(name) {
                Value::Bool(true) => query.push((name, "true".to_string())),
                Value::Int(number) => query.push((name, number.to_string())),
                Value::String(text) => query.push((name, text.to_string())),
                _ => {}
            }
        }
        let unverified = call.options.field("insecureSkipTLSVerifyBackend").as_bool() == Some(true);
        let target = self.kubelets.of_pod(call, query).await?;
        Ok(target.map(|target| Target { unverified, ..target }))
    }
}

struct PodProxy;

#[async_trait]
impl Connect for PodProxy {
    fn options(&self) -> GroupVersionKind {
        kind("PodProxyOptions")
    }

    fn exchange(&self) -> Exchange {
        Exchange::Proxy
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error> {
        let (scheme, name, port) = pod::split_proxy_name(call.name)?;
        let pod = call.storage.get(call.cx.namespace, name).await?;
        match pod::locate_proxy(&pod, scheme, port)? {
            Location::Address { scheme, ip, port } => Ok(Some(address(&scheme, &ip, &port)?)),
            Location::Nowhere | Location::Node { .. } => Err(Status::bad_request("address not allowed").into()),
        }
    }
}

struct ServiceProxy {
    primary_family: &'static str,
}

#[async_trait]
impl Connect for ServiceProxy {
    fn options(&self) -> GroupVersionKind {
        kind("ServiceProxyOptions")
    }

    fn exchange(&self) -> Exchange {
        Exchange::Proxy
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error> {
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
        let none = || Status::unavailable(format!("no endpoints available for service {}", quote(name)));
        let (ip, port) = self.endpoint(call, name, &port_name).ok_or_else(none)?;
        Ok(Some(address(scheme, &ip, &port.to_string())?))
    }
}

impl ServiceProxy {
    /// Address and port of an endpoint that is ready: those of the primary family first, else spread by the time of the call.
    fn endpoint(&self, call: &ConnectCall<'_>, service: &str, port_name: &str) -> Option<(String, i64)> {
        let mut slices = call.cx.lookup.list("discovery.k8s.io", "endpointslices", call.cx.namespace);
        slices.retain(|slice| slice.label("kubernetes.io/service-name") == Some(service));
        let spread = call.cx.now.nanos as usize;
        if !slices.is_empty() {
            let first = spread % slices.len();
            slices.rotate_left(first);
        }
        slices.sort_by_key(|slice| slice.str_at(&["addressType"]) != self.primary_family);
        slices.iter().find_map(|slice| {
            let mut ports = slice.list_at(&["ports"]).iter().filter(|port| port.str_at(&["name"]) == port_name);
            let port = ports.find_map(|port| port.field("port").as_int())?;
            let endpoints = slice.list_at(&["endpoints"]);
            let (before, after) = endpoints.split_at(spread % endpoints.len().max(1));
            let mut ready = after.iter().chain(before).filter(|endpoint| {
                endpoint.at(&["conditions", "ready"]).as_bool() != Some(false) && is_pod(call, endpoint)
            });
            ready.find_map(|endpoint| Some((endpoint.list_at(&["addresses"]).first()?.as_str()?.to_string(), port)))
        })
    }
}

/// Whether an endpoint's address is that of the pod it refers to. Only pods are proxied to, because an endpoint can be made
/// to point anywhere.
fn is_pod(call: &ConnectCall<'_>, endpoint: &Value) -> bool {
    let reference = endpoint.field("targetRef");
    let address = endpoint.list_at(&["addresses"]).first().and_then(Value::as_str).unwrap_or("");
    if reference.str_at(&["namespace"]) != call.cx.namespace {
        return false;
    }
    let pod = call.cx.lookup.get("", "pods", call.cx.namespace, reference.str_at(&["name"]));
    pod.is_some_and(|pod| pod.list_at(&["status", "podIPs"]).iter().any(|ip| ip.str_at(&["ip"]) == address))
}

struct NodeProxy {
    kubelets: Kubelets,
}

#[async_trait]
impl Connect for NodeProxy {
    fn options(&self) -> GroupVersionKind {
        kind("NodeProxyOptions")
    }

    fn exchange(&self) -> Exchange {
        Exchange::Proxy
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error> {
        let (scheme, name, port) = split("node", call.name)?;
        let node = call.cx.lookup.get("", "nodes", "", name);
        let node = node.ok_or_else(|| Status::not_found(&call.storage.resource, name))?;
        // A node publishes its own addresses, so they must not be those of this machine.
        let target = Target { only_global: true, ..self.kubelets.of_node(&node)? };
        if port.is_empty() || port == target.port.to_string() {
            return Ok(Some(target));
        }
        Ok(Some(Target { kubelet: false, tls: scheme == "https", port: port_number(port)?, ..target }))
    }
}

/// `name`, `name:port` or `scheme:name:port`.
fn split<'a>(what: &str, id: &'a str) -> Result<(&'a str, &'a str, &'a str), Status> {
    pod::split_proxy_name(id).map_err(|_| Status::bad_request(format!("invalid {what} request {}", quote(id))))
}

/// Finds kubelets by what their nodes publish.
#[derive(Clone)]
struct Kubelets {
    address_types: Vec<String>,
    /// The port of a kubelet that has not published another.
    port: u16,
}

/// What a node declares whose kubelet speaks WebSocket.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

impl Kubelets {
    /// The kubelet of a pod's node, asked with these parameters, which are sorted by name.
    async fn of_pod(
        &self,
        call: &ConnectCall<'_>,
        query: Vec<(&'static str, String)>,
    ) -> Result<Option<Target>, Error> {
        let pod = call.storage.get(call.cx.namespace, call.name).await?;
        match pod::locate(&call.cx, &pod, call.options)? {
            Location::Node { node, path } => {
                Ok(Some(Target { path: format!("{path}{}", encode(&query)), ..self.of_node(&node)? }))
            }
            Location::Nowhere | Location::Address { .. } => Ok(None),
        }
    }

    /// How a node's kubelet is reached.
    fn of_node(&self, node: &Value) -> Result<Target, Error> {
        let known = node.list_at(&["status", "addresses"]);
        let mut preferred = self.address_types.iter();
        let found = preferred.find_map(|kind| known.iter().find(|address| address.str_at(&["type"]) == kind));
        let Some(found) = found else {
            let shown =
                known.iter().map(|known| format!("{{{} {}}}", known.str_at(&["type"]), known.str_at(&["address"])));
            let shown = shown.collect::<Vec<_>>().join(" ");
            return Err(Error::Failed(format!("no preferred addresses found; known addresses: [{shown}]")));
        };
        let endpoint = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).as_int();
        let port = endpoint.filter(|port| *port > 0).unwrap_or(i64::from(self.port));
        let port = u16::try_from(port).map_err(|_| Status::internal(format!("{port} is not a port")))?;
        let host = found.str_at(&["address"]).to_string();
        let mut declared = node.list_at(&["status", "declaredFeatures"]).iter();
        let websockets = declared.any(|feature| feature.as_str() == Some(WEBSOCKETS));
        Ok(Target { kubelet: true, tls: true, host, port, websockets, ..Target::default() })
    }
}

/// The query with its question mark, as Go's `url.Values` encodes it.
fn encode(query: &[(&'static str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in query {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        object::query_escape(value, &mut out);
    }
    out
}

/// A pod's or an endpoint's address, as it was read: a text such as 0177.0.0.1 is another address for the system's resolver.
fn address(scheme: &str, host: &str, port: &str) -> Result<Target, Status> {
    let tls = scheme == "https";
    let default = if tls { 443 } else { 80 };
    let port = if port.is_empty() { default } else { port_number(port)? };
    let ip = names::parse_ip_sloppy(host).ok_or_else(|| Status::bad_request("address not allowed"))?;
    Ok(Target { tls, host: ip.to_canonical().to_string(), port, ..Target::default() })
}

fn port_number(port: &str) -> Result<u16, Status> {
    port.parse().map_err(|_| Status::bad_request(format!("{} is not a port", quote(port))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn queries_are_encoded_as_go_does() {
        let query = [("command", "sh -c".to_string()), ("command", "a&b=ü".to_string()), ("tty", "1".to_string())];
        assert_eq!(encode(&query), "?command=sh+-c&command=a%26b%3D%C3%BC&tty=1");
        assert_eq!(encode(&[]), "");
    }

    #[test]
    fn the_address_that_was_read_is_connected_to() {
        for (text, want) in [
            ("10.0.0.1", Some("10.0.0.1:80")),
            ("0177.0.0.1", Some("177.0.0.1:80")),
            ("010.010.010.010", Some("10.10.10.10:80")),
            ("::ffff:10.0.0.1", Some("10.0.0.1:80")),
            ("2001:DB8:0::1", Some("[2001:db8::1]:80")),
            ("0x7f.0.0.1", None),
            ("127.1", None),
            ("2130706433", None),
            ("fe80::1%lo", None),
            ("10.0.0.1.", None),
            ("localhost", None),
            ("", None),
        ] {
            let got = address("", text, "").ok().map(|target| target.authority());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn the_first_preferred_address_is_used() {
        let check = |node: &str, want: Result<(&str, u16, bool), &str>| {
            let kubelets = Kubelets { address_types: vec!["Hostname".into(), "InternalIP".into()], port: 10250 };
            let target = kubelets.of_node(&yaml(node)).map_err(|error| Status::from(error).message);
            let got = target.as_ref().map(|target| (target.host.as_str(), target.port, target.websockets));
            assert_eq!(got.map_err(String::as_str), want, "{node}");
        };
        check(
            "{status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: host}]}}",
            Ok(("host", 10250, false)),
        );
        check(
            "{status: {addresses: [{type: InternalIP, address: 10.0.0.1}], declaredFeatures: [ExtendWebSocketsToKubelet],
              daemonEndpoints: {kubeletEndpoint: {Port: 7}}}}",
            Ok(("10.0.0.1", 7, true)),
        );
        check("{}", Err("no preferred addresses found; known addresses: []"));
        check(
            "{status: {addresses: [{type: ExternalIP, address: 1.2.3.4}, {type: X, address: z}]}}",
            Err("no preferred addresses found; known addresses: [{ExternalIP 1.2.3.4} {X z}]"),
        );
    }
}
