//! From a Service to an address: for webhooks, and for whatever else the server calls inside the cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use object::{Meta, Value, quote};
use outbound::{Address, Resolve};
use registry::Lookup;
use rest::ServedObjects;

/// Resolves Services by the server's own caches.
pub struct Services {
    pub objects: ServedObjects,
    /// Where this server listens.
    pub address: SocketAddr,
    /// `--enable-aggregator-routing`: to an endpoint of the Service, not to its ClusterIP.
    pub to_endpoints: bool,
}

#[async_trait]
impl Resolve for Services {
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String> {
        if (namespace, name, port) == ("default", "kubernetes", 443) {
            return Ok(Address { host: self.address.ip().to_string(), port: self.address.port() });
        }
        let Some(objects) = self.objects.load() else { return Err("the server is shutting down".into()) };
        let service = objects.get("", "services", namespace, name);
        let service = service.ok_or_else(|| format!("service {} not found", quote(name)))?;
        if !self.to_endpoints {
            return cluster_address(&service, port);
        }
        let slices = objects.list("discovery.k8s.io", "endpointslices", namespace);
        endpoint_address(&service, port, &slices)
    }
}

fn cluster_address(service: &Value, port: u16) -> Result<Address, String> {
    let spec = service.field("spec");
    let cluster_ip = spec.str_at(&["clusterIP"]);
    match spec.str_at(&["type"]) {
        "ClusterIP" if cluster_ip == "None" => Err("cannot route to service with ClusterIP \"None\"".into()),
        "ClusterIP" | "LoadBalancer" | "NodePort" => {
            service_port(service, port)?;
            Ok(Address { host: cluster_ip.to_string(), port })
        }
        "ExternalName" => Ok(Address { host: spec.str_at(&["externalName"]).to_string(), port }),
        other => Err(format!("unsupported service type {}", quote(other))),
    }
}

fn service_port(service: &Value, port: u16) -> Result<&Value, String> {
    let ports = service.list_at(&["spec", "ports"]);
    let found = ports.iter().find(|candidate| candidate.field("port").as_int() == Some(i64::from(port)));
    found.ok_or_else(|| format!("no service port {port} found for service {}", quote(service.name())))
}

/// A ready endpoint that serves the port, of the Service's first IP family if there is one.
fn endpoint_address(service: &Value, port: u16, slices: &[Arc<Value>]) -> Result<Address, String> {
    let kind = service.str_at(&["spec", "type"]);
    if !matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
        return Err(format!("unsupported service type {}", quote(kind)));
    }
    let wanted = service_port(service, port)?.str_at(&["name"]);
    let families = service.list_at(&["spec", "ipFamilies"]);
    let family = families.first().and_then(Value::as_str).unwrap_or("");
    let mut candidates: Vec<(bool, Address)> = Vec::new();
    let own = slices.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(service.name()));
    for slice in own {
        let ports = slice.list_at(&["ports"]).iter().filter(|port| port.str_at(&["name"]) == wanted);
        for port in ports.filter_map(|port| u16::try_from(port.field("port").as_int()?).ok()) {
            let ready = |endpoint: &&Value| endpoint.at(&["conditions", "ready"]).as_bool() != Some(false);
            for endpoint in slice.list_at(&["endpoints"]).iter().filter(ready) {
                let first = endpoint.list_at(&["addresses"]).first().and_then(Value::as_str);
                let preferred = slice.str_at(&["addressType"]) == family;
                candidates.extend(first.map(|host| (preferred, Address { host: host.to_string(), port })));
            }
        }
    }
    if candidates.iter().any(|(preferred, _)| *preferred) {
        candidates.retain(|(preferred, _)| *preferred);
    }
    let none = || format!("no endpoints available for service {}", quote(service.name()));
    if candidates.is_empty() {
        return Err(none());
    }
    let at = rand::random_range(0..candidates.len());
    candidates.into_iter().nth(at).map(|(_, address)| address).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    fn service(spec: Value) -> Value {
        value!({"metadata": {"name": "s", "namespace": "ns"}, "spec": spec})
    }

    #[test]
    fn services_are_reached_by_their_cluster_ip() {
        let ports = || value!([{"port": 443}]);
        let cases = [
            (value!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": (ports())}), Ok("10.0.0.1:443")),
            (value!({"type": "ClusterIP", "clusterIP": "fd00::1", "ports": (ports())}), Ok("[fd00::1]:443")),
            (
                value!({"type": "ClusterIP", "clusterIP": "None"}),
                Err("cannot route to service with ClusterIP \"None\""),
            ),
            (value!({"type": "ExternalName", "externalName": "a.example"}), Ok("a.example:443")),
            (value!({"type": "NodePort", "clusterIP": "10.0.0.1"}), Err("no service port 443 found for service \"s\"")),
            (value!({}), Err("unsupported service type \"\"")),
        ];
        for (spec, expected) in cases {
            let got = cluster_address(&service(spec), 443).map(|address| address.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn services_are_reached_by_ready_endpoints() {
        let slice = |family: &str, address: &str, ready: bool| {
            Arc::new(value!({
                "metadata": {"labels": {"kubernetes.io/service-name": "s"}},
                "addressType": (family),
                "ports": [{"name": "https", "port": 8443}],
                "endpoints": [{"addresses": [(address)], "conditions": {"ready": (ready)}}],
            }))
        };
        let spec = value!({"type": "ClusterIP", "ipFamilies": ["IPv4"], "ports": [{"name": "https", "port": 443}]});
        let service = service(spec);
        let resolve =
            |slices: &[Arc<Value>]| endpoint_address(&service, 443, slices).map(|address| address.to_string());
        assert_eq!(
            resolve(&[slice("IPv6", "fd00::1", true), slice("IPv4", "10.1.1.1", true)]),
            Ok("10.1.1.1:8443".into())
        );
        assert_eq!(resolve(&[slice("IPv6", "fd00::1", true)]), Ok("[fd00::1]:8443".into()));
        assert_eq!(
            resolve(&[slice("IPv4", "10.1.1.1", false)]),
            Err("no endpoints available for service \"s\"".into())
        );
    }
}
