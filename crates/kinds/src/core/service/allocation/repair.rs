//! Finds addresses and ports that are taken without a service, or used without being taken, and sets them right.
//!
//! A loop outside calls [`Repair::run`] every few minutes, and once at the start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use object::timestamp::Time;
use object::{Meta, Status, Timestamp, Value};

use super::addresses::{CONTROLLER, FAMILY_LABEL, IpFamily, MANAGED_BY_LABEL, address_object, object_name};
use super::node_ports::ports_in_use;
use super::{Allocation, AllocationStore};
use crate::core::service::facts::*;

/// A write may be under way that has taken an address and not stored its service yet.
const GRACE_SECONDS: i64 = 60;
/// A port must be seen without a service so often before it is given back.
const SIGHTINGS: u32 = 3;

/// Something that was wrong, for logs and events. `service` is namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    AddressNotAllocated { address: String, service: (String, String) },
    AddressOfManyServices { address: String, service: (String, String) },
    AddressLeaked { address: String },
    PortNotAllocated { port: i64, service: (String, String) },
    PortOfManyServices { port: i64, service: (String, String) },
    PortLeaked { port: i64 },
}

/// What the repair remembers from run to run.
#[derive(Default)]
pub struct Repair {
    /// Ports without a service, and in how many more runs they must be seen that way.
    suspects: BTreeMap<i64, u32>,
}

impl Repair {
    pub fn new() -> Repair {
        Repair::default()
    }

    /// Looks once and sets right what it finds.
    pub async fn run(&mut self, allocation: &Allocation, now: Timestamp) -> Result<Vec<Finding>, Status> {
        let store = allocation.store()?;
        // In this order a service can only seem to lack its address, and then nothing is released.
        let addresses = store.addresses().await?;
        let services = store.services().await?;
        let mut findings = repair_addresses(store, &services, &addresses, now).await?;
        allocation.node_ports.rewrite(store, |taken| self.settle_ports(taken, &services, &mut findings)).await?;
        Ok(findings)
    }

    /// The ports that should be taken, from those that are and those that services use.
    fn settle_ports(&mut self, taken: &[i64], services: &[Arc<Value>], findings: &mut Vec<Finding>) -> Vec<i64> {
        let mut used: BTreeSet<i64> = BTreeSet::new();
        for service in services {
            // One service may use a port for several protocols.
            let mine: BTreeSet<i64> = ports_in_use(service).into_iter().collect();
            for port in mine {
                if !used.insert(port) {
                    findings.push(Finding::PortOfManyServices { port, service: id(service) });
                } else if !taken.contains(&port) {
                    findings.push(Finding::PortNotAllocated { port, service: id(service) });
                }
            }
        }
        self.suspects.retain(|port, _| taken.contains(port) && !used.contains(port));
        let mut kept = used.clone();
        for port in taken.iter().filter(|port| !used.contains(port)) {
            let left = self.suspects.entry(*port).or_insert(SIGHTINGS);
            *left = left.saturating_sub(1);
            if *left > 0 {
                kept.insert(*port);
            } else {
                self.suspects.remove(port);
                findings.push(Finding::PortLeaked { port: *port });
            }
        }
        kept.into_iter().collect()
    }
}

async fn repair_addresses(
    store: &Arc<dyn AllocationStore>,
    services: &[Arc<Value>],
    addresses: &[Arc<Value>],
    now: Timestamp,
) -> Result<Vec<Finding>, Status> {
    let mut findings = Vec::new();
    let objects: HashMap<&str, &Value> = addresses.iter().map(|object| (object.name(), &**object)).collect();
    let mut users: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for service in services {
        for address in names_of(service) {
            users.entry(address).or_default().push(service);
        }
    }
    for (address, services) in &users {
        let object = objects.get(address.as_str());
        let owner = services.iter().find(|service| object.is_some_and(|object| stands_for(object, service)));
        let Some(rightful) = owner.or_else(|| services.first()) else { continue };
        if owner.is_none() {
            if object.is_some() {
                store.delete_address(address).await?;
            }
            let (namespace, name) = id(rightful);
            if store.create_address(address_object(address, &namespace, &name)).await? {
                findings.push(Finding::AddressNotAllocated { address: address.clone(), service: id(rightful) });
            }
        }
        let others = services.iter().filter(|service| id(service) != id(rightful));
        findings.extend(others.map(|s| Finding::AddressOfManyServices { address: address.clone(), service: id(s) }));
    }
    for object in addresses.iter().filter(|object| object.label(MANAGED_BY_LABEL) == Some(CONTROLLER)) {
        let young = Time::parse(object.meta_str("creationTimestamp"))
            .is_ok_and(|Time(created)| now.since(created).whole_seconds() <= GRACE_SECONDS);
        if !users.contains_key(object.name()) && !young {
            store.delete_address(object.name()).await?;
            findings.push(Finding::AddressLeaked { address: object.name().to_string() });
        }
    }
    Ok(findings)
}

fn names_of(service: &Value) -> Vec<String> {
    if !needs_cluster_ip(service) {
        return Vec::new();
    }
    let mut ips = cluster_ips(service);
    if ips.is_empty() {
        ips.push(cluster_ip(service));
    }
    ips.into_iter().filter_map(object_name).collect()
}

/// Whether an IPAddress says that it belongs to the service, and carries its labels.
fn stands_for(object: &Value, service: &Value) -> bool {
    let parent = object.at(&["spec", "parentRef"]);
    let family = IpFamily::of_ip(object.name()).map_or("", IpFamily::name);
    parent.str_at(&["group"]).is_empty()
        && parent.str_at(&["resource"]) == "services"
        && parent.str_at(&["namespace"]) == service.namespace()
        && parent.str_at(&["name"]) == service.name()
        && object.label(FAMILY_LABEL) == Some(family)
        && object.label(MANAGED_BY_LABEL) == Some(CONTROLLER)
}

fn id(service: &Value) -> (String, String) {
    (service.namespace().to_string(), service.name().to_string())
}
