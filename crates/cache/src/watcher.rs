//! [`Watcher`]: one client's position in the history of a resource.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use storage::{KeyRange, Revision, WatchRequest, WatchStream};
use tokio::sync::watch;

use crate::{Cache, Error, Event, Object};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the current objects, then what changes.
    Now,
    /// With everything after this revision.
    After(Revision),
}

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum Item {
    /// An object that was there when the watch began.
    Initial(Arc<Object>),
    /// All initial objects have been sent; they are the state at this revision.
    InitialDone(Revision),
    Event(Arc<Event>),
    /// Nothing of the range happened up to this revision that was not sent.
    Progress(Revision),
}

/// How many ring events are read at once.
const READ: usize = 256;

/// Follows a range. A watcher is in one of three states and moves on only as `step` says:
/// initial objects → ring, ring → log when the ring has moved on without it, log → ring when it has caught up.
pub struct Watcher {
    cache: Arc<Cache>,
    range: KeyRange,
    state: State,
    ready: VecDeque<Item>,
    applied: watch::Receiver<Revision>,
    /// Everything up to this revision has been handed out or queued in `ready`.
    seen: Revision,
    /// Where the watch began. A client may know a revision before this cache does; what comes until then is not for it.
    after: Revision,
}

enum State {
    Ring { next: u64 },
    Log { stream: WatchStream },
}

impl Watcher {
    pub(crate) async fn begin(cache: Arc<Cache>, range: KeyRange, start: Start) -> Result<Watcher, Error> {
        let applied = cache.applied();
        let mut watcher = Watcher {
            cache,
            range,
            state: State::Ring { next: 0 },
            ready: VecDeque::new(),
            applied,
            seen: 0,
            after: 0,
        };
        match start {
            Start::Now => {
                let (snapshot, next) = watcher.cache.snapshot_and_position(&watcher.range);
                watcher.state = State::Ring { next };
                watcher.seen = snapshot.revision;
                watcher.ready.extend(snapshot.objects.into_iter().map(Item::Initial));
                watcher.ready.push_back(Item::InitialDone(snapshot.revision));
            }
            Start::After(revision) => {
                watcher.seen = revision;
                watcher.after = revision;
                match watcher.cache.position_after(revision) {
                    Some(next) => watcher.state = State::Ring { next },
                    None => watcher.read_log().await?,
                }
            }
        }
        Ok(watcher)
    }

    /// The next thing to tell the client. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Result<Item, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            self.step().await?;
        }
    }

    /// What can be had without waiting.
    pub fn try_next(&mut self) -> Option<Item> {
        self.ready.pop_front()
    }

    async fn step(&mut self) -> Result<(), Error> {
        match &mut self.state {
            State::Ring { next } => {
                let mut events = Vec::new();
                self.applied.mark_unchanged();
                match self.cache.read_ring(*next, READ, &mut events) {
                    None => return self.read_log().await,
                    Some(complete) if events.is_empty() => {
                        if complete > self.seen {
                            self.seen = complete;
                            self.ready.push_back(Item::Progress(complete));
                        } else {
                            // The cache outlives its watchers, so the channel cannot close while we wait.
                            let _ = self.applied.changed().await;
                        }
                    }
                    Some(_) => {
                        *next += events.len() as u64;
                        self.queue(events);
                    }
                }
            }
            State::Log { stream } => match stream.next().await {
                Some(Ok(batch)) => {
                    let events = batch.events.iter().map(|change| {
                        let wrap = |entry| self.cache.wrap(entry);
                        let (object, previous) = (change.entry.as_ref().map(wrap), change.previous.as_ref().map(wrap));
                        Arc::new(Event::new(change.revision, object, previous, self.cache.budget().clone()))
                    });
                    let events = events.collect();
                    self.queue(events);
                    self.seen = self.seen.max(batch.revision);
                    if let Some(next) = self.cache.position_after(self.seen) {
                        self.state = State::Ring { next };
                    }
                }
                Some(Err(error)) => return Err(expired(error)),
                None => return Err(Error::Store(storage::Error::Unavailable("the watch ended".into()))),
            },
        }
        Ok(())
    }

    fn queue(&mut self, events: Vec<Arc<Event>>) {
        if let Some(last) = events.last() {
            self.seen = self.seen.max(last.revision);
        }
        let mine = |event: &Arc<Event>| {
            event.revision > self.after && event.subject().is_some_and(|object| self.range.contains(object.key()))
        };
        self.ready.extend(events.into_iter().filter(mine).map(Item::Event));
    }

    async fn read_log(&mut self) -> Result<(), Error> {
        let request = WatchRequest::after(self.range.clone(), self.seen);
        let stream = self.cache.store().watch(request).await.map_err(expired)?;
        self.state = State::Log { stream };
        Ok(())
    }
}

fn expired(error: storage::Error) -> Error {
    match error {
        storage::Error::Compacted { requested, compacted } => Error::Expired { requested, oldest: compacted },
        other => Error::Store(other),
    }
}
