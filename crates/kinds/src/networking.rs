//! The networking group.

mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use std::sync::Arc;

use crate::Strategies;

const GROUP: &str = "networking.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "ingresses", Arc::new(ingress::Ingress)),
        (GROUP, "ingressclasses", Arc::new(ingressclass::IngressClass)),
        (GROUP, "ipaddresses", Arc::new(ipaddress::IpAddress)),
        (GROUP, "networkpolicies", Arc::new(networkpolicy::NetworkPolicy)),
        (GROUP, "servicecidrs", Arc::new(servicecidr::ServiceCidr)),
    ]
}
