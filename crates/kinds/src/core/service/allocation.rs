//! Cluster addresses and node ports: each is given to one service at a time, whatever server hands it out.
//!
//! Nothing here is remembered between requests. An address is taken by creating the IPAddress object of its name, which
//! only one of several writers can do; node ports are bits in one stored object that is changed by compare-and-swap. A
//! server that dies between taking something and storing the service leaves it taken; [`repair`] finds it later.

mod addresses;
mod families;
mod node_ports;
pub mod repair;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use object::{Errors, GroupKind, Meta, Status, Value};
use registry::{Context, Undo};

pub use node_ports::PortRange;

use super::facts::*;
use addresses::IpFamily;
use node_ports::NodePorts;

/// What allocation needs from the server around it. Everything is done as the server itself, not as the user.
#[async_trait]
pub trait AllocationStore: Send + Sync {
    /// Creates an IPAddress; false if there is one of its name.
    async fn create_address(&self, address: Value) -> Result<bool, Status>;

    /// Deletes an IPAddress; one that is not there is fine.
    async fn delete_address(&self, name: &str) -> Result<(), Status>;

    /// All IPAddresses, as current as the store itself.
    async fn addresses(&self) -> Result<Vec<Arc<Value>>, Status>;

    /// All Services, as current as the store itself.
    async fn services(&self) -> Result<Vec<Arc<Value>>, Status>;

    /// The RangeAllocation at `ranges/servicenodeports` below the storage prefix, and the revision it was stored at.
    async fn node_ports(&self) -> Result<Option<(Value, u64)>, Status>;

    /// Stores the RangeAllocation if the stored one is still of the given revision (None: if there is none), and answers
    /// with the new revision; None if another writer was faster.
    async fn store_node_ports(&self, ports: &Value, revision: Option<u64>) -> Result<Option<u64>, Status>;
}

/// The address families and port range of a cluster, and the store that holds what is taken.
pub struct Allocation {
    /// One or two; the first is given to services that do not ask.
    families: Vec<IpFamily>,
    node_ports: NodePorts,
    store: OnceLock<Arc<dyn AllocationStore>>,
}

impl Default for Allocation {
    /// A cluster of one family, with the usual node ports.
    fn default() -> Allocation {
        Allocation::new(&[], PortRange::DEFAULT)
    }
}

impl Allocation {
    /// `cluster_ip_ranges` are the networks of `--service-cluster-ip-range`; only their families matter here, addresses
    /// come from the ServiceCIDR objects that are made of them.
    pub fn new(cluster_ip_ranges: &[String], node_ports: PortRange) -> Allocation {
        let mut families: Vec<IpFamily> =
            cluster_ip_ranges.iter().filter_map(|range| IpFamily::of_cidr(range)).collect();
        families.dedup();
        if families.is_empty() {
            families.push(IpFamily::V4);
        }
        Allocation { families, node_ports: NodePorts::new(node_ports), store: OnceLock::new() }
    }

    /// Hands over the store, once there is one. Until then nothing can be allocated.
    pub fn connect(&self, store: Arc<dyn AllocationStore>) {
        // A second store would see the same objects as the first.
        let _ = self.store.set(store);
    }

    fn store(&self) -> Result<&Arc<dyn AllocationStore>, Status> {
        self.store.get().ok_or_else(|| Status::internal("the server cannot allocate addresses yet"))
    }

    /// Takes what a new service needs and writes it into the service.
    pub(super) async fn create(&self, cx: &Context<'_>, service: &mut Value) -> Result<Taken, Status> {
        families::settle(self, cx, service, None)?;
        let mut taken = Taken::default();
        let result = self.fill_new(cx, service, &mut taken).await;
        self.finish(cx, taken, result).await
    }

    async fn fill_new(&self, cx: &Context<'_>, service: &mut Value, taken: &mut Taken) -> Result<(), Status> {
        self.take_addresses(cx, service, taken).await?;
        self.change_ports(cx, service, taken, node_ports::fill_new).await
    }

    /// Takes what a changed service needs in addition, and remembers what it needs no more.
    pub(super) async fn update(&self, cx: &Context<'_>, new: &mut Value, old: &Value) -> Result<Taken, Status> {
        families::settle(self, cx, new, Some(old))?;
        let mut taken = Taken::default();
        let result = self.fill_changed(cx, new, old, &mut taken).await;
        self.finish(cx, taken, result).await
    }

    async fn fill_changed(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
        taken: &mut Taken,
    ) -> Result<(), Status> {
        self.change_addresses(cx, new, old, taken).await?;
        self.change_ports(cx, new, taken, |new, ports| node_ports::fill_changed(new, old, ports)).await
    }

    /// Gives back what was taken if something went wrong on the way.
    async fn finish(&self, cx: &Context<'_>, mut taken: Taken, result: Result<(), Status>) -> Result<Taken, Status> {
        if cx.dry_run {
            taken = Taken::default();
        } else {
            taken.ports_of = Some(self.node_ports.clone());
            taken.store = Some(self.store()?.clone());
        }
        match result {
            Ok(()) => Ok(taken),
            Err(status) => {
                Box::new(taken).undo().await;
                Err(status)
            }
        }
    }

    /// Gives back everything a deleted service had. What cannot be given back now is found by [`repair`].
    pub(super) async fn release(&self, service: &Value) {
        let Ok(store) = self.store() else { return };
        if needs_cluster_ip(service) && !is_headless(service) {
            for ip in cluster_ips(service) {
                if let Some(name) = addresses::object_name(ip) {
                    let _ = store.delete_address(&name).await;
                }
            }
        }
        let mut ports = node_ports(service);
        if needs_health_check(service) && health_check_port(service) > 0 {
            ports.push(health_check_port(service));
        }
        if !ports.is_empty() {
            let _ = self.node_ports.release(store, &ports).await;
        }
    }

    /// Fills in fields that services stored by older servers lack.
    pub(super) fn default_on_read(&self, service: &mut Value) {
        super::transitions::normalize_cluster_ips(service, None);
        if !needs_cluster_ip(service) {
            service.remove(&["spec", "internalTrafficPolicy"]);
            return;
        }
        if !ip_families(service).is_empty() {
            return;
        }
        let primary = self.primary();
        let families: Vec<IpFamily> = match cluster_ip(service) {
            NONE if has_selector(service) => vec![primary],
            NONE => vec![primary, primary.other()],
            _ => cluster_ips(service).into_iter().map(|ip| IpFamily::of_ip(ip).unwrap_or(IpFamily::V4)).collect(),
        };
        match families.len() {
            1 => service.set(&["spec", "ipFamilyPolicy"], "SingleStack"),
            2 => service.set(&["spec", "ipFamilyPolicy"], "RequireDualStack"),
            _ => {}
        }
        families::set(service, &families);
    }

    fn primary(&self) -> IpFamily {
        self.families.first().copied().unwrap_or(IpFamily::V4)
    }
}

/// What a write has taken and will let go.
#[derive(Default)]
pub(super) struct Taken {
    addresses: Vec<String>,
    ports: Vec<i64>,
    /// What the service has no use for once the write is stored.
    old_addresses: Vec<String>,
    old_ports: Vec<i64>,
    store: Option<Arc<dyn AllocationStore>>,
    ports_of: Option<NodePorts>,
}

impl Taken {
    async fn release(&self, addresses: &[String], ports: &[i64]) {
        let (Some(store), Some(ports_of)) = (&self.store, &self.ports_of) else { return };
        for address in addresses {
            let _ = store.delete_address(address).await;
        }
        if !ports.is_empty() {
            let _ = ports_of.release(store, ports).await;
        }
    }
}

#[async_trait]
impl Undo for Taken {
    async fn undo(self: Box<Self>) {
        self.release(&self.addresses, &self.ports).await;
    }

    async fn commit(self: Box<Self>) {
        self.release(&self.old_addresses, &self.old_ports).await;
    }
}

/// A service that cannot be had, told as a validation error.
fn invalid(service: &Value, errors: &Errors) -> Status {
    Status::invalid(&GroupKind::new("", "Service"), service.name(), errors)
}
