//! Writes, and what became of those whose answer was lost.
//!
//! A write is one transaction: "if the key is at this revision, then put, else tell what is there". When the connection
//! breaks or the leader changes after it was sent, nobody knows whether it happened, and reading the key does not tell:
//! the transaction may still be on its way. So the same transaction is sent again. When it succeeds, the first one has
//! not happened, and never will, because a key never returns to a revision. When it fails, the key has changed since, and
//! its history tells what the first change was. If that is a change that only we can have made, the write was ours; if it
//! is another one, the write did not happen; and if somebody else may have written exactly the same, or history has been
//! compacted, the caller is told that the outcome is unknown.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use storage::{Change, Error, Event, Expect, KeyRange, Result, Revision, WatchRequest, Write, Written};
use tonic::Code;

use crate::client::{Failed, Pause};
use crate::proto::{
    self, Compare, DeleteRequest, PutRequest, RangeRequest, Request, RequestOp, Response, TXN, TxnRequest, TxnResponse,
};
use crate::store::{Shared, entry, with_value};
use crate::watch;

/// What etcd's own client refuses to send; a server takes 1.5 MiB unless it was told otherwise.
const REQUEST_BYTES_MAX: usize = 2 << 20;
/// What a server takes unless it was told otherwise, for the message.
const SERVER_BYTES_MAX: usize = 1_572_864;

pub(crate) async fn write(shared: &Arc<Shared>, write: Write) -> Result<Written> {
    let size = match &write.change {
        Change::Put { value, .. } => value.len() + write.key.len(),
        Change::Delete => 0,
    };
    if size > REQUEST_BYTES_MAX {
        return Err(Error::TooLarge { size, limit: SERVER_BYTES_MAX });
    }
    let before = shared.client.seen();
    let mut renewed = false;
    loop {
        let lease = match &write.change {
            Change::Put { ttl: Some(ttl), .. } => shared.leases.get(&shared.client, *ttl).await?,
            _ => 0,
        };
        match settle(shared, &write, lease).await {
            Ok((answer, doubtful)) => return conclude(shared, &write, lease, answer, doubtful.then_some(before)).await,
            Err(Failure::LeaseGone) if !renewed => {
                shared.leases.forget(lease).await;
                renewed = true;
            }
            Err(Failure::LeaseGone) => {
                return Err(Error::Unavailable("etcd loses leases as soon as it grants them".into()));
            }
            Err(Failure::TooLarge) => return Err(Error::TooLarge { size, limit: SERVER_BYTES_MAX }),
            Err(Failure::Other(error)) => return Err(error),
        }
    }
}

enum Failure {
    LeaseGone,
    TooLarge,
    Other(Error),
}

/// Sends the transaction until it is answered. Also says whether an earlier attempt may have done it.
async fn settle(shared: &Shared, write: &Write, lease: i64) -> Result<(TxnResponse, bool), Failure> {
    let transaction = transaction(write, lease);
    let mut pause = Pause::for_writes(&shared.client);
    let mut doubt: Option<String> = None;
    loop {
        let failed = match shared.client.once::<_, TxnResponse>(TXN, transaction.clone()).await {
            Ok(answer) => {
                shared.client.saw(proto::revision(&answer.header));
                return Ok((answer, doubt.is_some()));
            }
            Err(failed) => failed,
        };
        match &failed {
            Failed::Lost(why) => doubt = Some(why.clone()),
            Failed::NotSent(_) => {}
            Failed::Refused(status) => return Err(refused(status, doubt)),
        }
        // Without a precondition, sending it again could undo what somebody wrote in between.
        let may_repeat = doubt.is_none() || write.expect != Expect::Any;
        if !may_repeat || !pause.wait().await {
            return Err(Failure::Other(match doubt {
                Some(why) => Error::OutcomeUnknown(why),
                None => Error::Unavailable(failed.message().to_string()),
            }));
        }
    }
}

/// etcd has refused the transaction; but if an earlier attempt was lost, that one may have been accepted.
fn refused(status: &tonic::Status, doubt: Option<String>) -> Failure {
    if let Some(why) = doubt {
        return Failure::Other(Error::OutcomeUnknown(why));
    }
    let message = status.message();
    match status.code() {
        Code::NotFound if message.contains("lease not found") => Failure::LeaseGone,
        Code::InvalidArgument if message.contains("too large") => Failure::TooLarge,
        Code::ResourceExhausted if message.contains("larger than max") => Failure::TooLarge,
        _ => Failure::Other(Error::Unavailable(message.to_string())),
    }
}

fn transaction(write: &Write, lease: i64) -> TxnRequest {
    let key = write.key.clone().into_bytes();
    let compare = match write.expect {
        Expect::Any => Vec::new(),
        Expect::Absent => vec![Compare::mod_revision_is(key.clone(), 0)],
        Expect::At(revision) => vec![Compare::mod_revision_is(key.clone(), revision)],
    };
    let read = |keys_only| Request::Range(RangeRequest { key: key.clone(), keys_only, ..RangeRequest::default() });
    let success: Vec<RequestOp> = match &write.change {
        Change::Put { value, .. } => {
            let put = PutRequest { key: key.clone(), value: value.clone(), lease };
            // The counters as they are after the put; the value need not come back.
            vec![Request::Put(put).into(), read(true).into()]
        }
        Change::Delete => vec![Request::Delete(DeleteRequest { key: key.clone(), prev_kv: true }).into()],
    };
    TxnRequest { compare, success, failure: vec![read(false).into()] }
}

/// Turns an answer into the outcome. `doubtful_since` is a revision from before the first attempt, if one was lost.
async fn conclude(
    shared: &Arc<Shared>,
    write: &Write,
    lease: i64,
    answer: TxnResponse,
    doubtful_since: Option<Revision>,
) -> Result<Written> {
    if answer.succeeded {
        return succeeded(write, answer);
    }
    let current = answer.found().cloned().map(entry);
    if let Some(before) = doubtful_since
        && let Some(written) =
            find_own(shared, write, lease, before, current.as_ref().map(|now| now.mod_revision)).await?
    {
        return Ok(written);
    }
    // The comparison failed, so `check` finds the reason; if it finds none, the key has changed back.
    write.check(current.as_ref())?;
    Err(current.map_or(Error::NotFound, Error::Conflict))
}

fn succeeded(write: &Write, answer: TxnResponse) -> Result<Written> {
    let revision = proto::revision(&answer.header);
    match &write.change {
        Change::Put { value, .. } => {
            let kv =
                answer.found().ok_or_else(|| Error::corrupt(write.key.clone(), "etcd does not show what was put"))?;
            Ok(Written { revision, entry: Some(with_value(kv, value.clone())), previous: None })
        }
        Change::Delete => {
            let removed = answer.responses.into_iter().find_map(|op| match op.response {
                Some(Response::Delete(deleted)) => deleted.prev_kvs.into_iter().next(),
                _ => None,
            });
            let removed = removed.ok_or(Error::NotFound)?;
            Ok(Written { revision, entry: None, previous: Some(entry(removed)) })
        }
    }
}

/// Looks for our lost write in the key's history. None: it did not happen.
async fn find_own(
    shared: &Arc<Shared>,
    write: &Write,
    lease: i64,
    before: Revision,
    until: Option<Revision>,
) -> Result<Option<Written>> {
    let unknown = || Error::OutcomeUnknown("etcd changed its leader or lost the connection during the write".into());
    let after = match write.expect {
        Expect::At(revision) => revision,
        Expect::Absent | Expect::Any => before,
    };
    let request =
        WatchRequest { range: KeyRange::single(write.key.clone()), after: Some(after), previous: false, marks: false };
    let mut stream = watch::follow(shared.clone(), request, after);
    let reading = async {
        while let Some(Ok(batch)) = stream.next().await {
            for event in batch.events {
                match judge(write, lease, &event) {
                    Judgement::Ours => return Ok(Some(written(&event))),
                    Judgement::Theirs => return Ok(None),
                    Judgement::EitherOnes => return Err(unknown()),
                    // Creations are looked for up to what is there now.
                    Judgement::GoOn if until.is_some_and(|until| event.revision >= until) => return Ok(None),
                    Judgement::GoOn => {}
                }
            }
        }
        // Compacted.
        Err(unknown())
    };
    tokio::time::timeout(shared.client.read_timeout, reading).await.unwrap_or_else(|_| Err(unknown()))
}

enum Judgement {
    Ours,
    Theirs,
    EitherOnes,
    GoOn,
}

/// Whether a change can be the lost write. For writes that expected a revision, this is the first change after it.
fn judge(write: &Write, lease: i64, event: &Event) -> Judgement {
    let same = |value: &Bytes| event.entry.as_ref().is_some_and(|now| now.value == *value && now.lease == lease);
    match (&write.change, write.expect) {
        // A lease belongs to one server, so the same one means that it was us. So does the same new object: every
        // object has an id that its creator has drawn.
        (Change::Put { value, .. }, Expect::Absent) if event.is_create() && same(value) => Judgement::Ours,
        (Change::Put { .. }, Expect::Absent) => Judgement::GoOn,
        (Change::Put { value, .. }, _) if same(value) && lease != 0 => Judgement::Ours,
        // Two servers can make the same change of the same object, and only one may believe that it was first.
        (Change::Put { value, .. }, _) if same(value) => Judgement::EitherOnes,
        (Change::Delete, _) if event.is_delete() => Judgement::EitherOnes,
        _ => Judgement::Theirs,
    }
}

fn written(event: &Event) -> Written {
    Written { revision: event.revision, entry: event.entry.clone(), previous: None }
}
