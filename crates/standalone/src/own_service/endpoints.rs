//! The Endpoints of the `kubernetes` Service, as the servers of a cluster agree on them.

use std::sync::Arc;

use object::{Meta, Value, value};
use peers::{Leases, Place};
use storage::Store;

use super::{Advertised, EndpointReconciler, NAMESPACE, slices};
use rest::client::{Client, Collection, Failure};

static ENDPOINTS: Collection = Collection::new("", "v1", "endpoints");
const NAME: &str = "kubernetes";
/// How often a write is tried when other servers write at the same time.
const TRIES: usize = 5;
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Writes the Endpoints.
pub struct Reconciler {
    kind: EndpointReconciler,
    client: Client,
    leases: Leases,
    address: String,
    ports: Value,
}

impl Reconciler {
    pub fn new(
        kind: EndpointReconciler,
        advertised: &Advertised,
        client: Client,
        store: Arc<dyn Store>,
        storage_prefix: &str,
    ) -> Reconciler {
        let ports = value!([{"name": "https", "port": (i64::from(advertised.port)), "protocol": "TCP"}]);
        let leases = Leases::of_service(store, storage_prefix);
        Reconciler { kind, client, leases, address: advertised.address.to_string(), ports }
    }

    /// Makes sure that the Endpoints name this server and the others that are running.
    pub async fn reconcile(&self) -> Result<(), Failure> {
        match self.kind {
            EndpointReconciler::None => Ok(()),
            EndpointReconciler::Lease => {
                // Even if the Endpoints cannot be written now, another server will do it as long as the lease is there.
                let place = Place { address: self.address.clone(), ..Place::default() };
                self.leases.renew(&self.address, &place).await?;
                let servers = self.leases.addresses().await?;
                if servers.is_empty() {
                    let message = "no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service";
                    return Err(Failure { code: 500, message: message.into() });
                }
                self.write(|current| with_servers(current, &servers, &self.ports, false)).await
            }
            EndpointReconciler::MasterCount(count) => {
                self.write(|current| with_own_address(current, &self.address, &self.ports, count)).await
            }
        }
    }

    /// Removes this server from the Endpoints.
    pub async fn remove(&self) -> Result<(), Failure> {
        match self.kind {
            EndpointReconciler::None => Ok(()),
            EndpointReconciler::Lease => {
                if !self.leases.remove(&self.address).await? {
                    return Ok(());
                }
                let servers = self.leases.addresses().await?;
                self.write(|current| current.and_then(|_| with_servers(current, &servers, &self.ports, true))).await
            }
            EndpointReconciler::MasterCount(_) => self.write(|current| without_address(current?, &self.address)).await,
        }
    }

    /// Writes what `change` makes of the Endpoints, which is None if they are right, and then the slice.
    async fn write(&self, change: impl Fn(Option<&Value>) -> Option<Value>) -> Result<(), Failure> {
        for _ in 1..TRIES {
            match self.try_write(&change).await {
                // Another server was faster; what it wrote is looked at.
                Err(failure) if failure.is_conflict() => {}
                outcome => return outcome,
            }
        }
        self.try_write(&change).await
    }

    async fn try_write(&self, change: &impl Fn(Option<&Value>) -> Option<Value>) -> Result<(), Failure> {
        let collection = ENDPOINTS.within(NAMESPACE);
        let item = collection.item(NAME);
        let current = match self.client.get(&item).await {
            Ok(current) => Some(current),
            Err(failure) if failure.is_not_found() => None,
            Err(failure) => return Err(failure),
        };
        let endpoints = match (change(current.as_ref()), current) {
            (None, None) => return Ok(()),
            (None, Some(current)) => current,
            (Some(wanted), current) => {
                tracing::debug!("resetting endpoints of the kubernetes Service");
                match current {
                    Some(_) => self.client.replace(&item, &wanted).await?,
                    None => self.client.create(&collection, &wanted).await?,
                }
            }
        };
        slices::ensure(&self.client, &endpoints).await
    }
}

/// Endpoints with exactly these servers; None if they are like that already. Ports of existing ones stay unless
/// `reset_ports`: all servers of a cluster have the same.
fn with_servers(current: Option<&Value>, servers: &[String], ports: &Value, reset_ports: bool) -> Option<Value> {
    let subset = only_subset(current);
    let is_right = subset.is_some_and(|subset| {
        let mut present = addresses(subset);
        present.sort_unstable();
        let mut wanted: Vec<&str> = servers.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        present == wanted && (!reset_ports || subset.field("ports") == ports)
    });
    if is_right && skips_mirror(current) {
        return None;
    }
    let kept = subset.map(|subset| subset.field("ports")).filter(|_| !reset_ports).unwrap_or(ports);
    Some(endpoints(current, servers.iter().map(String::as_str).collect(), kept))
}

/// Endpoints with this server, and at most `count` in all; None if they are like that already.
fn with_own_address(current: Option<&Value>, own: &str, ports: &Value, count: usize) -> Option<Value> {
    let Some(subset) = only_subset(current) else { return Some(endpoints(current, vec![own], ports)) };
    let mut present = addresses(subset);
    if present.contains(&own) && present.len() <= count {
        return (!skips_mirror(current)).then(|| endpoints(current, present, subset.field("ports")));
    }
    present.push(own);
    present.sort_unstable();
    present.dedup();
    // Each server removes those that come after itself, so that after some rounds only running servers are left.
    let mut at = present.iter().position(|address| *address == own).unwrap_or(0);
    while present.len() > count.max(1) {
        let next = (at + 1) % present.len();
        present.remove(next);
        at = if next < at { at - 1 } else { at };
    }
    Some(endpoints(current, present, subset.field("ports")))
}

/// Endpoints without this server; None if there are no addresses at all.
fn without_address(current: &Value, own: &str) -> Option<Value> {
    let subset = current.list_at(&["subsets"]).first()?;
    let left = addresses(subset).into_iter().filter(|address| *address != own).collect();
    Some(endpoints(Some(current), left, subset.field("ports")))
}

fn endpoints(current: Option<&Value>, mut addresses: Vec<&str>, ports: &Value) -> Value {
    let mut endpoints = current.cloned().unwrap_or_else(
        || value!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": NAME, "namespace": "default"}}),
    );
    // The slice is written here, not by the controller that mirrors Endpoints.
    endpoints.set(&["metadata", "labels", SKIP_MIRROR], "true");
    addresses.sort_unstable();
    addresses.dedup();
    let subsets = if addresses.is_empty() {
        Vec::new()
    } else {
        let addresses: Vec<Value> = addresses.into_iter().map(|ip| value!({"ip": ip})).collect();
        vec![value!({"addresses": (addresses), "ports": (ports.clone())})]
    };
    endpoints.set(&["subsets"], subsets);
    endpoints
}

fn only_subset(current: Option<&Value>) -> Option<&Value> {
    match current?.list_at(&["subsets"]) {
        [only] => Some(only),
        _ => None,
    }
}

fn addresses(subset: &Value) -> Vec<&str> {
    subset.list_at(&["addresses"]).iter().map(|address| address.str_at(&["ip"])).collect()
}

fn skips_mirror(current: Option<&Value>) -> bool {
    current.is_some_and(|endpoints| endpoints.label(SKIP_MIRROR) == Some("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(port: i64) -> Value {
        value!([{"name": "https", "port": port, "protocol": "TCP"}])
    }

    fn given(addresses: &[&str], port: i64) -> Value {
        endpoints(None, addresses.to_vec(), &ports(port))
    }

    /// Addresses and port of the result; None stands for endpoints that are left alone.
    fn check(what: &str, got: Option<Value>, want: Option<(&[&str], i64)>) {
        let want = want.map(|(addresses, port)| given(addresses, port));
        assert_eq!(
            got.map(|endpoints| endpoints.field("subsets").clone()),
            want.map(|e| e.field("subsets").clone()),
            "{what}"
        );
    }

    #[test]
    fn leases_decide_which_servers_are_named() {
        let servers = |list: &[&str]| -> Vec<String> { list.iter().map(|server| server.to_string()).collect() };
        let (one, two) = (servers(&["1.2.3.4"]), servers(&["1.2.3.4", "1.2.3.5"]));
        let with =
            |current: &Value, servers: &[String], reset| with_servers(Some(current), servers, &ports(8080), reset);
        check("none yet", with_servers(None, &one, &ports(8080), false), Some((&["1.2.3.4"], 8080)));
        check("right", with(&given(&["1.2.3.4"], 8080), &one, true), None);
        check("another order", with(&given(&["1.2.3.5", "1.2.3.4"], 8080), &two, true), None);
        check("one more", with(&given(&["1.2.3.4"], 8080), &two, true), Some((&["1.2.3.4", "1.2.3.5"], 8080)));
        check("one less", with(&given(&["1.2.3.4", "1.2.3.5"], 8080), &one, true), Some((&["1.2.3.4"], 8080)));
        check("another", with(&given(&["4.3.2.1"], 8080), &one, true), Some((&["1.2.3.4"], 8080)));
        check("another port", with(&given(&["1.2.3.4"], 9090), &one, true), Some((&["1.2.3.4"], 8080)));
        check("another port that stays", with(&given(&["1.2.3.4"], 9090), &one, false), None);
        check(
            "a port stays with others",
            with(&given(&["1.2.3.4"], 9090), &two, false),
            Some((&["1.2.3.4", "1.2.3.5"], 9090)),
        );
        check("the last one leaves", with(&given(&["1.2.3.4"], 8080), &[], true), Some((&[], 8080)));
        let mut mirrored = given(&["1.2.3.4"], 8080);
        mirrored.remove(&["metadata", "labels"]);
        check("without the label", with(&mirrored, &one, true), Some((&["1.2.3.4"], 8080)));
        let mut two_subsets = given(&["1.2.3.4"], 8080);
        two_subsets.slot(&["subsets"]).make_list().push(value!({"addresses": [{"ip": "1.2.3.5"}]}));
        check("two subsets", with(&two_subsets, &one, false), Some((&["1.2.3.4"], 8080)));
    }

    #[test]
    fn a_count_decides_how_many_servers_are_named() {
        let with =
            |current: &[&str], count| with_own_address(Some(&given(current, 8080)), "1.2.3.4", &ports(8080), count);
        check("none yet", with_own_address(None, "1.2.3.4", &ports(8080), 1), Some((&["1.2.3.4"], 8080)));
        check("right", with(&["1.2.3.4"], 1), None);
        check("another goes", with(&["4.3.2.1"], 1), Some((&["1.2.3.4"], 8080)));
        check("another stays", with(&["4.3.2.1"], 2), Some((&["1.2.3.4", "4.3.2.1"], 8080)));
        check("too many", with(&["1.2.3.4", "1.2.3.5", "4.3.2.1"], 2), Some((&["1.2.3.4", "4.3.2.1"], 8080)));
        check(
            "too many, from the end",
            with(&["1.2.3.1", "1.2.3.2", "1.2.3.4"], 2),
            Some((&["1.2.3.2", "1.2.3.4"], 8080)),
        );
        check("leaving", without_address(&given(&["1.2.3.4", "4.3.2.1"], 8080), "1.2.3.4"), Some((&["4.3.2.1"], 8080)));
    }
}
