//! Compaction, shared with every other API server on the same etcd.
//!
//! They coordinate by one key, `compact_rev_key`: a server that finds its version unchanged since the last interval
//! increments it and compacts to the revision it saw then; a server that finds it incremented remembers the new version and
//! waits for another interval. So history is kept for one to two intervals, whichever server compacts, kube-apiserver
//! included.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use storage::{Result, Revision};
use tokio::task::AbortHandle;

use crate::client::read_failed;
use crate::proto::{self, Compare, PutRequest, RangeRequest, Request, TXN, TxnRequest, TxnResponse};
use crate::store::Shared;

const KEY: Bytes = Bytes::from_static(b"compact_rev_key");

/// Compacts until it is dropped.
pub(crate) struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn start(shared: Arc<Shared>, interval: Duration) -> Running {
    let task = tokio::spawn(async move {
        let mut turn = Turn::default();
        loop {
            tokio::time::sleep(interval).await;
            match turn.take(&shared).await {
                Ok(Some(revision)) => tracing::debug!(revision, "compacted etcd"),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot compact etcd"),
            }
        }
    });
    Running(task.abort_handle())
}

/// What was seen last time.
#[derive(Default)]
struct Turn {
    version: i64,
    revision: Revision,
}

impl Turn {
    /// Compacts to what was current last time, if it is our turn; says to which revision.
    async fn take(&mut self, shared: &Shared) -> Result<Option<Revision>> {
        let read = Request::Range(RangeRequest { key: KEY, ..RangeRequest::default() });
        let put = PutRequest { key: KEY, value: self.revision.to_string().into(), lease: 0 };
        let request = TxnRequest {
            compare: vec![Compare::version_is(KEY, self.version)],
            success: vec![Request::Put(put).into()],
            failure: vec![read.into()],
        };
        // Lost answers need no care: the next turn finds the key moved, by us or by another.
        let answer: TxnResponse = shared.client.once(TXN, request).await.map_err(|failed| read_failed(&failed))?;
        let last = std::mem::replace(&mut self.revision, proto::revision(&answer.header));
        shared.client.saw(self.revision);
        if !answer.succeeded {
            let current = answer.found(&KEY);
            self.version = current.map_or(0, |kv| kv.version);
            if let Some(revision) = current.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok()) {
                shared.knows_compacted(revision);
            }
            return Ok(None);
        }
        self.version += 1;
        if last == 0 {
            return Ok(None);
        }
        shared.compact(last).await?;
        Ok(Some(last))
    }
}
