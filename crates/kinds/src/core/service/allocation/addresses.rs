//! Cluster addresses, taken from the networks of ServiceCIDR objects by creating IPAddress objects.
//!
//! The lower part of a network is kept for addresses that are asked for by name as long as the rest lasts.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use object::{Errors, Meta, Path, Randomness, Status, Value, names, value};
use registry::{Context, OwnClient};

use super::families::stays_preferring_dual_stack;
use super::meters::AllocationMode;
use super::{Allocation, Taken, invalid};
use crate::core::service::facts::*;

pub(super) const GROUP: &str = "networking.k8s.io";
pub(super) const RESOURCE: &str = "ipaddresses";
pub(super) const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub(super) const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const CONTROLLER: &str = "ipallocator.k8s.io";

/// Networks smaller than this have no part for addresses by name; others have a sixteenth, within bounds.
const STATIC_MIN: u128 = 16;
const STATIC_MAX: u128 = 256;
const STATIC_SHARE: u128 = 16;
/// Larger IPv6 networks are not used.
const V6_PREFIX_MIN: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub fn name(self) -> &'static str {
        match self {
            IpFamily::V4 => "IPv4",
            IpFamily::V6 => "IPv6",
        }
    }

    pub fn other(self) -> IpFamily {
        match self {
            IpFamily::V4 => IpFamily::V6,
            IpFamily::V6 => IpFamily::V4,
        }
    }

    pub fn of_name(name: &str) -> Option<IpFamily> {
        [IpFamily::V4, IpFamily::V6].into_iter().find(|family| family.name() == name)
    }

    pub fn of_ip(ip: &str) -> Option<IpFamily> {
        names::parse_ip_sloppy(ip).map(IpFamily::of)
    }

    pub fn of_cidr(cidr: &str) -> Option<IpFamily> {
        names::parse_cidr_sloppy(cidr).map(|cidr| IpFamily::of(cidr.address))
    }

    fn of(ip: IpAddr) -> IpFamily {
        if ip.to_canonical().is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
    }
}

/// The name of the object that stands for an address.
pub(super) fn object_name(ip: &str) -> Option<String> {
    names::parse_ip_sloppy(ip).map(|ip| ip.to_canonical().to_string())
}

/// The object that stands for an address which a service has.
pub(super) fn address_object(name: &str, namespace: &str, service: &str) -> Value {
    let family = IpFamily::of_ip(name).unwrap_or(IpFamily::V4).name();
    let mut object = value!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": name},
        "spec": {"parentRef": {"resource": "services", "name": service, "namespace": namespace}}
    });
    object.set(&["metadata", "labels", FAMILY_LABEL], family);
    object.set(&["metadata", "labels", MANAGED_BY_LABEL], CONTROLLER);
    object
}

impl Allocation {
    /// Takes an address for each family the service has and writes them into it.
    pub(super) async fn take_addresses(
        &self,
        cx: &Context<'_>,
        service: &mut Value,
        taken: &mut Taken,
    ) -> Result<(), Status> {
        if !needs_cluster_ip(service) || cluster_ips(service).first() == Some(&NONE) {
            return Ok(());
        }
        let families: Vec<String> = ip_families(service).into_iter().map(str::to_string).collect();
        let ips = service.slot(&["spec", "clusterIPs"]).make_list();
        while ips.len() < families.len() {
            ips.push("".into());
        }
        for (index, family) in families.iter().enumerate() {
            let ip = self.take_address(cx, service, index, family, taken).await?;
            set_ip(service, index, &ip);
            if index == 0 {
                service.set(&["spec", "clusterIP"], ip);
            }
        }
        Ok(())
    }

    /// Takes the address an update asks for, and notes the ones it lets go.
    pub(super) async fn change_addresses(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
        taken: &mut Taken,
    ) -> Result<(), Status> {
        if stays_preferring_dual_stack(new, old) {
            return Ok(());
        }
        if !needs_cluster_ip(old) && needs_cluster_ip(new) {
            return self.take_addresses(cx, new, taken).await;
        }
        let is_none = |service: &Value| cluster_ips(service).first() == Some(&NONE);
        if is_none(old) || (is_none(new) && needs_cluster_ip(new)) {
            return Ok(());
        }
        let old_name = |index: usize| cluster_ips(old).get(index).and_then(|ip| object_name(ip));
        if needs_cluster_ip(old) && !needs_cluster_ip(new) {
            taken.old_addresses.extend((0..ip_families(old).len()).filter_map(old_name));
            return Ok(());
        }
        match (ip_families(old).len(), ip_families(new).len()) {
            (1, 2) => {
                let family = ip_families(new).get(1).copied().unwrap_or("").to_string();
                let ips = new.slot(&["spec", "clusterIPs"]).make_list();
                while ips.len() < 2 {
                    ips.push("".into());
                }
                let ip = self.take_address(cx, new, 1, &family, taken).await?;
                set_ip(new, 1, &ip);
            }
            (2, 1) => taken.old_addresses.extend(old_name(1)),
            _ => {}
        }
        Ok(())
    }

    /// Takes the address at `index`, or any of the family if there is none yet.
    async fn take_address(
        &self,
        cx: &Context<'_>,
        service: &Value,
        index: usize,
        family: &str,
        taken: &mut Taken,
    ) -> Result<String, Status> {
        let wanted = cluster_ips(service).get(index).copied().unwrap_or("");
        let refuse = |detail: String| {
            let mut errors = Errors::new();
            let shown = service.at(&["spec", "clusterIPs"]).clone();
            errors.invalid(&Path::of("spec.clusterIPs"), shown, detail);
            invalid(service, &errors)
        };
        let networks = networks(cx, family);
        let began = Instant::now();
        let note = |scope: AllocationMode, taken: Option<&str>| {
            if !cx.dry_run {
                self.meters.address(&networks, scope, taken.and_then(names::parse_ip_sloppy), began.elapsed());
            }
        };
        if wanted.is_empty() {
            let found = self.take_any(cx, service, &networks, taken).await;
            note(AllocationMode::Dynamic, found.as_deref().ok());
            return match found {
                Ok(ip) => Ok(ip),
                Err(Failure::Full) => {
                    let name = object::quote(service.name());
                    Err(Status::internal(format!("failed to allocate a serviceIP for Service {name}: range is full")))
                }
                Err(failure) => Err(refuse(format!("failed to allocate IP: {failure}"))),
            };
        }
        let found = self.take_this(cx, service, wanted, &networks, taken).await;
        note(AllocationMode::Static, found.is_ok().then_some(wanted));
        match found {
            Ok(()) => Ok(wanted.to_string()),
            Err(failure) => Err(refuse(format!("failed to allocate IP {wanted}: {failure}"))),
        }
    }

    async fn take_this(
        &self,
        cx: &Context<'_>,
        service: &Value,
        ip: &str,
        networks: &[Network],
        taken: &mut Taken,
    ) -> Result<(), Failure> {
        let Some(address) = names::parse_ip_sloppy(ip).map(|ip| ip.to_canonical()) else {
            return Err(Failure::Other(format!("failed to parse service IP {}", object::quote(ip))));
        };
        if !networks.iter().any(|network| network.ready && network.has(address)) {
            return Err(match networks.first() {
                // Upstream's dry run looks at one network only and tells which.
                Some(network) if cx.dry_run => Failure::NotInRange { ip: address, range: network.text.clone() },
                _ => Failure::OtherNetwork,
            });
        }
        if cx.dry_run {
            return Ok(());
        }
        if !take(&self.client, address, service, taken).await? {
            return Err(Failure::Allocated);
        }
        Ok(())
    }

    /// Looks for a free address, first as the cache knows them and then, before giving up, as the store does: the cache
    /// may not have heard of addresses that were just given back.
    async fn take_any(
        &self,
        cx: &Context<'_>,
        service: &Value,
        networks: &[Network],
        taken: &mut Taken,
    ) -> Result<String, Failure> {
        if cx.dry_run {
            let network = networks.iter().find(|network| network.ready).ok_or(Failure::NotReady)?;
            return Ok(network.base.to_string());
        }
        let known = |name: &str| cx.lookup.get(GROUP, "ipaddresses", "", name).is_some();
        if let Some(ip) = take_free(cx, &self.client, service, networks, &known, taken).await? {
            return Ok(ip);
        }
        let stored = self.client.list(GROUP, RESOURCE, "").await?;
        let stored: HashSet<&str> = stored.iter().map(|object| object.name()).collect();
        let known = |name: &str| stored.contains(name);
        take_free(cx, &self.client, service, networks, &known, taken).await?.ok_or(Failure::Full)
    }
}

fn set_ip(service: &mut Value, index: usize, ip: &str) {
    let ips = service.slot(&["spec", "clusterIPs"]).make_list();
    if let Some(slot) = ips.get_mut(index) {
        *slot = ip.into();
    }
}

async fn take_free(
    cx: &Context<'_>,
    client: &Arc<dyn OwnClient>,
    service: &Value,
    networks: &[Network],
    known: &(dyn Fn(&str) -> bool + Sync),
    taken: &mut Taken,
) -> Result<Option<String>, Failure> {
    for network in networks.iter().filter(|network| network.ready) {
        for part in network.parts() {
            for address in part.shuffled(cx.randomness) {
                let name = address.to_string();
                if !known(&name) && take(client, address, service, taken).await? {
                    return Ok(Some(name));
                }
            }
        }
    }
    Ok(None)
}

/// Deletes the IPAddress of an address.
pub(super) async fn give_back(client: &Arc<dyn OwnClient>, name: &str) -> Result<(), Status> {
    client.delete(GROUP, RESOURCE, name).await
}

/// Tries to become the owner of an address.
async fn take(
    client: &Arc<dyn OwnClient>,
    address: IpAddr,
    service: &Value,
    taken: &mut Taken,
) -> Result<bool, Failure> {
    let name = address.to_string();
    let created = client.create(GROUP, RESOURCE, address_object(&name, service.namespace(), service.name())).await?;
    if created {
        taken.addresses.push(name);
    }
    Ok(created)
}

/// Why there is no address, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    Allocated,
    #[error("the provided network does not match the current range")]
    OtherNetwork,
    #[error("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}")]
    NotInRange { ip: IpAddr, range: String },
    #[error("allocator not ready")]
    NotReady,
    #[error("{0}")]
    Other(String),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Other(status.message)
    }
}

/// A network that addresses are taken from.
#[derive(Debug)]
pub(super) struct Network {
    pub text: String,
    base: IpAddr,
    first: u128,
    last: u128,
    /// So many of the first addresses are for services that ask for one by name.
    reserved: u128,
    pub ready: bool,
}

/// Every network of a family that a ServiceCIDR has.
fn networks(cx: &Context<'_>, family: &str) -> Vec<Network> {
    let mut found: Vec<Network> = Vec::new();
    for object in cx.lookup.list(GROUP, "servicecidrs", "") {
        let ready = is_ready(&object);
        for cidr in object.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str) {
            match found.iter_mut().find(|network| network.text == cidr) {
                // Several objects may have the same network; one that is ready is enough.
                Some(network) => network.ready |= ready,
                None => found.extend(Network::new(cidr, ready).filter(|network| network.family().name() == family)),
            }
        }
    }
    found
}

fn is_ready(service_cidr: &Value) -> bool {
    let conditions = service_cidr.list_at(&["status", "conditions"]);
    let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Ready");
    // Without the controller that sets conditions, a network is as good as it looks.
    !service_cidr.is_deleting() && ready.is_none_or(|condition| condition.str_at(&["status"]) == "True")
}

impl Network {
    pub fn new(text: &str, ready: bool) -> Option<Network> {
        let cidr = names::parse_cidr_sloppy(text)?;
        let base = cidr.network();
        if base.is_ipv6() && cidr.prefix_length < V6_PREFIX_MIN {
            return None;
        }
        let bits = if base.is_ipv4() { 32 } else { 128 };
        let host_bits = u32::from(bits - cidr.prefix_length);
        let size = 1_u128.checked_shl(host_bits).unwrap_or(u128::MAX);
        let network = to_number(base);
        // Neither the network's own address nor, for IPv4, the broadcast address can be allocated.
        let end = network.saturating_add(size - 1);
        let last = if base.is_ipv4() { end.checked_sub(1)? } else { end };
        let first = network.checked_add(1)?;
        let reserved = match size {
            0..=STATIC_MIN => 0,
            size => (size / STATIC_SHARE).clamp(STATIC_MIN, STATIC_MAX),
        };
        Some(Network { text: text.to_string(), base, first, last, reserved, ready }).filter(|_| first <= last)
    }

    fn family(&self) -> IpFamily {
        IpFamily::of(self.base)
    }

    /// How many addresses there are.
    pub fn size(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    pub fn has(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4() && (self.first..=self.last).contains(&to_number(address))
    }

    /// The part for any address, then the part for addresses by name.
    fn parts(&self) -> Vec<Part> {
        let middle = self.first.saturating_add(self.reserved);
        let is_v4 = self.base.is_ipv4();
        let upper = Part { first: middle, last: self.last, is_v4 };
        let lower = Part { first: self.first, last: middle.saturating_sub(1), is_v4 };
        [upper, lower].into_iter().filter(|part| part.first <= part.last).collect()
    }
}

/// A run of addresses.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u128,
    last: u128,
    is_v4: bool,
}

impl Part {
    /// All addresses once, from a random one on.
    fn shuffled(self, randomness: &dyn Randomness) -> impl Iterator<Item = IpAddr> + use<> {
        let count = (self.last - self.first).saturating_add(1);
        let start = self.first + randomness.wide_number() % count;
        (start..=self.last).chain(self.first..start).map(move |number| to_address(number, self.is_v4))
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn to_address(number: u128, is_v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if is_v4 => IpAddr::V4(Ipv4Addr::from_bits(number)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_leave_out_their_ends() {
        for (text, first, last, reserved) in [
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.254", 16),
            ("10.0.0.0/28", "10.0.0.1", "10.0.0.14", 0),
            ("10.0.0.0/12", "10.0.0.1", "10.15.255.254", 256),
            ("10.0.0.0/20", "10.0.0.1", "10.0.15.254", 256),
            ("fd00::/120", "fd00::1", "fd00::ff", 16),
            ("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", 256),
        ] {
            let network = Network::new(text, true).unwrap();
            assert_eq!(to_address(network.first, network.base.is_ipv4()).to_string(), first, "{text}");
            assert_eq!(to_address(network.last, network.base.is_ipv4()).to_string(), last, "{text}");
            assert_eq!(network.reserved, reserved, "{text}");
        }
        assert!(Network::new("10.0.0.0/32", true).is_none());
        assert!(Network::new("10.0.0.0/31", true).is_none());
        assert!(Network::new("fd00::/63", true).is_none());
        assert!(Network::new("nonsense", true).is_none());
    }

    #[test]
    fn a_part_has_every_address_once() {
        let network = Network::new("10.0.0.0/24", true).unwrap();
        let all: Vec<IpAddr> =
            network.parts().into_iter().flat_map(|part| part.shuffled(&object::ThreadRandomness)).collect();
        let distinct: HashSet<&IpAddr> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (254, 254));
        let reserved: Vec<&IpAddr> = all[238..].iter().collect();
        assert!(reserved.iter().all(|ip| to_number(**ip) & 0xff <= 16));
    }
}
