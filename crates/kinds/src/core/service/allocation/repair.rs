//! Finds addresses and ports that are taken without a service, or used without being taken, and sets them right.
//!
//! Loops outside call [`Allocation::check_service`] and [`Allocation::check_address`] for objects that have changed, and
//! for all of them every few minutes; [`PortRepair::run`] every few minutes, and once at the start.

mod addresses;
mod notes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::{Meta, Status, Value};

use super::Allocation;
use super::node_ports::{PortRange, ports_in_use};

pub use addresses::Checked;
pub use notes::{About, Note};

/// A port must be seen without a service so often before it is given back.
const SIGHTINGS: u32 = 3;

/// Something that was wrong, for logs and events. `service` is namespace and name.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    AddressNotAllocated {
        address: String,
        service: (String, String),
    },
    /// Its IPAddress names something else.
    AddressMisnamed {
        address: String,
        service: (String, String),
    },
    /// No ServiceCIDR contains it.
    AddressOutOfRange {
        address: String,
        service: (String, String),
    },
    AddressOfManyServices {
        address: String,
        service: (String, String),
    },
    /// An IPAddress whose service does not exist.
    AddressLeaked {
        object: Arc<Value>,
    },
    /// An IPAddress of a service that has another address.
    AddressOfAnother {
        object: Arc<Value>,
    },
    /// An IPAddress of something that is not a service.
    AddressOfNoService {
        object: Arc<Value>,
    },
    PortNotAllocated {
        port: i64,
        service: (String, String),
    },
    PortOfManyServices {
        port: i64,
        service: (String, String),
    },
    PortOutOfRange {
        port: i64,
        range: String,
        service: (String, String),
    },
    PortLeaked {
        port: i64,
    },
}

/// What the repair of node ports remembers from run to run.
#[derive(Default)]
pub struct PortRepair {
    /// Ports without a service, and in how many more runs they must be seen that way.
    suspects: BTreeMap<i64, u32>,
}

impl PortRepair {
    pub fn new() -> PortRepair {
        PortRepair::default()
    }

    /// Looks once and sets right what it finds.
    pub async fn run(&mut self, allocation: &Allocation) -> Result<Vec<Finding>, Status> {
        let client = &allocation.client;
        let services = client.list("", "services", "").await?;
        let mut findings = Vec::new();
        let range = allocation.node_ports.range();
        allocation
            .node_ports
            .rewrite(client, |taken| self.settle_ports(range, taken, &services, &mut findings))
            .await?;
        Ok(findings)
    }

    /// The ports that should be taken, from those that are and those that services use.
    fn settle_ports(
        &mut self,
        range: PortRange,
        taken: &[i64],
        services: &[Arc<Value>],
        findings: &mut Vec<Finding>,
    ) -> Vec<i64> {
        let mut used: BTreeSet<i64> = BTreeSet::new();
        for service in services {
            // One service may use a port for several protocols.
            let mine: BTreeSet<i64> = ports_in_use(service).into_iter().collect();
            for port in mine {
                if range.bit(port).is_none() {
                    findings.push(Finding::PortOutOfRange { port, range: range.to_string(), service: id(service) });
                } else if !used.insert(port) {
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

fn id(service: &Value) -> (String, String) {
    (service.namespace().to_string(), service.name().to_string())
}
