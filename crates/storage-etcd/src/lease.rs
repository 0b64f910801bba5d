//! Leases for keys that expire. Keys written about the same time share one, as with kube-apiserver: a cluster makes
//! thousands of events an hour, and a lease for each would cost etcd more than the events.

use std::collections::HashMap;
use std::time::Duration;

use storage::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Client, read_failed};
use crate::proto::{LEASE_GRANT, LeaseGrantRequest, LeaseGrantResponse};

/// A key may live longer than asked for by as much as the options say, but at most by the twentieth part of its time.
const REUSE_PART: u32 = 20;
/// When a lease ends, all its keys are deleted at once; more would make that a hiccup.
const KEYS_PER_LEASE: u32 = 1000;

pub(crate) struct Leases {
    reuse: Duration,
    /// The latest lease for each time to live.
    latest: Mutex<HashMap<Duration, Lease>>,
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    ends: Instant,
    keys: u32,
}

impl Leases {
    pub fn new(reuse: Duration) -> Leases {
        Leases { reuse, latest: Mutex::default() }
    }

    /// A lease that lasts for at least `ttl` from now.
    pub async fn get(&self, client: &Client, ttl: Duration) -> Result<i64> {
        // Held while a lease is granted: those who come meanwhile want the same one.
        let mut latest = self.latest.lock().await;
        let now = Instant::now();
        if let Some(lease) = latest.get_mut(&ttl).filter(|lease| now + ttl < lease.ends && lease.keys < KEYS_PER_LEASE)
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let lasting = ttl + (ttl / REUSE_PART).min(self.reuse);
        // etcd counts in seconds; keys may stay longer, never shorter.
        let seconds = lasting.as_secs() + u64::from(lasting.subsec_nanos() > 0);
        let request = LeaseGrantRequest { ttl_seconds: i64::try_from(seconds.max(1)).unwrap_or(i64::MAX), id: 0 };
        let granted: LeaseGrantResponse =
            client.repeat(LEASE_GRANT, request).await.map_err(|failed| read_failed(&failed))?;
        if !granted.error.is_empty() {
            return Err(Error::Unavailable(granted.error));
        }
        // The one for another time to live that has ended is of no use any more.
        latest.retain(|_, lease| lease.ends > now);
        latest.insert(ttl, Lease { id: granted.id, ends: now + lasting, keys: 1 });
        Ok(granted.id)
    }

    /// The lease is gone (somebody revoked it, or etcd was restored from a backup).
    pub async fn forget(&self, id: i64) {
        self.latest.lock().await.retain(|_, lease| lease.id != id);
    }
}
