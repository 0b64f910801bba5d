//! What events say about a finding, in upstream's words.

use object::{Meta, Value};

use super::Finding;
use crate::core::service::allocation::addresses::IpFamily;

/// An event without its time and its object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub controller: &'static str,
    pub reason: &'static str,
    pub action: &'static str,
    pub text: String,
    pub about: About,
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    Service { namespace: String, name: String },
    Address(Box<Value>),
}

impl Finding {
    /// None where upstream only writes to its log.
    pub fn note(&self) -> Option<Note> {
        match self {
            Finding::AddressLeaked { object } => {
                let (name, parent) = (object.name(), parent(object));
                Some(of_address(
                    object,
                    "IPAddressNotAllocated",
                    format!("IPAddress: {name} for Service {parent} appears to have leaked: cleaning up"),
                ))
            }
            Finding::AddressOfAnother { object } => {
                let (name, parent) = (object.name(), parent(object));
                Some(of_address(
                    object,
                    "IPAddressWrongReference",
                    format!("IPAddress: {name} for Service {parent} has a wrong reference; cleaning up"),
                ))
            }
            Finding::AddressOfNoService { object } => {
                let of = |field| object.at(&["spec", "parentRef"]).str_at(&[field]);
                let (name, group, resource) = (object.name(), of("group"), of("resource"));
                let reference = format!(
                    "&ParentReference{{Group:{group},Resource:{resource},Namespace:{},Name:{},}}",
                    of("namespace"),
                    of("name")
                );
                Some(of_address(
                    object,
                    "IPAddressNotAllocated",
                    format!(
                        "IPAddress {name} appears to have been modified, not referencing a Service {reference}: cleaning up"
                    ),
                ))
            }
            other => other.note_of_service(),
        }
    }

    fn note_of_service(&self) -> Option<Note> {
        let family = |address: &str| IpFamily::of_ip(address).map_or("", IpFamily::name);
        let (reason, text, service) = match self {
            Finding::AddressNotAllocated { address, service } => {
                let text = format!("Cluster IP [{}]: {address} is not allocated; repairing", family(address));
                ("ClusterIPNotAllocated", text, service)
            }
            Finding::AddressMisnamed { address, service } => {
                let (family, (namespace, name)) = (family(address), service);
                let text = format!(
                    "the ClusterIP [{family}]: {address} for Service {namespace}/{name} has a wrong reference; repairing"
                );
                ("ClusterIPNotAllocated", text, service)
            }
            Finding::AddressOutOfRange { address, service } => {
                let family = family(address);
                let text = format!(
                    "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
                );
                ("ClusterIPOutOfRange", text, service)
            }
            Finding::AddressOfManyServices { address, service } => {
                let family = family(address);
                let text = format!(
                    "Cluster IP [{family}]:{address} was assigned to multiple services; please recreate service"
                );
                ("ClusterIPAlreadyAllocated", text, service)
            }
            Finding::PortNotAllocated { port, service } => {
                ("PortNotAllocated", format!("Port {port} is not allocated; repairing"), service)
            }
            Finding::PortOfManyServices { port, service } => {
                let text = format!("Port {port} was assigned to multiple services; please recreate service");
                ("PortAlreadyAllocated", text, service)
            }
            Finding::PortOutOfRange { port, range, service } => {
                let text = format!("Port {port} is not within the port range {range}; please recreate service");
                ("PortOutOfRange", text, service)
            }
            _ => return None,
        };
        let (controller, action) = match reason.starts_with("Port") {
            true => ("portallocator-repair-controller", "PortAllocation"),
            false => ("ipallocator-repair-controller", "ClusterIPAllocation"),
        };
        let about = About::Service { namespace: service.0.clone(), name: service.1.clone() };
        Some(Note { controller, reason, action, text, about })
    }
}

fn of_address(object: &Value, reason: &'static str, text: String) -> Note {
    let about = About::Address(Box::new(object.clone()));
    Note { controller: "ipallocator-repair-controller", reason, action: "IPAddressAllocation", text, about }
}

/// Namespace and name of the Service that an IPAddress names.
fn parent(address: &Value) -> String {
    let parent = address.at(&["spec", "parentRef"]);
    format!("{}/{}", parent.str_at(&["namespace"]), parent.str_at(&["name"]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::value;

    use super::*;

    #[test]
    fn notes_have_upstreams_words() {
        let service = || ("ns".to_string(), "web".to_string());
        let object = || {
            let parent = value!({"resource": "services", "namespace": "ns", "name": "web"});
            Arc::new(value!({"metadata": {"name": "10.0.0.5"}, "spec": {"parentRef": (parent)}}))
        };
        let address = || "10.0.0.5".to_string();
        for (finding, reason, text) in [
            (
                Finding::AddressNotAllocated { address: address(), service: service() },
                "ClusterIPNotAllocated",
                "Cluster IP [IPv4]: 10.0.0.5 is not allocated; repairing",
            ),
            (
                Finding::AddressMisnamed { address: "fd00::5".into(), service: service() },
                "ClusterIPNotAllocated",
                "the ClusterIP [IPv6]: fd00::5 for Service ns/web has a wrong reference; repairing",
            ),
            (
                Finding::PortOutOfRange { port: 80, range: "30000-32767".into(), service: service() },
                "PortOutOfRange",
                "Port 80 is not within the port range 30000-32767; please recreate service",
            ),
            (
                Finding::AddressLeaked { object: object() },
                "IPAddressNotAllocated",
                "IPAddress: 10.0.0.5 for Service ns/web appears to have leaked: cleaning up",
            ),
            (
                Finding::AddressOfNoService { object: object() },
                "IPAddressNotAllocated",
                "IPAddress 10.0.0.5 appears to have been modified, not referencing a Service \
                 &ParentReference{Group:,Resource:services,Namespace:ns,Name:web,}: cleaning up",
            ),
        ] {
            let note = finding.note().unwrap();
            assert_eq!((note.reason, note.text.as_str()), (reason, text));
        }
        assert_eq!(Finding::PortLeaked { port: 30000 }.note(), None);
    }
}
