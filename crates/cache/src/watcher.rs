//! [`Watcher`]: one client's position in the history of a resource.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use storage::{Batch, Revision, WatchRequest, WatchStream};

use crate::channel::Place;
use crate::{Cache, Error, Event, Object, Part};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the current objects, then what changes.
    Now,
    /// With everything after this revision.
    After(Revision),
}

/// What a watcher yields.
#[derive(Clone, Debug)]
pub enum Item {
    /// An object that was there when the watch began.
    Initial(Arc<Object>),
    /// All initial objects have been sent; they are the state at this revision.
    InitialDone(Revision),
    /// An object was created, changed or deleted.
    Event(Arc<Event>),
}

/// How many ring events are read at once, and how many bytes of objects they may have together: a watcher that is not polled
/// keeps them in memory.
const READ: usize = 256;
const READ_BYTES: usize = 256 * 1024;
/// How many batches without an event for it a watcher reads before it lets other tasks run.
const ROUNDS: usize = 8;

/// Follows a part of a cache. A watcher is in one of three states and moves on only as `poll_next` says:
/// initial objects → ring, ring → log when the ring has moved on without it, log → ring when it has caught up.
pub struct Watcher {
    cache: Arc<Cache>,
    part: Part,
    place: Place,
    state: State,
    ready: VecDeque<Item>,
    /// The size of the objects that came from the log, until all of them have been handed out.
    read_bytes: usize,
    /// Everything up to this revision has been handed out or queued in `ready`.
    seen: Revision,
    /// Events of the ring up to this revision are not for this watcher: it began there, perhaps before this cache knew of the
    /// revision, or it has read them from the log.
    after: Revision,
}

enum State {
    Ring { next: u64 },
    OpeningLog(BoxFuture<'static, Result<WatchStream, storage::Error>>),
    Log { stream: WatchStream },
}

impl Watcher {
    pub(crate) async fn begin(cache: Arc<Cache>, part: Part, start: Start) -> Result<Watcher, Error> {
        let place = cache.join(&part);
        let mut watcher = Watcher {
            cache,
            part,
            place,
            state: State::Ring { next: 0 },
            ready: VecDeque::new(),
            read_bytes: 0,
            seen: 0,
            after: 0,
        };
        match start {
            Start::Now => {
                let (snapshot, next) = watcher.cache.snapshot_and_position(&watcher.part);
                watcher.state = State::Ring { next };
                watcher.seen = snapshot.revision;
                watcher.cache.meters.initial_events.add(snapshot.objects.len() as u64);
                watcher.ready.extend(snapshot.objects.into_iter().map(Item::Initial));
                watcher.ready.push_back(Item::InitialDone(snapshot.revision));
            }
            Start::After(revision) => {
                watcher.seen = revision;
                watcher.after = revision;
                watcher.state = match watcher.cache.position_after(revision) {
                    Some(next) => State::Ring { next },
                    // A log that does not reach back so far is an error of the request for the watch.
                    None => State::Log { stream: watcher.open_log().await.map_err(expired)? },
                };
            }
        }
        if let State::Ring { next } = watcher.state {
            watcher.place.position.store(next, Ordering::Relaxed);
        }
        Ok(watcher)
    }

    /// Nothing of the part has happened up to this revision that was not handed out, provided that `poll_next` has just
    /// had nothing.
    pub fn seen(&self) -> Revision {
        self.seen
    }

    /// The next thing to tell the client. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Result<Item, Error> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next event or bookmark, as a stream is polled.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Item, Error>> {
        for _ in 0..ROUNDS {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Ok(item));
            }
            ready!(self.poll_step(cx))?;
        }
        // Many events were for other watchers: let other tasks run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next item that is there without waiting.
    pub fn try_next(&mut self) -> Option<Item> {
        self.ready.pop_front()
    }

    /// How much it keeps in memory that nobody else does.
    pub fn read_bytes(&self) -> usize {
        if self.ready.is_empty() { 0 } else { self.read_bytes }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &mut self.state {
            State::Ring { next } => {
                let before = *next;
                // All events before have been handed out.
                self.place.position.store(before, Ordering::Relaxed);
                let (range, after, seen, ready) = (&self.part.range, self.after, &mut self.seen, &mut self.ready);
                let (mut taken, mut bytes) = (0, 0);
                let mut oldest: Option<Instant> = None;
                let mut told = 0;
                let read = self.cache.read_ring(&self.place, before, cx.waker(), |event| {
                    taken += 1;
                    *seen = event.revision.max(*seen);
                    let is_inside = || event.subject().is_some_and(|object| range.contains(object.key()));
                    if event.revision > after && is_inside() {
                        bytes += event.bytes();
                        told += 1;
                        oldest = oldest.or(event.arrived());
                        ready.push_back(Item::Event(event.clone()));
                    }
                    if taken < READ && bytes < READ_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                if let Some(oldest) = oldest {
                    self.cache.meters.delivered.observe_times(oldest.elapsed().as_secs_f64(), told);
                }
                let Some((position, complete)) = read else {
                    self.state = State::OpeningLog(self.open_log());
                    return Poll::Ready(Ok(()));
                };
                *next = position;
                self.seen = complete.map_or(self.seen, |complete| complete.max(self.seen));
                if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
            }
            State::OpeningLog(opening) => {
                let stream = ready!(opening.poll_unpin(cx)).map_err(expired)?;
                self.state = State::Log { stream };
                Poll::Ready(Ok(()))
            }
            State::Log { stream } => match ready!(stream.poll_next_unpin(cx)) {
                Some(batch) => {
                    self.queue(&batch.map_err(expired)?);
                    Poll::Ready(Ok(()))
                }
                None => Poll::Ready(Err(Error::Store(storage::Error::Unavailable("the watch ended".into())))),
            },
        }
    }

    /// Takes over what was read from the log, and returns to the ring if that has the rest.
    fn queue(&mut self, batch: &Batch) {
        self.read_bytes = 0;
        for change in batch.events.iter().filter(|change| change.revision > self.after) {
            let wrap = |entry| self.cache.wrap(entry);
            let (object, previous) = (change.entry.as_ref().map(wrap), change.previous.as_ref().map(wrap));
            let event = Event::new(change.revision, object, previous, self.cache.budget().clone());
            self.read_bytes += event.bytes();
            self.ready.push_back(Item::Event(Arc::new(event)));
        }
        self.seen = self.seen.max(batch.revision);
        if let Some(next) = self.cache.position_after(self.seen) {
            // The log may be ahead of the cache, which then gets what was handed out here already.
            self.after = self.seen;
            self.state = State::Ring { next };
        }
    }

    fn open_log(&self) -> BoxFuture<'static, Result<WatchStream, storage::Error>> {
        let request = WatchRequest::after(self.part.range.clone(), self.seen);
        let store = self.cache.store().clone();
        async move { store.watch(request).await }.boxed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.leave(&self.place);
    }
}

fn expired(error: storage::Error) -> Error {
    match error {
        storage::Error::Compacted { requested, compacted } => Error::Expired { requested, oldest: compacted },
        other => Error::Store(other),
    }
}
