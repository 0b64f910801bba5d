//! Leases for keys that expire. Keys written about the same time share one, as with kube-apiserver: a cluster makes
//! thousands of events an hour, and a lease for each would cost etcd more than the events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::Histogram;
use storage::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Client, Failed};
use crate::proto::{LEASE_GRANT, LeaseGrantRequest, LeaseGrantResponse};
use crate::write::is_full;

/// A key may live longer than asked for by as much as the options say, but at most by the twentieth part of its time.
const REUSE_PART: u32 = 20;
/// When a lease ends, all its keys are deleted at once; more would make that a hiccup.
const KEYS_PER_LEASE: u32 = 1000;
/// Upstream's buckets for the number of a lease's keys.
const KEYS: &[f64] = &[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];
/// How long the lease for keys of our own lasts, and for which part of that it is put on keys: a key that was just written
/// stays for at least the rest.
const OWN: Duration = Duration::from_secs(3600);
const OWN_IN_USE: Duration = Duration::from_secs(1800);

pub(crate) struct Leases {
    reuse: Duration,
    /// The latest lease for each time to live.
    latest: Mutex<HashMap<Duration, Lease>>,
    own: Mutex<Option<OwnLease>>,
    /// How many keys each lease got that is no longer put on keys.
    pub keys: Arc<Histogram>,
}

/// The lease for keys that this server writes for itself.
#[derive(Clone, Copy)]
pub(crate) struct OwnLease {
    pub id: i64,
    until: Instant,
}

impl OwnLease {
    pub fn is_good(&self) -> bool {
        Instant::now() < self.until
    }
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    ends: Instant,
    keys: u32,
}

impl Leases {
    pub fn new(reuse: Duration) -> Leases {
        let keys = Arc::new(Histogram::new(KEYS));
        Leases { reuse, latest: Mutex::default(), own: Mutex::default(), keys }
    }

    /// A lease that lasts for at least `ttl` from now.
    pub async fn get(&self, client: &Client, ttl: Duration) -> Result<i64> {
        // Held while a lease is granted: writes that come meanwhile use the same lease.
        let mut latest = self.latest.lock().await;
        let now = Instant::now();
        if let Some(lease) = latest.get_mut(&ttl).filter(|lease| now + ttl < lease.ends && lease.keys < KEYS_PER_LEASE)
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let lasting = ttl + (ttl / REUSE_PART).min(self.reuse);
        let id = grant(client, lasting).await?;
        // Those for other times to live that have ended are of no use any more.
        latest.retain(|other, lease| *other == ttl || lease.ends > now);
        let replaced = latest.insert(ttl, Lease { id, ends: now + lasting, keys: 1 });
        if let Some(replaced) = replaced {
            self.keys.observe(f64::from(replaced.keys));
        }
        Ok(id)
    }

    /// The lease for keys of our own.
    pub async fn own(&self, client: &Client) -> Result<OwnLease> {
        let mut own = self.own.lock().await;
        if let Some(lease) = own.filter(OwnLease::is_good) {
            return Ok(lease);
        }
        let until = Instant::now() + OWN_IN_USE;
        let lease = OwnLease { id: grant(client, OWN).await?, until };
        *own = Some(lease);
        Ok(lease)
    }

    /// The lease is gone: it was revoked, or etcd was restored from a backup.
    pub async fn forget(&self, id: i64) {
        self.latest.lock().await.retain(|_, lease| lease.id != id);
        self.own.lock().await.take_if(|lease| lease.id == id);
    }
}

async fn grant(client: &Client, lasting: Duration) -> Result<i64> {
    // etcd counts in seconds; keys may stay longer, never shorter.
    let seconds = lasting.as_secs() + u64::from(lasting.subsec_nanos() > 0);
    let request = LeaseGrantRequest { ttl_seconds: i64::try_from(seconds.max(1)).unwrap_or(i64::MAX), id: 0 };
    // Nothing was written yet, whatever has become of the lease.
    let failed = |failed: Failed| match failed.message() {
        full if is_full(full) => Error::Full(full.to_string()),
        message => Error::Unavailable(message.to_string()),
    };
    let granted: LeaseGrantResponse = client.repeat(LEASE_GRANT, request).await.map_err(failed)?;
    if !granted.error.is_empty() {
        return Err(Error::Unavailable(granted.error));
    }
    Ok(granted.id)
}
