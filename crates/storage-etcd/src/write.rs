//! Writes, and how their outcome is found out when the connection was lost before etcd answered.
//!
//! A write is one transaction: "if the key is at this revision, then put, else tell what is there". When the connection
//! breaks or the leader changes after it was sent, it may or may not have been applied, and reading the key does not tell:
//! the transaction may still be on its way, or another client may have made the same change. So the same transaction is
//! sent again until it is answered, and its receipt (see `receipt`) makes sure that it happens at most once and tells
//! whether it has. The outcome is unknown only if etcd cannot be reached again in time.

use std::sync::Arc;
use storage::{Change, Condition, Entry, Error, Expect, RefusedWrites, Result, Revision, Write, WriteLimits, Written};
use tonic::Code;

use crate::client::{Failed, Pause};
use crate::proto::{
    self, Compare, DeleteRequest, PutRequest, RangeRequest, Request, RequestOp, Response, TXN, TxnRequest, TxnResponse,
};
use crate::receipt::{Held, Proof};
use crate::store::{Shared, entry, with_value};

/// What etcd's own client refuses to send; a server takes 1.5 MiB unless it was told otherwise.
const REQUEST_BYTES_MAX: usize = 2 << 20;
/// What a server takes unless it was told otherwise, for the message.
const SERVER_BYTES_MAX: usize = 1_572_864;
/// A transaction of an etcd with its defaults has 128 operations, and each write needs two; one is for the receipt.
pub(crate) const LIMITS: WriteLimits = WriteLimits { keys: 63, bytes: SERVER_BYTES_MAX - (64 << 10) };
/// How often a lease may turn out to be gone before we give up.
const LEASES_MAX: u32 = 2;

pub(crate) async fn write(shared: &Shared, write: Write) -> Result<Written> {
    match write_all(shared, std::slice::from_ref(&write)).await {
        Ok(mut written) => written.pop().ok_or(Error::NotFound),
        Err(refused) => Err(refused.error),
    }
}

pub(crate) async fn write_all(shared: &Shared, writes: &[Write]) -> Result<Vec<Written>, RefusedWrites> {
    // A deletion sends no value, so that its size is none.
    let puts = writes.iter().filter(|write| !is_deletion(write));
    let size = puts.map(Write::size).sum();
    if size > REQUEST_BYTES_MAX {
        return Err(RefusedWrites::all(Error::TooLarge { size, limit: SERVER_BYTES_MAX }));
    }
    let receipt = match shared.receipts.take(&shared.client, &shared.leases).await {
        // Deletions make room, and etcd takes them even when it is full; a receipt would need room itself.
        Err(Error::Full(_)) if writes.iter().all(is_deletion) => None,
        receipt => receipt.map_err(RefusedWrites::all)?,
    };
    let mut attempt = Attempt { shared, writes, leases: Vec::new(), leases_gone: 0, receipt, doubt: None };
    attempt.settle().await.map_err(|refused| match refused.error {
        Error::TooLarge { .. } => RefusedWrites::all(Error::TooLarge { size, limit: SERVER_BYTES_MAX }),
        _ => refused,
    })
}

fn is_deletion(write: &Write) -> bool {
    matches!(write.change, Change::Delete)
}

/// Writes under way, in one transaction.
struct Attempt<'a> {
    shared: &'a Shared,
    writes: &'a [Write],
    /// One for each write; 0 for a key that does not expire.
    leases: Vec<i64>,
    leases_gone: u32,
    receipt: Option<Held<'a>>,
    /// Why a copy of the transaction has no answer. It may have happened, or still happen.
    doubt: Option<String>,
}

/// What to do about a transaction that was refused.
enum RefusedWrite {
    /// The outcome of the writes.
    Final(Result<Vec<Written>, RefusedWrites>),
    Again,
}

impl Attempt<'_> {
    /// Sends the transaction until its outcome is known or the time is over.
    async fn settle(&mut self) -> Result<Vec<Written>, RefusedWrites> {
        let client = &self.shared.client;
        let mut pause = Pause::for_writes(client);
        self.get_leases().await.map_err(RefusedWrites::all)?;
        loop {
            let failed = match client.once::<_, TxnResponse>(TXN, self.transaction()).await {
                Ok(answer) => {
                    client.saw(proto::revision(&answer.header));
                    match self.conclude(answer).await {
                        RefusedWrite::Final(outcome) => return outcome,
                        RefusedWrite::Again => continue,
                    }
                }
                Err(failed) => failed,
            };
            match &failed {
                Failed::Lost(why) => self.doubt = Some(why.clone()),
                Failed::NotSent(_) => {}
                Failed::Refused(status) => match self.refused(status).await {
                    Ok(()) => continue,
                    Err(error) if self.doubt.is_none() => return Err(RefusedWrites::all(error)),
                    // The outcome of the lost request stays unknown until a member answers.
                    Err(_) => {}
                },
            }
            // Without a receipt and a precondition, sending it again could overwrite another client's later write.
            let expects = self.writes.iter().all(|write| write.expect != Expect::Any);
            let may_repeat = self.doubt.is_none() || self.receipt.is_some() || expects;
            if !may_repeat || !pause.wait().await {
                return Err(RefusedWrites::all(match self.doubt.take() {
                    Some(why) => Error::OutcomeUnknown(why),
                    None => Error::Unavailable(failed.message().to_string()),
                }));
            }
        }
    }

    async fn get_leases(&mut self) -> Result<()> {
        self.leases.clear();
        for write in self.writes {
            self.leases.push(match &write.change {
                Change::Put { ttl: Some(ttl), .. } => self.shared.leases.get(&self.shared.client, *ttl).await?,
                Change::Put { ttl: None, .. } | Change::Delete => 0,
            });
        }
        Ok(())
    }

    fn transaction(&self) -> TxnRequest {
        let (mut compare, mut success, mut failure) = (Vec::new(), Vec::<RequestOp>::new(), Vec::<RequestOp>::new());
        for (write, lease) in self.writes.iter().zip(&self.leases) {
            let key = write.key.to_bytes();
            match write.expect {
                // Deleting what is not there must not leave a receipt.
                Expect::Any if is_deletion(write) => compare.push(Compare::exists(key.clone())),
                Expect::Any => {}
                Expect::Absent => compare.push(Compare::mod_revision_is(key.clone(), 0)),
                Expect::At(revision) => compare.push(Compare::mod_revision_is(key.clone(), revision)),
            }
            let read =
                |keys_only| Request::Range(RangeRequest { key: key.clone(), keys_only, ..RangeRequest::default() });
            match &write.change {
                Change::Put { value, .. } => {
                    let put = PutRequest { key: key.clone(), value: value.clone(), lease: *lease };
                    // The counters as they are after the put; the value need not come back.
                    success.extend([Request::Put(put).into(), read(true).into()]);
                }
                Change::Delete => {
                    success.push(Request::Delete(DeleteRequest { key: key.clone(), prev_kv: true }).into());
                }
            }
            failure.push(read(false).into());
        }
        if let Some(receipt) = &self.receipt {
            compare.push(receipt.is_unchanged());
            success.push(receipt.put().into());
            failure.push(receipt.read().into());
        }
        TxnRequest { compare, success, failure }
    }

    /// Turns an answer into the outcome, if it tells.
    async fn conclude(&mut self, answer: TxnResponse) -> RefusedWrite {
        if answer.succeeded {
            if let Some(receipt) = &mut self.receipt {
                receipt.made(proto::revision(&answer.header));
            }
            return RefusedWrite::Final(succeeded(self.writes, &answer));
        }
        let current: Vec<Option<Arc<Entry>>> =
            self.writes.iter().map(|write| answer.found(&write.key).cloned().map(entry)).collect();
        let unknown = |why| RefusedWrite::Final(Err(RefusedWrites::all(Error::OutcomeUnknown(why))));
        let proof = self.receipt.as_mut().map(|receipt| receipt.examine(answer.found(receipt.key())));
        match (proof, self.doubt.take()) {
            (Some(Proof::Made(revision)), _) => return RefusedWrite::Final(self.made_before(revision, &current).await),
            (Some(Proof::Moved), _) => {
                // Copies that are still under way ask for the receipt as it was, so none of them can happen any more.
                return RefusedWrite::Again;
            }
            (Some(Proof::NotMade), Some(why))
                if !self.writes.iter().all(|write| matches!(write.expect, Expect::At(_))) =>
            {
                match self.fence().await {
                    Ok(None) => {}
                    Ok(Some(revision)) => return RefusedWrite::Final(self.made_before(revision, &current).await),
                    Err(_) => return unknown(why),
                }
            }
            // A key never returns to a revision, so copies that are still under way will be refused as well.
            (Some(Proof::NotMade), _) | (None, None) => {}
            (None, Some(why)) => return unknown(why),
        }
        // The comparison failed, so `check` finds the reason; if it finds none, a key has changed back.
        let mut checked = self.writes.iter().zip(&current).enumerate();
        let reason = checked.find_map(|(at, (write, current))| {
            write.check(current.as_ref()).err().map(|error| RefusedWrites { at, error })
        });
        let changed_back = || current.into_iter().flatten().next().map_or(Error::NotFound, Error::Conflict);
        RefusedWrite::Final(Err(reason.unwrap_or_else(|| RefusedWrites::all(changed_back()))))
    }

    /// Keeps copies that are still under way from happening, by changing the receipt. A key that exists now can be deleted
    /// later, and then a creation that was given up long ago would be applied. Says at which revision one has happened
    /// meanwhile, if so.
    async fn fence(&mut self) -> Result<Option<Revision>, Failed> {
        let Some(receipt) = &mut self.receipt else { return Ok(None) };
        let request = TxnRequest {
            compare: vec![receipt.is_unchanged()],
            success: vec![receipt.void().into()],
            failure: vec![receipt.read().into()],
        };
        let answer: TxnResponse = self.shared.client.repeat(TXN, request).await?;
        if answer.succeeded {
            receipt.made(proto::revision(&answer.header));
            return Ok(None);
        }
        Ok(match receipt.examine(answer.found(receipt.key())) {
            Proof::Made(revision) => Some(revision),
            // That was us: the answer was lost and the request repeated.
            Proof::Moved | Proof::NotMade => None,
        })
    }

    /// etcd has refused the transaction as such. Returns if it can be sent again.
    async fn refused(&mut self, status: &tonic::Status) -> Result<()> {
        let message = status.message();
        match status.code() {
            Code::NotFound if message.contains("lease not found") && self.leases_gone < LEASES_MAX => {
                self.leases_gone += 1;
                for lease in self.leases.iter().filter(|lease| **lease != 0) {
                    self.shared.leases.forget(*lease).await;
                }
                if let Some(receipt) = &mut self.receipt {
                    receipt.renew(&self.shared.client, &self.shared.leases).await?;
                }
                return self.get_leases().await;
            }
            Code::PermissionDenied if self.receipt.is_some() && self.doubt.is_none() => {
                self.shared.receipts.forbid();
                self.receipt = None;
                return Ok(());
            }
            Code::ResourceExhausted
                if is_full(message)
                    && self.receipt.is_some()
                    && self.doubt.is_none()
                    && self.writes.iter().all(is_deletion) =>
            {
                self.receipt = None;
                return Ok(());
            }
            _ => {}
        }
        Err(match status.code() {
            Code::ResourceExhausted if is_full(message) => Error::Full(message.to_string()),
            Code::InvalidArgument if message.contains("too large") => Error::TooLarge { size: 0, limit: 0 },
            Code::ResourceExhausted if message.contains("larger than max") => Error::TooLarge { size: 0, limit: 0 },
            _ => Error::Unavailable(message.to_string()),
        })
    }

    /// The outcome of writes that an earlier copy of the transaction has made.
    async fn made_before(
        &self,
        revision: Revision,
        current: &[Option<Arc<Entry>>],
    ) -> Result<Vec<Written>, RefusedWrites> {
        let mut written = Vec::with_capacity(self.writes.len());
        for (at, write) in self.writes.iter().enumerate() {
            let current = current.get(at).cloned().flatten();
            let made = self.was_made(write, self.leases.get(at).copied().unwrap_or(0), revision, current).await;
            written.push(made.map_err(|error| RefusedWrites { at, error })?);
        }
        Ok(written)
    }

    async fn was_made(
        &self,
        write: &Write,
        lease: i64,
        revision: Revision,
        current: Option<Arc<Entry>>,
    ) -> Result<Written> {
        let key = write.key.clone();
        let at = |revision| self.shared.read(RangeRequest { key: key.to_bytes(), revision, ..RangeRequest::default() });
        let unknown = |error: Error| Error::OutcomeUnknown(format!("it was made at revision {revision}, but {error}"));
        let Change::Put { value, .. } = &write.change else {
            return match at(revision - 1).await {
                Ok(before) => Ok(Written { revision, entry: None, previous: before.kvs.into_iter().next().map(entry) }),
                Err(Error::Compacted { .. }) => Ok(Written { revision, entry: None, previous: None }),
                Err(error) => Err(unknown(error)),
            };
        };
        let ours = match current {
            Some(current) if current.mod_revision == revision => Some(current),
            _ => match at(revision).await {
                Ok(then) => then.kvs.into_iter().next().map(entry),
                // History was compacted to this very moment by hand. Of what is known of the entry only its age is lost.
                Err(Error::Compacted { .. }) => None,
                Err(error) => return Err(unknown(error)),
            },
        };
        let young = Entry {
            key,
            value: value.clone(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease,
            condition: Condition::Good,
        };
        Ok(Written { revision, entry: Some(ours.unwrap_or_else(|| Arc::new(young))), previous: None })
    }
}

/// Whether etcd says that its quota is used up (the alarm NOSPACE).
pub(crate) fn is_full(message: &str) -> bool {
    message.contains("database space exceeded")
}

fn succeeded(writes: &[Write], answer: &TxnResponse) -> Result<Vec<Written>, RefusedWrites> {
    let revision = proto::revision(&answer.header);
    let mut removed = answer.responses.iter().filter_map(|op| match &op.response {
        Some(Response::Delete(deleted)) => Some(deleted.prev_kvs.first()),
        _ => None,
    });
    let mut made = |write: &Write| match &write.change {
        Change::Put { value, .. } => {
            let kv = answer
                .found(&write.key)
                .ok_or_else(|| Error::corrupt(write.key.clone(), "etcd does not show what was put"))?;
            Ok(Written { revision, entry: Some(with_value(kv, value.clone())), previous: None })
        }
        Change::Delete => {
            let removed = removed.next().flatten().ok_or(Error::NotFound)?;
            Ok(Written { revision, entry: None, previous: Some(entry(removed.clone())) })
        }
    };
    let made = writes.iter().enumerate().map(|(at, write)| made(write).map_err(|error| RefusedWrites { at, error }));
    made.collect()
}
