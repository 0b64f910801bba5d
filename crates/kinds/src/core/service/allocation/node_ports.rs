//! Node ports: one bit a port in one stored object, changed by compare-and-swap.
//!
//! The object is upstream's RangeAllocation, so servers of both kinds can share a store. All ports of a service are taken
//! with one write. The lower part of the range is kept for ports that are asked for by number as long as the rest lasts.

mod bits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Errors, GroupResource, Path, Randomness, Status, Value, value};
use registry::{Context, Error, OwnClient};
use tokio::sync::Mutex;

use super::meters::AllocationMode;
use super::{Allocation, AllocationMeters, Taken, invalid};
use crate::core::service::facts::*;
use bits::Bits;

/// How often a write is tried again because another server was faster.
const TRIES: usize = 50;

/// A range of ports, `30000-32767`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub size: u16,
}

impl PortRange {
    /// What `--service-node-port-range` is unless set.
    pub const DEFAULT: PortRange = PortRange { first: 30000, size: 2768 };

    /// Reads `30000-32767`, or `30000+2768`: the first port and how many.
    pub fn parse(text: &str) -> Result<PortRange, String> {
        let wrong = || format!("{text} is not a range of ports such as 30000-32767");
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (first, size) = match (text.split_once('-'), text.split_once('+')) {
            (Some((first, last)), None) => {
                let (first, last) = (number(first)?, number(last)?);
                (first, last.checked_sub(first).and_then(|size| size.checked_add(1)).ok_or_else(wrong)?)
            }
            (None, Some((first, size))) => (number(first)?, number(size)?),
            _ => (number(text)?, 1),
        };
        first.checked_add(size.saturating_sub(1)).ok_or_else(wrong)?;
        Ok(PortRange { first, size })
    }

    pub fn contains(self, port: u16) -> bool {
        self.bit(i64::from(port)).is_some()
    }

    pub(super) fn bit(self, port: i64) -> Option<usize> {
        let offset = usize::try_from(port.checked_sub(i64::from(self.first))?).ok()?;
        (offset < usize::from(self.size)).then_some(offset)
    }

    fn port(self, bit: usize) -> i64 {
        i64::from(self.first).saturating_add(i64::try_from(bit).unwrap_or(0))
    }

    /// So many of the first ports are for services that ask for one by number.
    fn reserved(self) -> usize {
        match usize::from(self.size) {
            0..=16 => 0,
            size => (size / 32).clamp(16, 128),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, i64::from(self.first) + i64::from(self.size) - 1)
    }
}

/// The ports of a cluster.
#[derive(Clone)]
pub(super) struct NodePorts {
    range: PortRange,
    /// What was stored when we last looked. Writes of this server queue here instead of racing each other.
    known: Arc<Mutex<Option<Known>>>,
    meters: Arc<AllocationMeters>,
}

/// Which ports are taken, as of a revision of the stored object.
#[derive(Clone)]
struct Known {
    bits: Bits,
    revision: u64,
}

impl NodePorts {
    pub fn new(range: PortRange, meters: Arc<AllocationMeters>) -> NodePorts {
        NodePorts { range, known: Arc::default(), meters }
    }

    /// Notes what a plan has come to that was made with ports as they are stored.
    fn note(&self, ports: &Ports) {
        ports.scopes.iter().for_each(|(scope, is_taken)| self.meters.port(*scope, *is_taken));
        self.meters.set_ports(ports.bits.iter().count(), usize::from(self.range.size));
    }

    /// Carries out a plan for a service's ports. The plan is made anew whenever the stored object turns out to be newer.
    async fn change<'a>(
        &self,
        cx: &Context<'a>,
        client: &Arc<dyn OwnClient>,
        service: &Value,
        plan: impl Fn(&mut Value, &mut Ports<'_>) -> Result<(), Status>,
    ) -> Result<(Value, Ports<'a>), Status> {
        let mut known = self.known.lock().await;
        let mut fresh = false;
        for _ in 0..TRIES {
            let current = match known.take() {
                Some(current) => current,
                None => {
                    fresh = true;
                    self.read(client).await?
                }
            };
            let mut ports = Ports::new(cx, self.range, current.bits.clone());
            let mut planned = service.clone();
            match plan(&mut planned, &mut ports) {
                // What looks taken may have been given back by another server.
                Err(_) if !fresh => continue,
                Err(status) => {
                    ports.scopes.retain(|(_, is_taken)| !is_taken);
                    ports.bits.clone_from(&current.bits);
                    self.note(&ports);
                    *known = Some(current);
                    return Err(status);
                }
                Ok(()) => {}
            }
            if cx.dry_run || ports.taken.is_empty() {
                *known = Some(current);
                return Ok((planned, ports));
            }
            if let Some(revision) = client.store_node_ports(&self.object(&ports.bits), Some(current.revision)).await? {
                self.note(&ports);
                *known = Some(Known { bits: ports.bits.clone(), revision });
                return Ok((planned, ports));
            }
        }
        Err(too_busy())
    }

    pub async fn release(&self, client: &Arc<dyn OwnClient>, released: &[i64]) -> Result<(), Status> {
        let mut known = self.known.lock().await;
        let mut fresh = false;
        for _ in 0..TRIES {
            let mut current = match known.take() {
                Some(current) => current,
                None => {
                    fresh = true;
                    self.read(client).await?
                }
            };
            let bits = released.iter().filter_map(|port| self.range.bit(*port));
            let changed = bits.fold(false, |changed, bit| current.bits.clear(bit) | changed);
            if !changed && !fresh {
                // Another server may have taken them since.
                continue;
            }
            if !changed {
                *known = Some(current);
                return Ok(());
            }
            let written = client.store_node_ports(&self.object(&current.bits), Some(current.revision)).await?;
            if let Some(revision) = written {
                self.meters.set_ports(current.bits.iter().count(), usize::from(self.range.size));
                *known = Some(Known { bits: current.bits, revision });
                return Ok(());
            }
        }
        Err(too_busy())
    }

    /// What is stored; if nothing is, or it is about another range, what the services themselves use is stored first.
    async fn read(&self, client: &Arc<dyn OwnClient>) -> Result<Known, Status> {
        for _ in 0..TRIES {
            let stored = client.node_ports().await?;
            let revision = stored.as_ref().map(|(_, revision)| *revision);
            if let Some((object, revision)) = stored
                && let Some(bits) = self.bits(&object)
            {
                return Ok(Known { bits, revision });
            }
            let mut bits = Bits::new(usize::from(self.range.size));
            for service in client.list("", "services", "").await? {
                ports_in_use(&service).iter().filter_map(|port| self.range.bit(*port)).for_each(|bit| {
                    bits.set(bit);
                });
            }
            if let Some(revision) = client.store_node_ports(&self.object(&bits), revision).await? {
                return Ok(Known { bits, revision });
            }
        }
        Err(too_busy())
    }

    fn bits(&self, object: &Value) -> Option<Bits> {
        if object.str_at(&["range"]) != self.range.to_string() {
            return None;
        }
        let bytes = STANDARD.decode(object.str_at(&["data"])).ok()?;
        Some(Bits::from_bytes(usize::from(self.range.size), &bytes))
    }

    fn object(&self, bits: &Bits) -> Value {
        value!({
            "apiVersion": "v1",
            "kind": "RangeAllocation",
            "metadata": {},
            "range": (self.range.to_string()),
            "data": (STANDARD.encode(bits.to_bytes()))
        })
    }

    pub fn range(&self) -> PortRange {
        self.range
    }

    /// Replaces what is stored by what `change` makes of it; for [`super::repair`].
    pub async fn rewrite(
        &self,
        client: &Arc<dyn OwnClient>,
        change: impl FnOnce(&[i64]) -> Vec<i64>,
    ) -> Result<(), Status> {
        let mut known = self.known.lock().await;
        *known = None;
        let current = self.read(client).await?;
        let taken: Vec<i64> = current.bits.iter().map(|bit| self.range.port(bit)).collect();
        let mut bits = Bits::new(usize::from(self.range.size));
        for port in change(&taken) {
            self.range.bit(port).map(|bit| bits.set(bit));
        }
        if bits == current.bits {
            *known = Some(current);
            return Ok(());
        }
        match client.store_node_ports(&self.object(&bits), Some(current.revision)).await? {
            Some(revision) => {
                *known = Some(Known { bits, revision });
                Ok(())
            }
            None => Err(too_busy()),
        }
    }
}

impl Allocation {
    /// Takes what the plan takes, writes it into the service and notes what it lets go.
    pub(super) async fn change_ports(
        &self,
        cx: &Context<'_>,
        service: &mut Value,
        taken: &mut Taken,
        plan: impl Fn(&mut Value, &mut Ports) -> Result<(), Status> + Send + Sync,
    ) -> Result<(), Status> {
        let (planned, ports) = if may_have_node_ports(service) {
            self.node_ports.change(cx, &self.client, service, plan).await?
        } else {
            // Only ports that are let go; nothing needs to be known for that.
            let mut ports = Ports::new(cx, self.node_ports.range, Bits::new(0));
            let mut planned = service.clone();
            plan(&mut planned, &mut ports)?;
            (planned, ports)
        };
        *service = planned;
        taken.ports.extend(ports.taken);
        taken.old_ports.extend(ports.let_go);
        Ok(())
    }
}

/// All ports a service uses, its health check's too.
pub(super) fn ports_in_use(service: &Value) -> Vec<i64> {
    let health = health_check_port(service);
    node_ports(service).into_iter().chain((health != 0).then_some(health)).collect()
}

fn too_busy() -> Status {
    Status::server_timeout(&GroupResource::new("", "servicenodeports"), "update", 1)
}

/// The ports as a plan sees and changes them.
pub(super) struct Ports<'a> {
    randomness: &'a dyn Randomness,
    range: PortRange,
    bits: Bits,
    dry_run: bool,
    taken: Vec<i64>,
    let_go: Vec<i64>,
    /// Each attempt to take a port, and whether it succeeded, for metrics.
    scopes: Vec<(AllocationMode, bool)>,
}

/// Why there is no port, in upstream's words.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Failure {
    #[error("range is full")]
    Full,
    #[error("provided port is already allocated")]
    Allocated,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    NotInRange(PortRange),
}

impl<'a> Ports<'a> {
    fn new(cx: &Context<'a>, range: PortRange, bits: Bits) -> Ports<'a> {
        let Context { randomness, dry_run, .. } = *cx;
        Ports { randomness, range, bits, dry_run, taken: Vec::new(), let_go: Vec::new(), scopes: Vec::new() }
    }

    fn take(&mut self, port: i64) -> Result<(), Failure> {
        let taken = self.take_this(port);
        self.note(AllocationMode::Static, taken.is_ok());
        taken
    }

    fn note(&mut self, scope: AllocationMode, is_taken: bool) {
        if !self.dry_run {
            self.scopes.push((scope, is_taken));
        }
    }

    fn take_this(&mut self, port: i64) -> Result<(), Failure> {
        let bit = self.range.bit(port);
        if self.taken.contains(&port) || bit.is_some_and(|bit| self.bits.has(bit)) {
            return Err(Failure::Allocated);
        }
        // Upstream's dry run does not look at the range.
        match bit {
            Some(bit) => {
                self.bits.set(bit);
            }
            None if self.dry_run => {}
            None => return Err(Failure::NotInRange(self.range)),
        }
        self.taken.push(port);
        Ok(())
    }

    fn take_any(&mut self) -> Result<i64, Failure> {
        if self.dry_run {
            // A number that looks like a port; upstream counts from here as well.
            // Negative node ports, which nothing has refused yet, do not count.
            let port = self.taken.iter().max().map_or(32768, |port| (*port).max(0)).saturating_add(1);
            self.taken.push(port);
            return Ok(port);
        }
        let bit = self.bits.any_clear(self.range.reserved(), self.randomness);
        self.note(AllocationMode::Dynamic, bit.is_some());
        let bit = bit.ok_or(Failure::Full)?;
        self.bits.set(bit);
        self.taken.push(self.range.port(bit));
        Ok(self.range.port(bit))
    }

    fn let_go(&mut self, port: i64) {
        self.let_go.push(port);
    }
}

/// The ports of a new service. Entries with the same port number, for several protocols, share a node port.
pub(super) fn fill_new(service: &mut Value, ports: &mut Ports) -> Result<(), Status> {
    if may_have_node_ports(service) {
        let allocates = allocates_node_ports(service);
        let entries: Vec<(i64, i64)> = self::ports(service).iter().map(|p| (port_number(p), node_port(p))).collect();
        let mut by_number: BTreeMap<i64, i64> = BTreeMap::new();
        // The first node port that is asked for with a number is for all entries of that number.
        let asked: BTreeMap<i64, i64> = entries.iter().rev().filter(|(_, wanted)| *wanted != 0).copied().collect();
        for (index, (number, wanted)) in entries.iter().copied().enumerate() {
            if wanted == 0 && !allocates {
                continue;
            }
            let got = match by_number.get(&number) {
                None => {
                    let got = match asked.get(&number).copied() {
                        Some(asked) => {
                            ports.take(asked).map(|()| asked).map_err(|e| taken_already(service, index, asked, &e))
                        }
                        None => ports
                            .take_any()
                            .map_err(|e| Status::internal(format!("failed to allocate a nodePort: {e}"))),
                    }?;
                    by_number.insert(number, got);
                    got
                }
                Some(shared) if wanted == 0 || wanted == *shared => *shared,
                Some(_) => {
                    ports.take(wanted).map(|()| wanted).map_err(|e| taken_already(service, index, wanted, &e))?
                }
            };
            set_node_port(service, index, got);
        }
    }
    if needs_health_check(service) { fill_health_check(service, ports) } else { Ok(()) }
}

/// The ports of a changed service: what it had it keeps, what it has no more is let go.
pub(super) fn fill_changed(new: &mut Value, old: &Value, ports: &mut Ports) -> Result<(), Status> {
    let before = node_ports(old);
    if may_have_node_ports(new) {
        fill_changed_ports(new, &before, ports)?;
        let now: BTreeSet<i64> = node_ports(new).into_iter().collect();
        before.iter().filter(|port| !now.contains(port)).for_each(|port| ports.let_go(*port));
    } else if may_have_node_ports(old) && matches!(kind(new), "ClusterIP" | "ExternalName") {
        before.iter().for_each(|port| ports.let_go(*port));
    }
    match (needs_health_check(old), needs_health_check(new)) {
        (false, true) => fill_health_check(new, ports)?,
        (true, false) => ports.let_go(health_check_port(old)),
        _ => {}
    }
    Ok(())
}

fn fill_changed_ports(new: &mut Value, before: &[i64], ports: &mut Ports) -> Result<(), Status> {
    let allocates = allocates_node_ports(new);
    let entries: Vec<(String, i64)> =
        self::ports(new).iter().map(|p| (p.str_at(&["protocol"]).to_string(), node_port(p))).collect();
    let before: BTreeSet<i64> = before.iter().copied().collect();
    let (mut seen, mut seen_ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, (protocol, wanted)) in entries.into_iter().enumerate() {
        if wanted == 0 && !allocates {
            continue;
        }
        let got = if wanted == 0 {
            ports.take_any().map_err(|e| Status::internal(format!("failed to allocate a nodePort: {e}")))?
        } else {
            if !before.contains(&wanted) && !seen_ports.contains(&wanted) {
                ports.take(wanted).map_err(|e| taken_already(new, index, wanted, &e))?;
            }
            wanted
        };
        set_node_port(new, index, got);
        if !seen.insert((protocol.clone(), got)) {
            let message = format!("duplicate nodePort: {{{protocol} {got}}}");
            return Err(Error::Failed(message).into());
        }
        seen_ports.insert(got);
    }
    Ok(())
}

fn fill_health_check(service: &mut Value, ports: &mut Ports) -> Result<(), Status> {
    let wanted = health_check_port(service);
    if wanted != 0 {
        return ports.take(wanted).map_err(|error| {
            Status::internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {error}"))
        });
    }
    let got = ports.take_any();
    let got = got.map_err(|error| Status::internal(format!("failed to allocate a HealthCheck NodePort 0: {error}")))?;
    service.set(&["spec", "healthCheckNodePort"], got);
    Ok(())
}

fn set_node_port(service: &mut Value, index: usize, port: i64) {
    let ports = service.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
    if let Some(entry) = ports.and_then(|ports| ports.get_mut(index)) {
        entry.set(&["nodePort"], port);
    }
}

fn taken_already(service: &Value, index: usize, port: i64, failure: &Failure) -> Status {
    let mut errors = Errors::new();
    errors.invalid(&Path::of("spec.ports").index(index).field("nodePort"), port, failure.to_string());
    invalid(service, &errors)
}
