//! Watches that are resumed when the connection, the member or the leader is lost.
//!
//! A watch is a task with a position: everything up to it has been handed to the consumer. It opens a stream after the
//! position, and when the stream breaks it opens another one, with another member if need be. As the position moves only
//! over whole revisions that were delivered, nothing is skipped or repeated. A stream whose consumer is slow is closed and
//! opened again when there is room, because all streams of a connection share its window.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{Batch, Error, Event, KeyRange, Result, Revision, WatchRequest, WatchStream};
use tokio::sync::{mpsc, watch as signal};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::client::{Client, Failed, Pause, WatchCall};
use crate::proto::{self, RangeRequest, RangeResponse, WatchAction, WatchCreate, WatchProgress, WatchResponse};
use crate::store::{Shared, bounds, entry};

/// Batches that wait for a consumer.
const QUEUE: usize = 16;
/// A consumer that has no room for so long is slow.
const SLOW: Duration = Duration::from_secs(1);
/// A member that has not answered a request for progress is asked again: it does not answer while a watch catches up.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// A member that answered with too old a revision lags behind the others and is asked again.
const ASK_LAGGARD: Duration = Duration::from_millis(5);
/// A watch of which nothing is heard asks for progress by itself now and then: its position must not fall behind what is
/// compacted, or it could not resume.
const QUIET: Duration = Duration::from_secs(30);
/// Progress marks that were not requested for one watch have no watch id.
const NO_WATCH: i64 = -1;

/// Starts a watch.
pub(crate) async fn watch(shared: &Arc<Shared>, mut request: WatchRequest) -> Result<WatchStream> {
    if request.range.is_empty() {
        return Err(Error::Unavailable("an empty range cannot be watched".into()));
    }
    let after = match request.after {
        Some(after) => after,
        None => {
            let now = RangeRequest { key: bounds(&request.range).0, count_only: true, ..RangeRequest::default() };
            proto::revision(&shared.read(now).await?.header)
        }
    };
    request.after = Some(after);
    // A stream would say the same later, but a caller wants to know at once.
    check_start(shared, after).await?;
    Ok(follow(shared.clone(), request, after))
}

/// Starts a watch without looking whether history reaches back; the stream tells.
pub(crate) fn follow(shared: Arc<Shared>, request: WatchRequest, after: Revision) -> WatchStream {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let wanted = Watches::register(&shared, &request);
    let follower = EtcdFollower { shared, request, position: after, wanted, sender };
    tokio::spawn(follower.run());
    Box::pin(ReceiverStream::new(receiver))
}

/// The revision of the last compaction, as etcd tells a watch that starts before it.
pub(crate) async fn compaction(client: &Client, start: Revision) -> Option<Revision> {
    let (key, range_end) = bounds(&KeyRange::all());
    let create = WatchCreate { key, range_end, start_revision: start.max(1), ..WatchCreate::default() };
    let told = async {
        let mut call = client.watch(create).await.ok()?;
        loop {
            let answer = call.answers.message().await.ok()??;
            if answer.canceled || !answer.events.is_empty() {
                return Some(answer.compact_revision).filter(|revision| *revision > 0);
            }
        }
    };
    tokio::time::timeout(client.read_timeout, told).await.ok()?
}

/// Whether history reaches back to `after`. A revision that has not happened yet is fine.
async fn check_start(shared: &Shared, after: Revision) -> Result<()> {
    let key = bounds(&KeyRange::all()).0;
    let request = RangeRequest { key, revision: after.max(1), count_only: true, ..RangeRequest::default() };
    match shared.client.repeat::<_, RangeResponse>(proto::RANGE, request).await {
        Ok(_) => Ok(()),
        Err(failed) => match shared.explain(failed, after).await {
            Error::FutureRevision { .. } => Ok(()),
            error => Err(error),
        },
    }
}

/// The open watches that want marks, and how far each is wanted to come.
#[derive(Default)]
pub(crate) struct Watches {
    open: Mutex<HashMap<u64, (KeyRange, signal::Sender<Revision>)>>,
    next: AtomicU64,
}

impl Watches {
    /// Has every watch that overlaps a range deliver a mark that reaches `revision`.
    pub fn want(&self, range: &KeyRange, revision: Revision) {
        let overlaps = |other: &KeyRange| {
            let starts_before_end =
                |one: &KeyRange, two: &KeyRange| two.end.as_ref().is_none_or(|end| one.start < *end);
            starts_before_end(range, other) && starts_before_end(other, range)
        };
        for (_, wanted) in self.open.lock().values().filter(|(other, _)| overlaps(other)) {
            wanted.send_if_modified(|wanted| {
                let more = revision > *wanted;
                *wanted = revision.max(*wanted);
                more
            });
        }
    }

    fn register(shared: &Arc<Shared>, request: &WatchRequest) -> WantedRevision {
        let (sender, receiver) = signal::channel(0);
        let watches = &shared.watches;
        let id = watches.next.fetch_add(1, Ordering::Relaxed);
        if request.marks {
            watches.open.lock().insert(id, (request.range.clone(), sender));
        }
        WantedRevision { shared: shared.clone(), id, revision: receiver }
    }
}

/// How far a watch is wanted to come. Leaves the register when it is dropped.
struct WantedRevision {
    shared: Arc<Shared>,
    id: u64,
    revision: signal::Receiver<Revision>,
}

impl WantedRevision {
    /// Waits for the next change of what is wanted; never returns once all senders are dropped.
    async fn changed(&mut self) {
        if self.revision.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for WantedRevision {
    fn drop(&mut self) {
        self.shared.watches.open.lock().remove(&self.id);
    }
}

struct EtcdFollower {
    shared: Arc<Shared>,
    request: WatchRequest,
    /// Everything up to here has been handed over.
    position: Revision,
    wanted: WantedRevision,
    sender: mpsc::Sender<Result<Batch>>,
}

/// Why a stream is over.
enum End {
    /// The consumer is gone.
    Unwanted,
    /// The consumer has no room; go on when it has.
    Slow,
    /// Try again.
    Broken(String),
    /// There is no way to go on.
    Failed(Error),
}

impl EtcdFollower {
    async fn run(mut self) {
        let mut pause = Pause::for_ever(&self.shared.client);
        loop {
            let began = self.position;
            match self.session().await {
                End::Unwanted => return,
                End::Slow => {
                    if self.sender.reserve().await.is_err() {
                        return;
                    }
                }
                End::Failed(error) => {
                    let _ = self.sender.send(Err(error)).await;
                    return;
                }
                End::Broken(why) => {
                    tracing::debug!(why, position = self.position, "a watch broke and is resumed");
                    if self.position > began {
                        pause = Pause::for_ever(&self.shared.client);
                    }
                    tokio::select! {
                        _ = pause.wait() => {}
                        _ = self.sender.closed() => return,
                    }
                }
            }
        }
    }

    /// One stream, from opening it to its end.
    async fn session(&mut self) -> End {
        // A stream that starts right at a compaction could miss deletions that were compacted away, so ask first.
        match check_start(&self.shared, self.position).await {
            Ok(()) => {}
            Err(error @ Error::Compacted { .. }) => return End::Failed(error),
            Err(error) => return End::Broken(error.to_string()),
        }
        let (key, range_end) = bounds(&self.request.range);
        let create = WatchCreate {
            key,
            range_end,
            start_revision: self.position + 1,
            progress_notify: true,
            prev_kv: self.request.previous,
            fragment: true,
        };
        let call = match self.shared.client.watch(create).await {
            Ok(call) => call,
            Err(Failed::Refused(status)) => return End::Failed(Error::Unavailable(status.message().to_string())),
            Err(failed) => return End::Broken(failed.message().to_string()),
        };
        let member = call.member;
        let end = self.read(call).await;
        if matches!(end, End::Broken(_)) {
            self.shared.client.leave(member);
        }
        end
    }

    async fn read(&mut self, mut call: WatchCall) -> End {
        let mut fragments = Vec::new();
        let mut asking = Asking::default();
        let mut heard = Instant::now();
        loop {
            let wanted = *self.wanted.revision.borrow_and_update();
            let ask_at = if wanted > self.position { asking.next() } else { heard + QUIET };
            let answer = tokio::select! {
                answer = call.answers.message() => answer,
                () = self.wanted.changed() => continue,
                () = tokio::time::sleep_until(ask_at), if self.request.marks => {
                    heard = Instant::now();
                    let progress = proto::WatchRequest { action: Some(WatchAction::Progress(WatchProgress {})) };
                    if call.requests.try_send(progress).is_ok() {
                        asking.asked(Instant::now());
                    } else {
                        asking.again_in(ASK_LAGGARD);
                    }
                    continue;
                }
                () = asking.in_vain(self.shared.client.attempt_timeout) => {
                    return End::Broken("the member says nothing any more".into());
                }
                () = self.sender.closed() => return End::Unwanted,
            };
            heard = Instant::now();
            asking.heard();
            let answer = match answer {
                Ok(Some(answer)) => answer,
                Ok(None) => return End::Broken("the member ended the stream".into()),
                Err(status) => return End::Broken(status.message().to_string()),
            };
            if answer.watch_id == NO_WATCH {
                asking.answered(proto::revision(&answer.header) >= wanted);
            }
            if let Err(end) = self.take(answer, &mut fragments).await {
                return end;
            }
        }
    }

    async fn take(&mut self, answer: WatchResponse, fragments: &mut Vec<proto::Event>) -> Result<(), End> {
        let revision = proto::revision(&answer.header);
        if answer.canceled {
            return Err(self.canceled(answer));
        }
        if answer.created {
            return Ok(());
        }
        if answer.events.is_empty() && fragments.is_empty() {
            // A mark: of this watch, or of all watches of the stream, of which there is only this one.
            return self.deliver(Batch { events: Vec::new(), revision }).await;
        }
        fragments.extend(answer.events);
        if answer.fragment {
            return Ok(());
        }
        let events = std::mem::take(fragments).into_iter().filter_map(|event| self.event(event).transpose());
        let events = events.collect::<Result<Vec<_>>>().map_err(End::Failed)?;
        let Some(last) = events.last() else { return Ok(()) };
        // While a watch catches up, the header is ahead of the events; the last event is what has been reached.
        let revision = last.revision;
        self.deliver(Batch { events, revision }).await
    }

    fn canceled(&self, answer: WatchResponse) -> End {
        if answer.compact_revision > 0 {
            self.shared.knows_compacted(answer.compact_revision);
            return End::Failed(Error::Compacted { requested: self.position, compacted: answer.compact_revision });
        }
        if answer.cancel_reason.contains("permission denied") {
            return End::Failed(Error::Unavailable(answer.cancel_reason));
        }
        End::Broken(answer.cancel_reason)
    }

    async fn deliver(&mut self, batch: Batch) -> Result<(), End> {
        if batch.revision <= self.position {
            return Ok(());
        }
        if batch.events.is_empty() && !self.request.marks {
            self.position = batch.revision;
            return Ok(());
        }
        match tokio::time::timeout(SLOW, self.sender.reserve()).await {
            Err(_) => Err(End::Slow),
            Ok(Err(_)) => Err(End::Unwanted),
            Ok(Ok(room)) => {
                self.position = batch.revision;
                room.send(Ok(batch));
                Ok(())
            }
        }
    }

    /// None for an event that has been delivered already.
    fn event(&self, event: proto::Event) -> Result<Option<Arc<Event>>> {
        let is_delete = event.is_delete();
        let Some(kv) = event.kv else { return Ok(None) };
        let revision = kv.mod_revision;
        if revision <= self.position {
            return Ok(None);
        }
        let is_create = !is_delete && kv.create_revision == revision;
        let previous = event.prev_kv.map(entry);
        if self.request.previous && previous.is_none() && !is_create {
            // Compaction was faster than the stream, so the state before is not known.
            return Err(Error::Compacted { requested: self.position, compacted: revision });
        }
        let key = kv.key.as_ref().into();
        let entry = (!is_delete).then(|| entry(kv));
        Ok(Some(Arc::new(Event { revision, key, entry, previous })))
    }
}

/// When to ask for progress.
#[derive(Default)]
struct Asking {
    not_before: Option<Instant>,
    /// When a question was asked after which nothing has been heard.
    unanswered: Option<Instant>,
}

impl Asking {
    fn next(&self) -> Instant {
        self.not_before.unwrap_or_else(Instant::now)
    }

    fn asked(&mut self, now: Instant) {
        self.not_before = Some(now + ASK_AGAIN);
        self.unanswered.get_or_insert(now);
    }

    fn heard(&mut self) {
        self.unanswered = None;
    }

    /// Returns when a question has been waiting for so long; never if there is none.
    async fn in_vain(&self, patience: Duration) {
        match self.unanswered {
            Some(asked) => tokio::time::sleep_until(asked + patience).await,
            None => std::future::pending().await,
        }
    }

    /// An answer that goes far enough makes room for the next question at once.
    fn answered(&mut self, enough: bool) {
        self.not_before = (!enough).then(|| Instant::now() + ASK_LAGGARD);
    }

    fn again_in(&mut self, pause: Duration) {
        self.not_before = Some(Instant::now() + pause);
    }
}
