//! How the cluster finds its API server: the `kubernetes` Service and where it leads.

use std::net::IpAddr;

use object::timestamp::Time;
use object::{Timestamp, Value, value};

/// Where the server can be reached from inside the cluster.
#[derive(Clone, Debug)]
pub struct Advertised {
    pub address: IpAddr,
    pub port: u16,
    /// The first address of the service range.
    pub service_address: IpAddr,
    /// The service range itself, `10.0.0.0/24`.
    pub service_range: String,
}

/// Resource and object, in the order they are to be created.
pub fn objects(advertised: &Advertised) -> [(&'static str, Value); 4] {
    [
        ("servicecidrs", service_range(advertised)),
        ("services", service(advertised)),
        ("endpoints", endpoints(advertised)),
        ("endpointslices", endpoint_slice(advertised)),
    ]
}

fn service_range(advertised: &Advertised) -> Value {
    value!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [(advertised.service_range.clone())]}
    })
}

/// What makes the service range one that addresses are taken from.
pub fn range_is_ready(now: Timestamp) -> Value {
    value!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": (Time(now).to_string()),
            "message": "Kubernetes default Service CIDR is ready"
        }]}
    })
}

fn service(advertised: &Advertised) -> Value {
    let address = advertised.service_address.to_string();
    value!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}
        },
        "spec": {
            "clusterIP": address, "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": (i64::from(advertised.port))}],
            "sessionAffinity": "None", "type": "ClusterIP"
        }
    })
}

fn endpoints(advertised: &Advertised) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}
        },
        "subsets": [{
            "addresses": [{"ip": (advertised.address.to_string())}],
            "ports": [{"name": "https", "port": (i64::from(advertised.port)), "protocol": "TCP"}]
        }]
    })
}

fn endpoint_slice(advertised: &Advertised) -> Value {
    let family = if advertised.address.is_ipv4() { "IPv4" } else { "IPv6" };
    value!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}
        },
        "addressType": family,
        "endpoints": [{"addresses": [(advertised.address.to_string())], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": (i64::from(advertised.port)), "protocol": "TCP"}]
    })
}
