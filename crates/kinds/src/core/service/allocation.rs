//! Cluster addresses and node ports: each is given to one service at a time, whatever server hands it out.
//!
//! Nothing here is remembered between requests. An address is taken by creating the IPAddress object of its name, which
//! only one of several writers can do; node ports are bits in one stored object that is changed by compare-and-swap. A
//! server that dies between taking something and storing the service leaves it taken; [`repair`] finds it later.

mod addresses;
mod families;
mod meters;
mod node_ports;
pub mod repair;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use object::{Errors, GroupKind, Meta, Status, Value};
use registry::{Context, OwnClient, Undo};

pub use meters::AllocationMeters;
pub use node_ports::PortRange;

use super::facts::*;
use addresses::IpFamily;
use node_ports::NodePorts;

/// The address families and port range of a cluster, and the client of the objects that hold what is taken.
pub struct Allocation {
    /// One or two; the first is given to services that do not ask.
    families: Vec<IpFamily>,
    node_ports: NodePorts,
    client: Arc<dyn OwnClient>,
    pub meters: Arc<AllocationMeters>,
}

/// A client of nothing.
struct Nothing;

impl OwnClient for Nothing {}

impl Default for Allocation {
    /// A cluster of one family, with the usual node ports, in which nothing can be allocated.
    fn default() -> Allocation {
        Allocation::new(&[], PortRange::DEFAULT, Arc::new(Nothing))
    }
}

impl Allocation {
    /// `cluster_ip_ranges` are the networks of `--service-cluster-ip-range`; only their families matter here, addresses
    /// come from the ServiceCIDR objects that are made of them.
    pub fn new(cluster_ip_ranges: &[String], node_ports: PortRange, client: Arc<dyn OwnClient>) -> Allocation {
        let mut families: Vec<IpFamily> =
            cluster_ip_ranges.iter().filter_map(|range| IpFamily::of_cidr(range)).collect();
        families.dedup();
        if families.is_empty() {
            families.push(IpFamily::V4);
        }
        let meters = Arc::<AllocationMeters>::default();
        let node_ports = NodePorts::new(node_ports, meters.clone());
        Allocation { families, node_ports, client, meters }
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
            taken.client = Some(self.client.clone());
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
        if needs_cluster_ip(service) && !is_headless(service) {
            for ip in cluster_ips(service) {
                if let Some(name) = addresses::object_name(ip) {
                    let _ = addresses::give_back(&self.client, &name).await;
                }
            }
        }
        let mut ports = node_ports(service);
        if needs_health_check(service) && health_check_port(service) > 0 {
            ports.push(health_check_port(service));
        }
        if !ports.is_empty() {
            let _ = self.node_ports.release(&self.client, &ports).await;
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
    client: Option<Arc<dyn OwnClient>>,
    ports_of: Option<NodePorts>,
}

impl Taken {
    async fn release(&self, addresses: &[String], ports: &[i64]) {
        let (Some(client), Some(ports_of)) = (&self.client, &self.ports_of) else { return };
        for address in addresses {
            let _ = addresses::give_back(client, address).await;
        }
        if !ports.is_empty() {
            let _ = ports_of.release(client, ports).await;
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
