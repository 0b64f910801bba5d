//! What a watch sends for an event: its type, its object as the client asked for it, and bookmarks between them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use cache::{Event, Item};
use object::{GroupVersionKind, Map, Meta, Status, Value};
use registry::{Filter, Readable, ResourceStorage};
use storage::Revision;

use crate::large::aside;
use crate::media::{Media, Transform};
use crate::scope::Scope;
use crate::{WatchMeter, render, table, wire};

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Writes the events of one watch.
pub struct Frames {
    pub scope: Arc<Scope>,
    pub storage: Arc<ResourceStorage>,
    pub filter: Filter,
    pub bookmarks: bool,
    /// Whether a bookmark says where the initial events end.
    pub mark_initial: bool,
    pub meter: Arc<WatchMeter>,
    /// Whether an event has been written: a watch of tables has their columns in its first event only.
    pub begun: AtomicBool,
}

/// The type of an event and the object that it shows.
type ClassifiedChange<'a> = (&'static str, Readable<'a>);

/// What is sent next. A single event, which is the rule, is passed on as it is and not copied.
#[derive(Default)]
pub struct Chunk {
    whole: Bytes,
    joined: BytesMut,
}

impl Chunk {
    pub fn len(&self) -> usize {
        self.whole.len() + self.joined.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, bytes: Bytes) {
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

    /// Whether it was put together for this watch alone.
    pub fn is_own(&self) -> bool {
        self.whole.is_empty()
    }

    pub fn finish(self) -> Bytes {
        if self.whole.is_empty() { self.joined.freeze() } else { self.whole }
    }
}

impl Frames {
    /// Appends an event, if it is one for this client. A failure is written, too, and ends the watch. `objects` are those that the
    /// event is about, as they are now and as they were before. `work` grows by what was done to find out whether it is for this
    /// client, as bytes that are read.
    pub fn write<'a>(
        &self,
        item: &Item,
        mut objects: impl Iterator<Item = Readable<'a>>,
        work: &mut usize,
        out: &mut Chunk,
    ) -> ControlFlow<()> {
        let change = match item {
            Item::InitialDone(revision) => return self.initial_done(*revision, out),
            Item::Initial(_) => self.classify(objects.next(), None, work),
            Item::Event(event) => {
                let now = event.object.as_ref().and_then(|_| objects.next());
                self.classify(now, objects.next(), work)
            }
        };
        match (change, item) {
            (Ok(Some((kind, object))), Item::Event(event)) => self.change(kind, event, object, out),
            (Ok(Some((kind, object))), _) => self.tell(kind, object, object.revision(), out),
            (Ok(None), _) => ControlFlow::Continue(()),
            (Err(status), _) => self.fail(&status, out),
        }
    }

    /// Notes that the initial events were written, and says so to clients that asked for it.
    pub fn initial_done(&self, revision: Revision, out: &mut Chunk) -> ControlFlow<()> {
        self.filter.end_of_initial();
        if self.mark_initial && self.bookmarks {
            self.bookmark(revision, true, out);
        }
        ControlFlow::Continue(())
    }

    /// Sends what no other watch is sent.
    pub fn tell(
        &self,
        kind: &'static str,
        object: Readable<'_>,
        revision: Revision,
        out: &mut Chunk,
    ) -> ControlFlow<()> {
        let before = out.len();
        let written = self.event(kind, object, revision, out);
        self.meter.record(out.len() - before);
        written
    }

    /// Appends the event that tells of a failure.
    pub fn fail(&self, status: &Status, out: &mut Chunk) -> ControlFlow<()> {
        out.push(error_event(self.scope.accept.media, status));
        ControlFlow::Break(())
    }

    /// Sends a change. All watches of the same form share its encoded bytes.
    pub fn change(&self, kind: &'static str, event: &Event, object: Readable<'_>, out: &mut Chunk) -> ControlFlow<()> {
        let partial = match &self.scope.accept.transform {
            // What one client alone asks for is not shared.
            _ if self.scope.is_projected() => return self.event(kind, object, event.revision, out),
            Transform::None => false,
            Transform::Partial(version) | Transform::PartialList(version) if version == "v1" => true,
            // Tables differ from watcher to watcher: the first event of each has the columns.
            _ => return self.event(kind, object, event.revision, out),
        };
        let key = render::frame_key(&self.scope.resource, self.scope.accept.media, kind, partial);
        let frame = event.frame(key, || {
            let mut frame = Chunk::default();
            match self.event(kind, object, event.revision, &mut frame) {
                ControlFlow::Continue(()) => Ok(frame.finish()),
                // A failure is not shared with other watches.
                ControlFlow::Break(()) => Err(frame.finish()),
            }
        });
        let (flow, bytes) = match frame {
            Ok(bytes) => (ControlFlow::Continue(()), bytes),
            Err(bytes) => (ControlFlow::Break(()), bytes),
        };
        self.meter.record(bytes.len());
        out.push(bytes);
        flow
    }

    /// What a change is to this client: an object that begins to match is added, one that no longer does is deleted.
    fn classify<'a>(
        &self,
        now: Option<Readable<'a>>,
        before: Option<Readable<'a>>,
        work: &mut usize,
    ) -> Result<Option<ClassifiedChange<'a>>, Status> {
        let mut matching = |object: Option<Readable<'a>>| -> Result<_, Status> {
            let Some(object) = object else { return Ok(None) };
            Ok(self.matches(object, work)?.then_some(object))
        };
        Ok(match (matching(now)?, matching(before)?) {
            (Some(object), None) => Some(("ADDED", object)),
            (Some(object), Some(before)) => {
                let tells = self.filter.tells_of(object, before, work)?;
                tells.then_some(("MODIFIED", object))
            }
            (None, Some(object)) => Some(("DELETED", object)),
            (None, None) => None,
        })
    }

    /// Whether an object is one for this client.
    pub fn matches(&self, object: Readable<'_>, work: &mut usize) -> Result<bool, Status> {
        if self.filter.is_everything() {
            return Ok(true);
        }
        *work += self.storage.work_of_matching(&object);
        Ok(self.storage.matches(object, &self.filter, work)?)
    }

    fn event(&self, kind: &'static str, object: Readable<'_>, revision: Revision, out: &mut Chunk) -> ControlFlow<()> {
        let resource = &self.scope.resource;
        let media = self.scope.accept.media;
        let is_first = !self.begun.load(Ordering::Relaxed);
        let encoded = match &self.scope.accept.transform {
            Transform::None => render::projected_body(&self.scope, object, revision, media).map(|body| {
                let mut whole = BytesMut::with_capacity(body.len() + 64);
                render::with_type(resource, &body, media, &mut whole);
                whole.freeze()
            }),
            Transform::Table(version) => self.transformed(object, revision, |stored| {
                let kind = GroupVersionKind::new("meta.k8s.io", "v1", "Table");
                Ok((kind, table::of_event(&self.scope, version, stored, is_first)?))
            }),
            Transform::Partial(version) | Transform::PartialList(version) => {
                self.transformed(object, revision, |stored| {
                    let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
                    Ok((kind, table::partial(&self.scope, stored, version)))
                })
            }
        };
        if is_first {
            self.begun.store(true, Ordering::Relaxed);
        }
        match encoded {
            Ok(bytes) => {
                wire::watch_event(media, kind, &bytes, out.buffer());
                ControlFlow::Continue(())
            }
            Err(status) => self.fail(&status, out),
        }
    }

    fn transformed(
        &self,
        object: Readable<'_>,
        revision: Revision,
        change: impl FnOnce(&Value) -> Result<(GroupVersionKind, Value), Status>,
    ) -> Result<Bytes, Status> {
        aside(object.value().len(), || {
            let stored = registry::at_revision(self.storage.decode(object)?, revision);
            let (kind, value) = change(&stored)?;
            Ok(encode(self.scope.accept.media, &kind, &value))
        })
    }

    /// Tells the client how far it is without telling it anything else.
    pub fn bookmark(&self, revision: Revision, initial_end: bool, out: &mut Chunk) {
        bookmark(&self.scope, revision, initial_end, out.buffer());
    }
}

/// Writes an event that says how far the client is, and perhaps that the initial events end here.
pub fn bookmark(scope: &Scope, revision: Revision, initial_end: bool, out: &mut BytesMut) {
    let resource = &scope.resource;
    let mut mark = Value::map();
    mark.set_type(&resource.kind);
    mark.set_meta_str("resourceVersion", &revision.to_string());
    if initial_end {
        mark.set_annotation(INITIAL_EVENTS_END, "true");
    }
    let media = scope.accept.media;
    let bytes = match &scope.accept.transform {
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
            row.insert("object", table::metadata(scope, &mark, version));
            table.insert("rows", vec![Value::Map(row)]);
            encode(media, &GroupVersionKind::new("meta.k8s.io", "v1", "Table"), &Value::Map(table))
        }
        Transform::Partial(version) | Transform::PartialList(version) => {
            let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
            encode(media, &kind, &table::metadata(scope, &mark, version))
        }
        Transform::None => {
            let body = render::encode_body(resource, mark, media);
            let mut whole = BytesMut::new();
            render::with_type(resource, &body, media, &mut whole);
            whole.freeze()
        }
    };
    wire::watch_event(media, "BOOKMARK", &bytes, out);
}

pub fn error_event(media: Media, status: &Status) -> Bytes {
    let bytes = encode(media, &GroupVersionKind::new("", "v1", "Status"), &status.to_value());
    let mut out = BytesMut::new();
    wire::watch_event(media, "ERROR", &bytes, &mut out);
    out.freeze()
}

/// An object without its trailing newline.
pub fn encode(media: Media, kind: &GroupVersionKind, value: &Value) -> Bytes {
    let accept = crate::Accept::plain(if media == Media::Yaml { Media::Json } else { media }, false);
    let bytes = crate::encode_value(&accept, kind, value);
    match bytes.last() {
        Some(b'\n') if accept.media == Media::Json => bytes.slice(..bytes.len() - 1),
        _ => bytes,
    }
}
