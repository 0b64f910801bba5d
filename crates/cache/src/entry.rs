//! What the cache holds: objects and events.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use object::Str;
use storage::{Entry, Key, Revision};

use crate::renditions::{Budget, RenditionKey, Renditions};

/// A stored object. It never changes and is shared by the state, the ring and every response that sends it.
#[derive(Debug)]
pub struct Object {
    entry: Arc<Entry>,
    /// Boxed because most objects are never looked at by a filter.
    header: OnceLock<Box<Header>>,
    /// The value of the indexed field; None if the object is unreadable.
    indexed: OnceLock<Option<Str>>,
    renditions: Renditions,
}

/// What filters need to know about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The namespace, "" for cluster-wide objects.
    pub namespace: Str,
    /// The name of the object.
    pub name: Str,
    /// A hash of `metadata.uid`, by which lists and watches are divided among clients.
    pub uid_hash: u64,
    /// Sorted by key.
    pub labels: Vec<(Str, Str)>,
    /// Selectable fields besides metadata.name and metadata.namespace.
    pub fields: Vec<(Str, Str)>,
    /// The object cannot be decoded, so the other fields are empty and every filter matches.
    pub unreadable: bool,
}

/// Derives a header from what is stored.
pub trait Describe: Send + Sync + 'static {
    /// The header of an entry.
    fn describe(&self, entry: &Entry) -> Header;

    /// The value of one selectable field, whose name is its path; None if the object is unreadable. Every object of a resource
    /// with an index is asked for it.
    fn indexed(&self, entry: &Entry, field: &Str) -> Option<Str> {
        let header = self.describe(entry);
        (!header.unreadable).then(|| header.field(field).unwrap_or_default().into())
    }
}

impl Object {
    pub(crate) fn new(entry: Arc<Entry>, renditions: Renditions) -> Object {
        Object { entry, header: OnceLock::new(), indexed: OnceLock::new(), renditions }
    }

    /// The key that the object is stored under.
    pub fn key(&self) -> &Key {
        &self.entry.key
    }

    /// The bytes as stored.
    pub fn value(&self) -> &Bytes {
        &self.entry.value
    }

    /// The object as the store has it.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The revision that wrote this state.
    pub fn revision(&self) -> Revision {
        self.entry.mod_revision
    }

    /// Whether this is the object of an entry: the same revision, and decrypted alike.
    pub(crate) fn is_of(&self, entry: &Entry) -> bool {
        self.entry.mod_revision == entry.mod_revision && self.entry.condition == entry.condition
    }

    /// The header, which is derived from the bytes when it is first asked for.
    pub fn header(&self, describe: &dyn Describe) -> &Header {
        self.header.get_or_init(|| Box::new(describe.describe(&self.entry)))
    }

    /// Whether its header was asked for before.
    pub fn is_described(&self) -> bool {
        self.header.get().is_some()
    }

    /// The value of the field that the cache has an index for; None if the object is unreadable.
    pub(crate) fn indexed(&self, describe: &dyn Describe, field: &Str) -> Option<&str> {
        self.indexed.get_or_init(|| describe.indexed(&self.entry, field)).as_deref()
    }

    /// Another encoding of this object, built at most once while the budget lasts.
    pub fn rendition<E>(&self, key: RenditionKey, build: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        if let Some(bytes) = self.kept_rendition(key) {
            return Ok(bytes);
        }
        let bytes = build()?;
        self.keep_rendition(key, &bytes);
        Ok(bytes)
    }

    /// An encoding that was built before and is still kept.
    pub fn kept_rendition(&self, key: RenditionKey) -> Option<Bytes> {
        self.renditions.get(key)
    }

    /// Keeps an encoding that took time to build, while the budget lasts.
    pub fn keep_rendition(&self, key: RenditionKey, bytes: &Bytes) {
        self.renditions.keep(key, bytes);
    }

    /// As [`Object::rendition`], for one that is copied elsewhere.
    pub fn write_rendition<E>(
        &self,
        key: RenditionKey,
        build: impl FnOnce() -> Result<Bytes, E>,
        write: &mut dyn FnMut(&[u8]),
    ) -> Result<(), E> {
        if self.renditions.read(key, |bytes| write(bytes)).is_none() {
            let bytes = build()?;
            self.renditions.keep(key, &bytes);
            write(&bytes);
        }
        Ok(())
    }
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// The state after the change; None is a deletion.
    pub object: Option<Arc<Object>>,
    /// The state before the change, where it is known.
    pub previous: Option<Arc<Object>>,
    /// When it came from the store; None for one that was read from the log of the past.
    arrived: Option<Instant>,
    frames: Renditions,
}

impl Event {
    pub(crate) fn new(
        revision: Revision,
        object: Option<Arc<Object>>,
        previous: Option<Arc<Object>>,
        budget: Arc<Budget>,
    ) -> Event {
        Event { revision, object, previous, arrived: None, frames: Renditions::new(budget) }
    }

    pub(crate) fn arriving(self, at: Instant) -> Event {
        Event { arrived: Some(at), ..self }
    }

    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    /// The event as it is sent to watchers of one form, built at most once while the budget lasts. It is gone when the
    /// event leaves the ring.
    pub fn frame<E>(&self, key: RenditionKey, build: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        if let Some(bytes) = self.frames.get(key) {
            return Ok(bytes);
        }
        let bytes = build()?;
        self.frames.keep(key, &bytes);
        Ok(bytes)
    }

    /// The size of its objects, as stored.
    pub(crate) fn bytes(&self) -> usize {
        [&self.object, &self.previous].into_iter().flatten().map(|object| object.value().len()).sum()
    }

    /// The object the event is about.
    pub fn subject(&self) -> Option<&Arc<Object>> {
        self.object.as_ref().or(self.previous.as_ref())
    }
}

impl Header {
    /// The value a field selector compares; None if the field cannot be selected.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(&self.name),
            "metadata.namespace" => Some(&self.namespace),
            other => self.fields.iter().find(|(field, _)| field == other).map(|(_, value)| value.as_str()),
        }
    }
}
