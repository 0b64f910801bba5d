//! A lease that says which server this is and that it is alive, and the removal of leases whose servers are long gone.

use std::net::SocketAddr;
use std::time::Duration;

use object::timestamp::{MicroTime, Timestamp};
use object::{Meta, Value, value};
use sha2::{Digest, Sha256};

use rest::client::{Client, Collection, Failure};

static LEASES: Collection = Collection::new("coordination.k8s.io", "v1", "leases");
const LABEL: &str = "apiserver.kubernetes.io/identity";
const COMPONENT: &str = "kube-apiserver";
/// The feature gate of requests that servers pass on to each other.
pub(crate) const PEER_PROXY: &str = "UnknownVersionInteroperabilityProxy";
const LEASE_SECONDS: i64 = 3600;
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const COLLECT_INTERVAL: Duration = Duration::from_secs(3600);

/// Who a server is to the others on the same store.
#[derive(Clone, Debug)]
pub struct Identity {
    pub hostname: String,
    /// Where other servers reach it.
    pub peer_address: SocketAddr,
    /// Different with every start.
    pub instance: String,
}

impl Identity {
    pub fn lease_name(&self) -> String {
        Identity::lease_name_on(&self.hostname)
    }

    /// The lease's name: made of the host's, as upstream makes it, so that a server keeps its lease when it is replaced.
    pub fn lease_name_on(hostname: &str) -> String {
        let mut hash = Sha256::new();
        for part in [hostname, COMPONENT] {
            hash.update((part.len() as u16).to_be_bytes());
            hash.update(part.as_bytes());
        }
        format!("apiserver-{}", base32(&hash.finalize()[..16]))
    }
}

/// Renews the lease until it is dropped.
pub async fn renew(client: Client, identity: Identity) {
    loop {
        if let Err(failure) = keep(&client, &identity).await {
            tracing::warn!(%failure, "cannot renew the lease that says this server is alive");
        }
        tokio::time::sleep(RENEW_INTERVAL).await;
    }
}

/// Removes leases that were not renewed in time, now and then.
pub async fn collect(client: Client) {
    loop {
        tokio::time::sleep(COLLECT_INTERVAL).await;
        if let Err(failure) = collect_once(&client).await {
            tracing::warn!(%failure, "cannot look for leases of servers that are gone");
        }
    }
}

/// Where the leases are.
pub(crate) fn leases() -> Collection {
    LEASES.within("kube-system")
}

async fn keep(client: &Client, identity: &Identity) -> Result<(), Failure> {
    let name = identity.lease_name();
    let item = leases().item(&name);
    let renewed = MicroTime(client.api.clock.now()).to_string();
    let mut lease = match client.get(&item).await {
        Ok(lease) => lease,
        Err(failure) if failure.is_not_found() => {
            value!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": (name.clone())}})
        }
        Err(failure) => return Err(failure),
    };
    lease.set(&["metadata", "labels", LABEL], COMPONENT);
    lease.set(&["metadata", "labels", "kubernetes.io/hostname"], identity.hostname.clone());
    if client.api.features.enabled(PEER_PROXY) {
        lease.set_annotation("kubernetes.io/peer-advertise-address", &identity.peer_address.to_string());
    }
    lease.set(&["spec", "holderIdentity"], format!("{name}_{}", identity.instance));
    lease.set(&["spec", "leaseDurationSeconds"], LEASE_SECONDS);
    lease.set(&["spec", "renewTime"], renewed);
    match lease.uid() {
        "" => client.create(&leases(), &lease).await?,
        _ => client.replace(&item, &lease).await?,
    };
    Ok(())
}

async fn collect_once(client: &Client) -> Result<(), Failure> {
    let list = client.list(&leases()).await?;
    for lease in list.list_at(&["items"]).iter().filter(|lease| is_identity(lease)) {
        let item = leases().item(lease.name());
        // The list has metadata only, and who decides should look at what is there now.
        let lease = client.get(&item).await?;
        if is_expired(&lease, client.api.clock.now()) {
            let options = value!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "preconditions": {"uid": (lease.uid()), "resourceVersion": (lease.resource_version())}
            });
            client.delete(&item, &options).await?;
        }
    }
    Ok(())
}

/// Whether a lease is that of an API server.
pub(crate) fn is_identity(lease: &Value) -> bool {
    lease.label(LABEL) == Some(COMPONENT)
}

fn is_expired(lease: &Value, now: Timestamp) -> bool {
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).as_int();
    let renewed = MicroTime::parse(lease.str_at(&["spec", "renewTime"])).ok();
    match (seconds, renewed) {
        (Some(seconds), Some(MicroTime(renewed))) => renewed.secs.saturating_add(seconds) < now.secs,
        // What does not say how long it lasts does not last.
        _ => true,
    }
}

/// RFC 4648 without padding, in lower case.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut out = String::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(char::from(ALPHABET[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        out.push(char::from(ALPHABET[(bits << (5 - count) & 31) as usize]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_named_as_upstream_names_them() {
        assert_eq!(Identity::lease_name_on("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }

    #[test]
    fn leases_expire() {
        let now = Timestamp::new(1_000_000, 0);
        for (lease, expired) in [
            (value!({"spec": {"leaseDurationSeconds": 10, "renewTime": "1970-01-12T13:46:35.000000Z"}}), false),
            (value!({"spec": {"leaseDurationSeconds": 10, "renewTime": "1970-01-12T13:46:29.000000Z"}}), true),
            (value!({"spec": {}}), true),
        ] {
            assert_eq!(is_expired(&lease, now), expired, "{lease:?}");
        }
    }
}
