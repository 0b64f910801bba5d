//! WATCH: a stream of changes, each encoded once for all watches with the same resource version and media type.

mod frames;
pub mod made;
mod told;

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use cache::{Item, Object, Start, Watcher};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use object::Status;
use registry::{DirectStorage, Pace};
use storage::Revision;
use streams::messages::{self, Encoding};
use streams::websocket::{Handshake, is_websocket};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::answers::{Asked, COUNTED_BYTES, Room};
use crate::media::{Media, Transform};
use crate::options::{ListOptions, not_a_revision};
use crate::reply::{Chunks, Reply, ReplyBody};
use crate::scope::Scope;
use crate::table;
use frames::{Chunk, Frames, error_event};
use told::ToldObjects;

/// Events that are ready at once are sent in one chunk, up to this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// A watch whose user's answers have not been read for so long is ended: it would keep more in memory the longer it waits.
const UNREAD_TIME: Duration = Duration::from_secs(30);
/// The last bookmark comes this long before the end of a watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a watch lasts that asked for more than the clock can count.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Before each event in protobuf stands its length.
const PROTO_LENGTH_BYTES: usize = 4;
/// Events that are converted at once: so many, of objects that take up so much together.
const CONVERTED_MAX: usize = 500;
const CONVERTED_BYTES_MAX: usize = 1024 * 1024;

pub async fn watch(scope: &Arc<Scope>) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope, true)?;
    if matches!(scope.accept.transform, Transform::Table(_)) {
        table::include(scope)?;
    }
    scope.offer().check_stream(scope.accept.media)?;
    let storage = scope.storage()?;
    let asked = options.revision().map_err(not_a_revision)?;
    let initial = options.send_initial_events == Some(true);
    let start = match asked {
        _ if initial => {
            match asked {
                None => {
                    storage.cache.fresh().await.map_err(|error| storage.read_failed(error, "watch"))?;
                }
                Some(revision) => {
                    storage.cache.wait_for(revision).await.map_err(|error| storage.read_failed(error, "watch"))?;
                }
            }
            Start::Now
        }
        Some(revision) if revision > 0 => Start::After(revision),
        _ => Start::After(storage.cache.revision()),
    };
    let range = storage.range(&scope.call.info.namespace);
    let part = storage.cache.part(range.clone(), &options.filter.fields);
    // Upstream begins the stream before it knows, so the failure is an event.
    let refuse = |status: Status| {
        let frame = error_event(scope.accept.media, &status);
        Ok(reply(scope, futures::stream::once(async move { frame })))
    };
    let watcher = match storage.cache.watch(part.clone(), start).await {
        Ok(watcher) => watcher,
        Err(error) => return refuse(storage.read_failed(error, "watch").into()),
    };
    let told = match ToldObjects::begin(scope, start, (part, &range), &options.filter).await {
        Ok(told) => told,
        Err(status) => return refuse(status),
    };
    if start != Start::Now {
        options.filter.end_of_initial();
    }
    let now = Instant::now();
    let deadline = now.checked_add(duration(scope, &options)).unwrap_or(now + LONGEST);
    let frames = Frames {
        scope: scope.clone(),
        storage: storage.clone(),
        filter: options.filter,
        bookmarks: options.allow_bookmarks,
        // Only a client that asked for initial events by name is told where they end.
        mark_initial: scope.call.query("sendInitialEvents").is_some(),
        meter: scope.api.meters.of(&scope.resource.resource),
        begun: AtomicBool::new(false),
    };
    let mut feed = Feed {
        frames: Arc::new(frames),
        watcher,
        deadline,
        timer: Box::pin(tokio::time::sleep_until(deadline)),
        due: deadline,
        timed: None,
        one_by_one: is_websocket(&scope.call.headers),
        over: false,
        direct: storage.direct().filter(|_| scope.resource.conversion.is_none() && told.is_none()),
        told,
        converting: None,
        withdrawn: scope.resource.is_custom().then(|| scope.resource.withdrawn.wait().boxed()),
        counted: false,
        queued: None,
        unread: None,
        pace: Pace::begin(),
        pauses: false,
    };
    feed.set_timer();
    Ok(reply(scope, feed))
}

fn reply(scope: &Scope, stream: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let content_type = match scope.accept.media {
        Media::Json | Media::Yaml => "application/json",
        Media::Proto => "application/vnd.kubernetes.protobuf;stream=watch",
        Media::Cbor => "application/cbor-seq",
    };
    let chunks = stream.map(Ok).boxed();
    if is_websocket(&scope.call.headers) {
        return as_messages(scope, chunks);
    }
    // A body has no meaning here, and would be kept for as long as the watch lasts.
    drop(scope.take_body());
    Reply::new(StatusCode::OK, content_type, ReplyBody::Stream { chunks, estimate: 0 })
}

/// A message for each event, without the length that frames protobuf on other connections.
fn as_messages(scope: &Scope, chunks: Chunks) -> Reply {
    let media = scope.accept.media;
    let handshake = match Handshake::read(&scope.call.method, &scope.call.headers) {
        Ok(handshake) => handshake,
        Err(why) => return Reply::text(why.code, why.text),
    };
    // As upstream's WebSocket server: a page that asks must say where it comes from.
    if scope.call.header("origin").parse::<http::Uri>().is_err() {
        return Reply::text(StatusCode::FORBIDDEN, "");
    }
    let protocol = match handshake.protocols.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        _ => return Reply::text(StatusCode::BAD_REQUEST, ""),
    };
    let Some(upgrade) = scope.take_body().take_upgrade() else {
        return Reply::text(StatusCode::BAD_REQUEST, "not websocket protocol");
    };
    let (encoding, prefix) = match media {
        Media::Json | Media::Yaml => (Encoding::Text, 0),
        Media::Proto => (Encoding::Binary, PROTO_LENGTH_BYTES),
        Media::Cbor => (Encoding::Binary, 0),
    };
    let messages = chunks.map_ok(move |event| event.slice(prefix.min(event.len())..));
    Reply::switch(handshake.accept(protocol.as_deref()), async move {
        let Ok(client) = upgrade.await else { return };
        if let Err(error) = messages::send(TokioIo::new(client), encoding, messages).await {
            tracing::debug!(%error, "a watch's WebSocket ended early");
        }
    })
}

/// How long the watch may last: as asked (a negative time is over at once), or a random time so that clients do not all come
/// back at once.
fn duration(scope: &Scope, options: &ListOptions) -> Duration {
    match options.timeout_seconds.filter(|seconds| *seconds != 0) {
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        None => {
            let least = scope.api.limits.watch_min_timeout;
            let spread = u64::from(scope.api.clock.now().nanos) % 1000;
            least + least * u32::try_from(spread).unwrap_or(0) / 1000
        }
    }
}

/// One client's stream.
struct Feed {
    frames: Arc<Frames>,
    watcher: Watcher,
    deadline: Instant,
    /// For the next bookmark, or the end if that comes first.
    timer: Pin<Box<Sleep>>,
    /// When the timer goes off.
    due: Instant,
    /// The task that it will wake.
    timed: Option<Waker>,
    /// Each event is a chunk, because it becomes a WebSocket message.
    one_by_one: bool,
    over: bool,
    /// None where objects are converted to the requested version, by a webhook or a function, and where not all may be seen: that is
    /// done and decided ahead of sending them.
    direct: Option<DirectStorage>,
    /// The objects that a client was told of which may not see everything; None also while events are being decided about.
    told: Option<Box<ToldObjects>>,
    /// Events that are being converted. Nothing else is sent before them.
    converting: Option<BoxFuture<'static, Converted>>,
    /// Ends the watch when the custom resource is no longer served, or has another definition; built-in ones always are.
    withdrawn: Option<BoxFuture<'static, ()>>,
    /// Whether the last chunk was one that is counted until it was read.
    counted: bool,
    /// Events that were read for this watch alone and have not been sent.
    queued: Option<Room>,
    /// Waits until others of the user's answers have been read; not for ever.
    unread: Option<(oneshot::Receiver<Room>, Pin<Box<Sleep>>)>,
    pace: Pace,
    /// It is the turn of other tasks.
    pauses: bool,
}

/// Events as they are sent, whether the watch goes on, and what the client was told of where that is remembered.
type Converted = (Chunk, ControlFlow<()>, Option<Box<ToldObjects>>);

/// Polled by hand: a server has thousands of these, and every change may go through many of them.
impl Stream for Feed {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if std::mem::take(&mut self.pauses) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut out = Chunk::default();
        while out.is_empty() {
            if self.over {
                return Poll::Ready(None);
            }
            if self.counted {
                match self.poll_room(cx) {
                    Poll::Pending => ready!(self.poll_timer(cx, &mut out)),
                    Poll::Ready(has_room) => (self.counted, self.over) = (false, !has_room),
                }
                continue;
            }
            if let Some(converting) = &mut self.converting {
                match converting.poll_unpin(cx) {
                    Poll::Pending => ready!(self.poll_timer(cx, &mut out)),
                    Poll::Ready((converted, flow, told)) => {
                        (self.converting, self.over, out, self.told) = (None, flow.is_break(), converted, told);
                        self.pauses = out.is_empty();
                    }
                }
                if std::mem::take(&mut self.pauses) && !self.over {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            if let Some(told) = &mut self.told {
                told.poll_changes(cx);
                if told.is_busy() {
                    self.tell(None);
                    continue;
                }
            }
            match self.watcher.poll_next(cx) {
                Poll::Pending if self.told.as_ref().is_some_and(|told| told.is_outdated()) => {
                    let seen = self.watcher.seen();
                    self.tell(Some(seen));
                }
                Poll::Pending => ready!(self.poll_timer(cx, &mut out)),
                Poll::Ready(Err(error)) => self.fail(error, &mut out),
                Poll::Ready(Ok(item)) => self.write(item, &mut out),
            }
            // Whatever else is ready goes into the same chunk.
            while out.len() < CHUNK_BYTES
                && !self.one_by_one
                && !self.over
                && !self.pauses
                && self.direct.is_some()
                && let Some(item) = self.watcher.try_next()
            {
                self.write(item, &mut out);
            }
            if self.pauses && out.is_empty() {
                self.pauses = false;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Some(self.finish(out)))
    }
}

impl Feed {
    /// Begins to convert an event's objects, and those of all events that are there already.
    fn convert(&mut self, first: Item) {
        let mut bytes = stored_bytes(&first);
        let mut items = vec![first];
        while items.len() < CONVERTED_MAX
            && bytes < CONVERTED_BYTES_MAX
            && !self.one_by_one
            && let Some(item) = self.watcher.try_next()
        {
            bytes += stored_bytes(&item);
            items.push(item);
        }
        match &mut self.told {
            Some(told) => {
                told.add(items);
                self.tell(None);
            }
            None => self.converting = Some(converted(self.frames.clone(), items).boxed()),
        }
    }

    /// Begins to tell a client that may not see everything what there is to tell.
    fn tell(&mut self, seen: Option<Revision>) {
        if let Some(told) = self.told.take() {
            self.converting = Some(told.tell(self.frames.clone(), seen, self.one_by_one).boxed());
        }
    }

    fn write(&mut self, item: Item, out: &mut Chunk) {
        let Some(direct) = &self.direct else { return self.convert(item) };
        let (mut work, before) = (0, out.len());
        let objects = objects(&item).map(|object| direct.ready(object));
        self.over = self.frames.write(&item, objects, &mut work, out).is_break();
        self.pauses = self.pace.is_over(work + out.len() - before);
    }

    /// A chunk that only this watch has in memory counts as long as it has not been read.
    fn finish(&mut self, out: Chunk) -> Bytes {
        let is_own = out.is_own();
        let chunk = out.finish();
        let queued = self.watcher.read_bytes();
        let (scope, answers) = (&self.frames.scope, &self.frames.scope.api.answers);
        let queued = (queued > 0).then(|| answers.take(scope.user(), queued));
        let counts = queued.is_some() || chunk.len() >= if is_own { COUNTED_BYTES } else { CHUNK_BYTES };
        let chunk = if counts { answers.take(scope.user(), 0).hold(chunk) } else { chunk };
        (self.counted, self.queued) = (counts, queued);
        chunk
    }

    /// Whether the user's other answers leave room for one more chunk; false if it was waited for too long.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let scope = &self.frames.scope;
        let answers = &scope.api.answers;
        if self.unread.is_none() {
            match answers.ask(scope.user(), 1) {
                Asked::Here(_) => return Poll::Ready(true),
                Asked::Later(later) => {
                    self.unread = Some((later, Box::pin(tokio::time::sleep(UNREAD_TIME))));
                }
            }
        }
        let Some((later, sleep)) = &mut self.unread else { return Poll::Ready(true) };
        let has_room = match later.poll_unpin(cx) {
            Poll::Ready(_) => true,
            Poll::Pending => {
                ready!(sleep.as_mut().poll(cx));
                false
            }
        };
        self.unread = None;
        Poll::Ready(has_room)
    }

    fn fail(&mut self, error: cache::Error, out: &mut Chunk) {
        let status = self.frames.storage.read_failed(error, "watch").into();
        self.over = self.frames.fail(&status, out).is_break();
    }

    /// Nothing happens: tells the client how far it is from time to time, and that it is over when it is.
    fn poll_timer(&mut self, cx: &mut Context<'_>, out: &mut Chunk) -> Poll<()> {
        if self.withdrawn.as_mut().is_some_and(|withdrawn| withdrawn.poll_unpin(cx).is_ready()) {
            self.over = true;
            return Poll::Ready(());
        }
        // Each event that was sent leads here: looking at the time is cheaper than asking the timer.
        let is_set = self.timed.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        if is_set && Instant::now() < self.due {
            return Poll::Pending;
        }
        self.timed = Some(cx.waker().clone());
        ready!(self.timer.poll_unpin(cx));
        if Instant::now() >= self.deadline {
            self.over = true;
            return Poll::Ready(());
        }
        self.set_timer();
        let revision = self.watcher.seen();
        if revision > 0 && self.converting.is_none() && !self.counted {
            self.frames.bookmark(revision, false, out);
        }
        Poll::Ready(())
    }

    fn set_timer(&mut self) {
        let next = if self.frames.bookmarks { self.next_bookmark(Instant::now()) } else { None };
        self.due = next.unwrap_or(self.deadline);
        self.timed = None;
        self.timer.as_mut().reset(self.due);
    }

    /// From time to time, and once more before the end, so that the client can go on from there.
    fn next_bookmark(&self, now: Instant) -> Option<Instant> {
        let last = self.deadline.checked_sub(LAST_BOOKMARK)?;
        Some(last.min(now + self.frames.scope.api.limits.bookmark_interval)).filter(|next| *next > now)
    }
}

/// The stage ahead of sending: a webhook converts the objects, or a plain function as part of encoding them.
async fn converted(frames: Arc<Frames>, items: Vec<Item>) -> Converted {
    let mut out = Chunk::default();
    let ready = frames.storage.prepare(items.iter().flat_map(objects).cloned().collect::<Vec<_>>()).await;
    let mut ready = ready.iter();
    let mut pace = Pace::begin();
    for item in &items {
        let mut work = stored_bytes(item);
        let objects = ready.by_ref().take(objects(item).count());
        if frames.write(item, objects, &mut work, &mut out).is_break() {
            return (out, ControlFlow::Break(()), None);
        }
        pace.worked(work).await;
    }
    (out, ControlFlow::Continue(()), None)
}

/// The objects that an event is about: as they are now, and as they were before.
fn objects(item: &Item) -> impl Iterator<Item = &Arc<Object>> {
    let objects = match item {
        Item::Initial(object) => [Some(object), None],
        Item::InitialDone(_) => [None, None],
        Item::Event(event) => [event.object.as_ref(), event.previous.as_ref()],
    };
    objects.into_iter().flatten()
}

fn stored_bytes(item: &Item) -> usize {
    objects(item).map(|object| object.value().len()).sum()
}
