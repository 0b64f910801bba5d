//! Receipts: what a write leaves behind to prove that it was made, and by whom.
//!
//! Two servers can make the same change of the same object, to the byte, and only one of them was first. When the answer of
//! one is lost, nothing that etcd remembers of the key tells whose change it was. So every write also puts a receipt, in
//! the same transaction: a small key that no other client writes and that no two writes under way share, with the number of
//! the write in it. The transaction asks that the receipt be as the last write left it, so of all copies of a
//! transaction that may be under way only one can happen, and the receipt tells whether it has.
//!
//! Receipts are outside of every API server's prefix, and leased: those of a server that is gone go by themselves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{Result, Revision};

use crate::client::Client;
use crate::lease::{Leases, OwnLease};
use crate::proto::{Compare, KeyValue, PutRequest, RangeRequest, Request};

const PREFIX: &str = "ferrokube_receipts";
/// Receipts that are kept for later writes. There are as many as there were writes at once.
const KEPT_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Receipts {
    free: Mutex<Vec<Receipt>>,
    names: AtomicU64,
    writes: AtomicU64,
    /// etcd's access control keeps us from writing them.
    forbidden: AtomicBool,
}

/// A key for the receipts of one write after another.
struct Receipt {
    key: Bytes,
    /// Where we know it to be; zero if it is not there.
    revision: Revision,
    lease: OwnLease,
}

/// A receipt in use by one write. It is free for the next one when this is dropped, also if the write's caller gave up:
/// what is still under way then finds the receipt changed, or changes it and is found out by its number.
pub(crate) struct Held<'a> {
    receipts: &'a Receipts,
    receipt: Receipt,
    /// The write's number.
    value: Bytes,
}

/// What the receipt says about a transaction that was refused.
pub(crate) enum Proof {
    /// The write was made by an earlier copy of the transaction, at this revision.
    Made(Revision),
    /// It was not and never will be: the receipt is as it was, so something else was in the way.
    NotMade,
    /// It was not, but the receipt is not what it was taken for. The transaction may be sent again, with what is known now.
    Moved,
}

impl Receipts {
    /// A receipt for one write. None if we may not write any.
    pub async fn take(&self, client: &Client, leases: &Leases) -> Result<Option<Held<'_>>> {
        if self.forbidden.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let free = self.free.lock().pop();
        let receipt = match free {
            Some(receipt) if receipt.lease.is_good() => receipt,
            Some(old) => Receipt { lease: leases.own(client).await?, ..old },
            None => {
                let lease = leases.own(client).await?;
                // A lease's number is used once in the life of a cluster, so the names of all servers differ.
                let name = self.names.fetch_add(1, Ordering::Relaxed);
                Receipt { key: format!("{PREFIX}/{:016x}/{name}", lease.id).into(), revision: 0, lease }
            }
        };
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Held { receipts: self, receipt, value: number.to_string().into() }))
    }

    /// From now on writes go without.
    pub fn forbid(&self) {
        if !self.forbidden.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "etcd does not allow writing under {PREFIX:?}: outcomes of interrupted writes may be unknown"
            );
        }
    }
}

impl Held<'_> {
    pub fn is_unchanged(&self) -> Compare {
        Compare::mod_revision_is(self.receipt.key.clone(), self.receipt.revision)
    }

    pub fn put(&self) -> Request {
        let receipt = &self.receipt;
        Request::Put(PutRequest { key: receipt.key.clone(), value: self.value.clone(), lease: receipt.lease.id })
    }

    /// Changes the receipt and proves nothing.
    pub fn void(&self) -> Request {
        let receipt = &self.receipt;
        Request::Put(PutRequest { key: receipt.key.clone(), value: Bytes::new(), lease: receipt.lease.id })
    }

    pub fn read(&self) -> Request {
        Request::Range(RangeRequest { key: self.receipt.key.clone(), ..RangeRequest::default() })
    }

    pub fn key(&self) -> &[u8] {
        &self.receipt.key
    }

    /// The transaction has succeeded at this revision.
    pub fn made(&mut self, revision: Revision) {
        self.receipt.revision = revision;
    }

    /// The transaction was refused and this is what the receipt was then.
    pub fn examine(&mut self, found: Option<&KeyValue>) -> Proof {
        let revision = found.map_or(0, |kv| kv.mod_revision);
        let was = std::mem::replace(&mut self.receipt.revision, revision);
        match found {
            Some(kv) if kv.value == self.value => Proof::Made(revision),
            _ if was == revision => Proof::NotMade,
            _ => Proof::Moved,
        }
    }

    /// The lease is gone: it was revoked, or etcd was restored from a backup.
    pub async fn renew(&mut self, client: &Client, leases: &Leases) -> Result<()> {
        leases.forget(self.receipt.lease.id).await;
        self.receipt.lease = leases.own(client).await?;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut free = self.receipts.free.lock();
        if free.len() < KEPT_MAX {
            let Receipt { key, revision, lease } = &self.receipt;
            free.push(Receipt { key: key.clone(), revision: *revision, lease: *lease });
        }
    }
}
