//! A watcher: a position in the shared ring, or in the log while it is further behind than the ring reaches.

use std::sync::Arc;

use storage::{Batch, Error, Result, Revision, WatchRequest, WatchStream};
use tokio::sync::watch as signal;

use crate::notifier::CLOSED;
use crate::options::{BATCH_EVENTS_MAX, SCAN_EVENTS_MAX};
use crate::shared::Shared;

pub(crate) fn watch(shared: Arc<Shared>, request: WatchRequest) -> Result<WatchStream> {
    let signal = shared.notifier.signal.subscribe();
    let position = {
        let state = shared.state.read();
        let position = request.after.unwrap_or(state.revision);
        state.check_kept(position)?;
        position
    };
    let watcher = Watcher { shared, signal, request, position, marked: Revision::MIN, ended: false };
    Ok(Box::pin(futures::stream::unfold(watcher, |mut watcher| async { Some((watcher.next().await?, watcher)) })))
}

struct Watcher {
    shared: Arc<Shared>,
    signal: signal::Receiver<Revision>,
    request: WatchRequest,
    /// Everything up to here was delivered or is outside the range.
    position: Revision,
    /// The revision of the last delivered batch.
    marked: Revision,
    ended: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<Batch>> {
        if self.ended {
            return None;
        }
        let result = self.step().await;
        self.ended = result.is_err();
        Some(result)
    }

    async fn step(&mut self) -> Result<Batch> {
        loop {
            let announced = *self.signal.borrow_and_update();
            let batch = self.read().await?;
            // A watcher may wait for a revision in the future; until then there is nothing to tell it.
            let reached = batch.revision >= self.position;
            let advanced = batch.revision > self.position;
            self.position = self.position.max(batch.revision);
            if !batch.events.is_empty() || (self.request.marks && reached && batch.revision > self.marked) {
                self.marked = batch.revision;
                return Ok(batch);
            }
            // One look passes over a limited number of events: there may be more.
            if advanced {
                continue;
            }
            if announced == CLOSED || self.signal.changed().await.is_err() {
                return Err(Error::Unavailable("the store was closed".into()));
            }
        }
    }

    async fn read(&self) -> Result<Batch> {
        let range = &self.request.range;
        let in_memory = self.shared.ring.read().after(self.position, range, BATCH_EVENTS_MAX, SCAN_EVENTS_MAX);
        if let Some(batch) = in_memory {
            return Ok(batch);
        }
        let (range, position) = (range.clone(), self.position);
        self.shared.blocking(move |shared| shared.events_after(&range, position)).await
    }
}
