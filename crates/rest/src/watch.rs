//! WATCH: a stream of changes, each encoded once for all watches with the same resource version and media type.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cache::{Event, Item, Object, Start, Watcher};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use object::{GroupVersionKind, Map, Meta, Status, Value};
use registry::{Filter, Prepared};
use storage::Revision;
use streams::messages::{self, Encoding};
use streams::websocket::{Handshake, is_websocket};
use tokio::time::{Instant, Sleep};

use crate::media::{Media, Transform};
use crate::options::{ListOptions, not_a_revision};
use crate::reply::{Chunks, Reply, ReplyBody};
use crate::scope::Scope;
use crate::{WatchMeter, render, table, wire};

/// Events that are ready at once are sent in one chunk, up to this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// The last bookmark comes this long before the end of a watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a watch lasts that asked for more than the clock can count.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Before each event in protobuf stands its length.
const PROTO_LENGTH_BYTES: usize = 4;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

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
    let part = storage.cache.part(storage.range(&scope.call.info.namespace), &options.filter.fields);
    let watcher = match storage.cache.watch(part, start).await {
        Ok(watcher) => watcher,
        // Upstream begins the stream before it knows, so the failure is an event.
        Err(error) => {
            let frame = error_event(scope.accept.media, &storage.read_failed(error, "watch").into());
            return Ok(reply(scope, futures::stream::once(async move { frame })));
        }
    };
    let now = Instant::now();
    let deadline = now.checked_add(duration(scope, &options)).unwrap_or(now + LONGEST);
    let mut feed = Feed {
        scope: scope.clone(),
        filter: options.filter,
        bookmarks: options.allow_bookmarks,
        // Only a client that asked for initial events by name is told where they end.
        mark_initial: scope.call.query("sendInitialEvents").is_some(),
        watcher,
        deadline,
        timer: Box::pin(tokio::time::sleep_until(deadline)),
        due: deadline,
        timed: None,
        one_by_one: is_websocket(&scope.call.headers),
        first: true,
        over: false,
        by_webhook: storage.codec.converts_by_webhook(),
        converting: None,
        withdrawn: scope.resource.is_custom().then(|| scope.resource.withdrawn.wait().boxed()),
        meter: scope.api.meters.of(&scope.resource.resource),
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
    Reply::new(StatusCode::OK, content_type, ReplyBody::Stream { chunks, estimate: 0 })
}

/// A message for each event, without the length that frames protobuf on other connections.
fn as_messages(scope: &Scope, chunks: Chunks) -> Reply {
    let media = scope.accept.media;
    let refused = |code: StatusCode, text: &'static str| {
        Reply::new(code, "text/plain; charset=utf-8", ReplyBody::Ready(Bytes::from_static(text.as_bytes())))
    };
    let handshake = match Handshake::read(&scope.call.method, &scope.call.headers) {
        Ok(handshake) => handshake,
        Err(why) => return refused(why.code, why.text),
    };
    // As upstream's WebSocket server: a page that asks must say where it comes from.
    if scope.call.header("origin").parse::<http::Uri>().is_err() {
        return refused(StatusCode::FORBIDDEN, "");
    }
    let protocol = match handshake.protocols.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        _ => return refused(StatusCode::BAD_REQUEST, ""),
    };
    let Some(upgrade) = scope.take_body().take_upgrade() else {
        return refused(StatusCode::BAD_REQUEST, "not websocket protocol");
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

/// How long the watch may last: as asked, or a random time so that clients do not all come back at once.
fn duration(scope: &Scope, options: &ListOptions) -> Duration {
    match options.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
        Some(seconds) => Duration::from_secs(seconds),
        None => {
            let least = scope.api.limits.watch_min_timeout;
            let spread = u64::from(scope.api.clock.now().nanos) % 1000;
            least + least * u32::try_from(spread).unwrap_or(0) / 1000
        }
    }
}

/// One client's stream.
struct Feed {
    scope: Arc<Scope>,
    filter: Filter,
    bookmarks: bool,
    mark_initial: bool,
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
    /// No event has been sent yet: tables carry their columns once.
    first: bool,
    over: bool,
    /// A conversion webhook is called for each event.
    by_webhook: bool,
    /// Events whose objects the webhook is converting. Nothing else is sent before them.
    converting: Option<BoxFuture<'static, Converted>>,
    /// Ends the watch when the custom resource is no longer served, or has another definition; built-in ones always are.
    withdrawn: Option<BoxFuture<'static, ()>>,
    meter: Arc<WatchMeter>,
}

/// Events, and the outcome of their conversion.
type Converted = (Vec<Item>, Result<Prepared, registry::Error>);

/// What is sent next. A single event, which is the rule, is passed on as it is and not copied.
#[derive(Default)]
struct Chunk {
    whole: Bytes,
    joined: BytesMut,
}

impl Chunk {
    fn len(&self) -> usize {
        self.whole.len() + self.joined.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, bytes: Bytes) {
        if self.is_empty() {
            self.whole = bytes;
        } else {
            self.buffer().extend_from_slice(&bytes);
        }
    }

    /// Where more can be written.
    fn buffer(&mut self) -> &mut BytesMut {
        if !self.whole.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.whole));
        }
        &mut self.joined
    }

    fn finish(self) -> Bytes {
        if self.whole.is_empty() { self.joined.freeze() } else { self.whole }
    }
}

/// Polled by hand: a server has thousands of these, and every change may go through many of them.
impl Stream for Feed {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut out = Chunk::default();
        while out.is_empty() {
            if self.over {
                return Poll::Ready(None);
            }
            if let Some(converting) = &mut self.converting {
                match converting.poll_unpin(cx) {
                    Poll::Pending => ready!(self.poll_timer(cx, &mut out)),
                    Poll::Ready(converted) => self.write_converted(converted, &mut out),
                }
                continue;
            }
            match self.watcher.poll_next(cx) {
                Poll::Pending => ready!(self.poll_timer(cx, &mut out)),
                Poll::Ready(Err(error)) => self.fail(error, &mut out),
                Poll::Ready(Ok(item)) if self.by_webhook => self.convert(item),
                Poll::Ready(Ok(item)) => self.write(item, &mut out),
            }
            // Whatever else is ready goes into the same chunk.
            while out.len() < CHUNK_BYTES
                && !self.one_by_one
                && !self.over
                && self.converting.is_none()
                && let Some(item) = self.watcher.try_next()
            {
                self.write(item, &mut out);
            }
        }
        Poll::Ready(Some(out.finish()))
    }
}

/// Events that are converted by one call of a webhook.
const CONVERTED_MAX: usize = 500;

impl Feed {
    /// Begins to convert an event's objects, and those of all events that are there already.
    fn convert(&mut self, first: Item) {
        let Some(storage) = self.scope.resource.storage.clone() else { return };
        let mut items = vec![first];
        while items.len() < CONVERTED_MAX
            && let Some(item) = self.watcher.try_next()
        {
            items.push(item);
        }
        self.converting = Some(
            async move {
                let objects = items.iter().flat_map(|item| match item {
                    Item::Initial(object) => [Some(object), None],
                    Item::InitialDone(_) => [None, None],
                    Item::Event(event) => [event.object.as_ref(), event.previous.as_ref()],
                });
                let bytes: Vec<Bytes> = objects.flatten().map(|object| object.value().clone()).collect();
                let prepared = storage.prepare(bytes.iter()).await;
                (items, prepared)
            }
            .boxed(),
        );
    }

    fn write_converted(&mut self, (items, prepared): Converted, out: &mut Chunk) {
        self.converting = None;
        match prepared {
            Ok(_prepared) => {
                for item in items {
                    if !self.over {
                        self.write(item, out);
                    }
                }
            }
            Err(error) => {
                out.push(error_event(self.scope.accept.media, &error.into()));
                self.over = true;
            }
        }
    }
}

impl Feed {
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
        if revision > 0 && self.converting.is_none() {
            self.bookmark(revision, false, out);
        }
        Poll::Ready(())
    }

    fn set_timer(&mut self) {
        let next = if self.bookmarks { self.next_bookmark(Instant::now()) } else { None };
        self.due = next.unwrap_or(self.deadline);
        self.timed = None;
        self.timer.as_mut().reset(self.due);
    }

    /// From time to time, and once more before the end, so that the client can go on from there.
    fn next_bookmark(&self, now: Instant) -> Option<Instant> {
        let last = self.deadline.checked_sub(LAST_BOOKMARK)?;
        Some(last.min(now + self.scope.api.limits.bookmark_interval)).filter(|next| *next > now)
    }

    fn fail(&mut self, error: cache::Error, out: &mut Chunk) {
        let status = match &self.scope.resource.storage {
            Some(storage) => storage.read_failed(error, "watch").into(),
            None => Status::internal(error),
        };
        out.push(error_event(self.scope.accept.media, &status));
        self.over = true;
    }

    fn write(&mut self, item: Item, out: &mut Chunk) {
        match item {
            Item::Initial(object) => {
                if self.matches(&object) {
                    let before = out.len();
                    self.event("ADDED", &object, object.revision(), out);
                    self.meter.record(out.len() - before);
                }
            }
            Item::InitialDone(revision) => {
                if self.mark_initial && self.bookmarks {
                    self.bookmark(revision, true, out);
                }
            }
            Item::Event(event) => {
                if let Some((kind, object)) = self.classify(&event) {
                    self.change(kind, &event, object, out);
                }
            }
        }
    }

    /// Sends a change. All watches of the same form share its encoded bytes.
    fn change(&mut self, kind: &'static str, event: &Event, object: &Arc<Object>, out: &mut Chunk) {
        let partial = match &self.scope.accept.transform {
            Transform::None => false,
            Transform::Partial(version) | Transform::PartialList(version) if version == "v1" => true,
            // Tables differ from watcher to watcher: the first event of each has the columns.
            _ => return self.event(kind, object, event.revision, out),
        };
        let key = render::frame_key(&self.scope.resource, self.scope.accept.media, kind, partial);
        let frame = event.frame(key, || {
            let mut frame = Chunk::default();
            self.event(kind, object, event.revision, &mut frame);
            // A failure ended the watch and was written out; it is not for others.
            if self.over { Err(frame.finish()) } else { Ok(frame.finish()) }
        });
        let (Ok(bytes) | Err(bytes)) = frame;
        self.meter.record(bytes.len());
        out.push(bytes);
    }

    /// What a change is to this client: an object that begins to match is added, one that no longer does is deleted.
    fn classify<'e>(&self, event: &'e Event) -> Option<(&'static str, &'e Arc<Object>)> {
        let now = event.object.as_ref().filter(|object| self.matches(object));
        let before = event.previous.as_ref().filter(|object| self.matches(object));
        match (now, before) {
            (Some(object), None) => Some(("ADDED", object)),
            (Some(object), Some(_)) => Some(("MODIFIED", object)),
            (None, Some(object)) => Some(("DELETED", object)),
            (None, None) => None,
        }
    }

    fn matches(&self, object: &Object) -> bool {
        self.filter.is_everything()
            || self.scope.resource.storage.as_ref().is_some_and(|storage| storage.matches(object, &self.filter))
    }

    fn event(&mut self, kind: &'static str, object: &Object, revision: Revision, out: &mut Chunk) {
        let resource = &self.scope.resource;
        let media = self.scope.accept.media;
        let encoded = match &self.scope.accept.transform {
            Transform::None => render::body(resource, object, revision, media).map(|body| {
                let mut whole = BytesMut::with_capacity(body.len() + 64);
                render::with_type(resource, &body, media, &mut whole);
                whole.freeze()
            }),
            Transform::Table(version) => self.transformed(object, revision, |stored| {
                let kind = GroupVersionKind::new("meta.k8s.io", "v1", "Table");
                Ok((kind, table::of_event(&self.scope, version, stored, self.first)?))
            }),
            Transform::Partial(version) | Transform::PartialList(version) => {
                self.transformed(object, revision, |stored| {
                    let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
                    Ok((kind, table::partial(&self.scope, stored, version)))
                })
            }
        };
        self.first = false;
        match encoded {
            Ok(bytes) => wire::watch_event(media, kind, &bytes, out.buffer()),
            Err(status) => {
                out.push(error_event(self.scope.accept.media, &status));
                self.over = true;
            }
        }
    }

    fn transformed(
        &self,
        object: &Object,
        revision: Revision,
        change: impl FnOnce(&Value) -> Result<(GroupVersionKind, Value), Status>,
    ) -> Result<Bytes, Status> {
        let storage = self.scope.storage()?;
        let stored = registry::at_revision(storage.decode_entry(object.entry())?, revision);
        let (kind, value) = change(&stored)?;
        Ok(self.encode(&kind, &value))
    }

    fn encode(&self, kind: &GroupVersionKind, value: &Value) -> Bytes {
        encode(self.scope.accept.media, kind, value)
    }

    /// Tells the client how far it is without telling it anything else.
    fn bookmark(&mut self, revision: Revision, initial_end: bool, out: &mut Chunk) {
        let resource = &self.scope.resource;
        let mut mark = Value::map();
        mark.set_type(&resource.kind);
        mark.set_meta_str("resourceVersion", &revision.to_string());
        if initial_end {
            mark.set_annotation(INITIAL_EVENTS_END, "true");
        }
        let media = self.scope.accept.media;
        let bytes = match &self.scope.accept.transform {
            Transform::Table(version) => {
                let mut table = Map::new();
                table.insert("kind", "Table");
                table.insert("apiVersion", format!("meta.k8s.io/{version}"));
                let mut metadata = Map::new();
                metadata.insert("resourceVersion", revision.to_string());
                table.insert("metadata", metadata);
                table.insert("columnDefinitions", Value::Null);
                let mut row = Map::new();
                row.insert("cells", Value::Null);
                row.insert("object", table::partial(&self.scope, &mark, version));
                table.insert("rows", vec![Value::Map(row)]);
                self.encode(&GroupVersionKind::new("meta.k8s.io", "v1", "Table"), &Value::Map(table))
            }
            Transform::Partial(version) | Transform::PartialList(version) => {
                let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
                self.encode(&kind, &table::partial(&self.scope, &mark, version))
            }
            Transform::None => {
                let body = render::encode_body(resource, mark, media);
                let mut whole = BytesMut::new();
                render::with_type(resource, &body, media, &mut whole);
                whole.freeze()
            }
        };
        wire::watch_event(media, "BOOKMARK", &bytes, out.buffer());
    }
}

fn error_event(media: Media, status: &Status) -> Bytes {
    let bytes = encode(media, &GroupVersionKind::new("", "v1", "Status"), &status.to_value());
    let mut out = BytesMut::new();
    wire::watch_event(media, "ERROR", &bytes, &mut out);
    out.freeze()
}

/// An object without its trailing newline.
fn encode(media: Media, kind: &GroupVersionKind, value: &Value) -> Bytes {
    let accept = crate::Accept::plain(if media == Media::Yaml { Media::Json } else { media }, false);
    let bytes = crate::encode_value(&accept, kind, value);
    match bytes.last() {
        Some(b'\n') if accept.media == Media::Json => bytes.slice(..bytes.len() - 1),
        _ => bytes,
    }
}
