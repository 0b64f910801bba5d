//! [`AllocationMeters`]: addresses and node ports that services got, under upstream's names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Family, Gauge, Histogram, Metric, head};
use object::{Value, names};

use super::addresses::Network;

const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Whether something was asked for by name, or any would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllocationMode {
    Static,
    Dynamic,
}

impl AllocationMode {
    fn label(self) -> &'static str {
        match self {
            AllocationMode::Static => "static",
            AllocationMode::Dynamic => "dynamic",
        }
    }
}

pub struct AllocationMeters {
    addresses: Family<Counter>,
    address_errors: Family<Counter>,
    address_seconds: Family<Histogram>,
    ports: Family<Counter>,
    port_errors: Family<Counter>,
    ports_allocated: Family<Gauge>,
    ports_available: Family<Gauge>,
    port_repair_errors: Counter,
}

impl Default for AllocationMeters {
    fn default() -> AllocationMeters {
        let counter = |name, help, labels| Family::new(name, help, labels, Counter::default);
        let gauge = |name, help| Family::new(name, help, &[], Gauge::default);
        AllocationMeters {
            addresses: counter(
                "kube_apiserver_clusterip_allocator_allocation_total",
                "[ALPHA] Number of Cluster IPs allocations",
                &["cidr", "scope"],
            ),
            address_errors: counter(
                "kube_apiserver_clusterip_allocator_allocation_errors_total",
                "[ALPHA] Number of errors trying to allocate Cluster IPs",
                &["cidr", "scope"],
            ),
            address_seconds: Family::new(
                "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
                "[ALPHA] Duration in seconds to allocate a Cluster IP by ServiceCIDR",
                &["cidr"],
                || Histogram::new(SECONDS),
            ),
            ports: counter(
                "kube_apiserver_nodeport_allocator_allocation_total",
                "[ALPHA] Number of NodePort allocations",
                &["scope"],
            ),
            port_errors: counter(
                "kube_apiserver_nodeport_allocator_allocation_errors_total",
                "[ALPHA] Number of errors trying to allocate NodePort",
                &["scope"],
            ),
            ports_allocated: gauge(
                "kube_apiserver_nodeport_allocator_allocated_ports",
                "[ALPHA] Gauge measuring the number of allocated NodePorts for Services",
            ),
            ports_available: gauge(
                "kube_apiserver_nodeport_allocator_available_ports",
                "[ALPHA] Gauge measuring the number of available NodePorts for Services",
            ),
            port_repair_errors: Counter::default(),
        }
    }
}

impl AllocationMeters {
    /// Notes how an attempt to take an address of these networks ended: with this one, or without.
    pub(super) fn address(&self, networks: &[Network], scope: AllocationMode, taken: Option<IpAddr>, took: Duration) {
        let of_network = |network: &&Network| taken.is_none_or(|taken| network.has(taken));
        for network in networks.iter().filter(|network| network.ready).filter(of_network) {
            match taken {
                Some(_) => {
                    self.addresses.with(&[&network.text, scope.label()]).increment();
                    self.address_seconds.with(&[&network.text]).observe(took.as_secs_f64());
                }
                None => self.address_errors.with(&[&network.text, scope.label()]).increment(),
            }
        }
    }

    pub(super) fn port(&self, scope: AllocationMode, is_taken: bool) {
        let counted = if is_taken { &self.ports } else { &self.port_errors };
        counted.with(&[scope.label()]).increment();
    }

    /// Notes how many node ports are taken, of how many.
    pub(super) fn set_ports(&self, taken: usize, all: usize) {
        self.ports_allocated.with(&[]).set(taken as f64);
        self.ports_available.with(&[]).set(all.saturating_sub(taken) as f64);
    }

    /// Notes that the node ports could not be checked.
    pub fn port_repair_failed(&self) {
        self.port_repair_errors.increment();
    }

    /// Writes them, with the numbers of addresses: `cidrs` are the ServiceCIDRs, `addresses` the names of all IPAddresses.
    pub fn write<'a>(
        &self,
        cidrs: &[Arc<Value>],
        addresses: impl Iterator<Item = &'a str>,
        out: &mut String,
    ) -> std::fmt::Result {
        let name = "apiserver_nodeport_repair_reconcile_errors_total";
        head(
            out,
            name,
            Counter::TYPE,
            "[ALPHA] Number of reconciliation failures on the nodeport repair reconcile loop",
        )?;
        self.port_repair_errors.write(name, "", out)?;
        let cidrs = cidrs.iter().flat_map(|object| object.list_at(&["spec", "cidrs"])).filter_map(Value::as_str);
        let mut networks: BTreeMap<&str, (Network, u128)> =
            cidrs.filter_map(|cidr| Some((cidr, (Network::new(cidr, true)?, 0)))).collect();
        for address in addresses.filter_map(names::parse_ip_sloppy) {
            networks.values_mut().filter(|(network, _)| network.has(address)).for_each(|(_, taken)| *taken += 1);
        }
        type Count = fn(&Network, u128) -> u128;
        let (allocated, available): (Count, Count) = (|_, taken| taken, |network, taken| network.size() - taken);
        for (name, help, count) in [
            (
                "kube_apiserver_clusterip_allocator_allocated_ips",
                "[ALPHA] Gauge measuring the number of allocated IPs for Services",
                allocated,
            ),
            (
                "kube_apiserver_clusterip_allocator_available_ips",
                "[ALPHA] Gauge measuring the number of available IPs for Services",
                available,
            ),
        ] {
            let family = Family::new(name, help, &["cidr"], Gauge::default);
            for (cidr, (network, taken)) in &networks {
                family.with(&[cidr]).set(count(network, *taken) as f64);
            }
            family.write(out)?;
        }
        self.addresses.write(out)?;
        self.address_errors.write(out)?;
        self.address_seconds.write(out)?;
        for gauge in [&self.ports_allocated, &self.ports_available] {
            gauge.write(out)?;
        }
        self.ports.write(out)?;
        self.port_errors.write(out)
    }
}
