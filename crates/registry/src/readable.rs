//! [`Readable`]: a stored object that can be decoded. Where a webhook converts the objects of a resource, it was asked before, for
//! any number of them at once, and what it answered is at hand. Nothing else can be decoded.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use cache::Object;
use object::{Meta, Str, Value};
use storage::Entry;

use crate::{Error, ResourceStorage, Unreadable};

/// No more objects are converted at once, nor of more bytes: what a webhook answers is in memory until it was encoded.
const BATCH_OBJECTS_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// The beginning of an encrypted value, whatever it is encrypted with.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// Converted objects are kept beside the encodings that clients get, under keys that have this bit.
const CONVERTED_KEY: u64 = 1 << 63;

/// The object that a webhook made, in CBOR, or why it made none.
type ConvertedBytes = Result<Bytes, String>;

/// Objects of one resource that can be decoded; `O` holds them.
#[derive(Default)]
pub struct Readables<O> {
    objects: O,
    /// The answers of a webhook, one for each; empty where none converts objects of the resource.
    converted: Vec<Option<ConvertedBytes>>,
}

/// One of them.
#[derive(Clone, Copy)]
pub struct Readable<'a> {
    object: &'a Arc<Object>,
    converted: Option<&'a ConvertedBytes>,
}

impl<O: AsRef<[Arc<Object>]>> Readables<O> {
    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Readable<'_>> {
        (0..self.objects.as_ref().len()).filter_map(|at| self.get(at))
    }

    /// The object in this place.
    pub fn get(&self, at: usize) -> Option<Readable<'_>> {
        let object = self.objects.as_ref().get(at)?;
        Some(Readable { object, converted: self.converted.get(at).and_then(Option::as_ref) })
    }

    /// The objects as they are stored.
    pub fn objects(&self) -> &[Arc<Object>] {
        self.objects.as_ref()
    }
}

impl Readables<[Arc<Object>; 1]> {
    /// The only one.
    pub fn only(&self) -> Readable<'_> {
        let [object] = &self.objects;
        Readable { object, converted: self.converted.first().and_then(Option::as_ref) }
    }
}

impl<'a> Readable<'a> {
    /// The object as it is stored.
    pub fn object(self) -> &'a Arc<Object> {
        self.object
    }
}

impl Deref for Readable<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object
    }
}

/// Objects that are made readable some at a time, so that what a webhook makes of them is never in memory as a whole.
pub struct ReadableBatches<'a> {
    storage: &'a ResourceStorage,
    rest: &'a [Arc<Object>],
}

impl<'a> ReadableBatches<'a> {
    /// The next batch; None at the end.
    pub async fn next(&mut self) -> Option<Readables<&'a [Arc<Object>]>> {
        let (batch, rest) = self.rest.split_at_checked(self.storage.batch_len(self.rest))?;
        self.rest = rest;
        if batch.is_empty() { None } else { Some(self.storage.prepare(batch).await) }
    }

    /// The objects that follow.
    pub fn rest(&self) -> &'a [Arc<Object>] {
        self.rest
    }
}

impl ResourceStorage {
    /// Makes objects readable: where a webhook converts them, it is asked for all that it has not converted lately.
    pub async fn prepare<O: AsRef<[Arc<Object>]>>(&self, objects: O) -> Readables<O> {
        let converted = match self.codec.converts_by_webhook() {
            true => Box::pin(self.converted(objects.as_ref())).await,
            false => Vec::new(),
        };
        Readables { objects, converted }
    }

    /// Makes objects readable batch by batch.
    pub fn batches<'a>(&'a self, objects: &'a [Arc<Object>]) -> ReadableBatches<'a> {
        ReadableBatches { storage: self, rest: objects }
    }

    /// How many of these objects are made readable at once: all of them, where no webhook converts them.
    pub fn batch_len(&self, objects: &[Arc<Object>]) -> usize {
        if !self.codec.converts_by_webhook() {
            return objects.len();
        }
        let mut bytes = 0;
        let enough = objects.iter().position(|object| {
            bytes += object.value().len();
            bytes >= BATCH_BYTES_MAX
        });
        enough.map_or(objects.len(), |last| last + 1).min(BATCH_OBJECTS_MAX)
    }

    async fn converted(&self, objects: &[Arc<Object>]) -> Vec<Option<ConvertedBytes>> {
        let key = CONVERTED_KEY | self.id;
        let mut all: Vec<_> = objects.iter().map(|object| object.kept_rendition(key).map(Ok)).collect();
        let missing = all.iter_mut().zip(objects).filter(|(known, _)| known.is_none());
        let (places, missing): (Vec<_>, Vec<_>) = missing.unzip();
        let stored: Vec<Bytes> = missing.iter().map(|object| object.value().clone()).collect();
        let answers = self.codec.0.converted(&stored).await;
        for ((place, object), answer) in places.into_iter().zip(missing).zip(answers) {
            *place = answer.map(|answer| {
                let mut converted = Vec::new();
                codec::cbor::encode(&answer?, None, &mut converted).map_err(|error| error.to_string())?;
                let converted = Bytes::from(converted);
                object.keep_rendition(key, &converted);
                Ok(converted)
            });
        }
        all
    }

    /// The object that is stored there.
    pub fn read(&self, object: Readable<'_>) -> Result<Value, Unreadable> {
        self.read_with(object.entry(), |bytes| match object.converted {
            None => self.codec.0.decode(bytes),
            Some(Ok(converted)) => {
                codec::cbor::decode(converted, None, &mut codec::Notes::ignore()).map_err(|error| error.to_string())
            }
            Some(Err(why)) => Err(why.clone()),
        })
    }

    /// Like `read`, with the error that reads of the object fail with.
    pub fn decode(&self, object: Readable<'_>) -> Result<Value, Error> {
        self.read(object).map_err(|why| self.unreadable(object.entry(), why))
    }

    /// Makes one object readable and reads it.
    pub async fn load(&self, object: &Arc<Object>) -> Result<Value, Unreadable> {
        self.read(self.prepare([object.clone()]).await.only())
    }

    fn read_with(
        &self,
        entry: &Entry,
        decode: impl FnOnce(&Bytes) -> Result<Value, String>,
    ) -> Result<Value, Unreadable> {
        let sealed = |why: &str| {
            Unreadable::Sealed(match self.names_unreadable {
                true => format!("data from the storage is not transformable revision=0: {why}"),
                false => why.to_string(),
            })
        };
        if let Some(why) = entry.sealed() {
            return Err(sealed(why));
        }
        if entry.value.starts_with(ENCRYPTED) {
            return Err(sealed("identity transformer tried to read encrypted data"));
        }
        let mut object = decode(&entry.value).map_err(|why| {
            Unreadable::Undecodable(match self.names_unreadable {
                true => format!("object not decodable revision={}: {why}", entry.mod_revision),
                false => why,
            })
        })?;
        object.set_meta_str("resourceVersion", &entry.mod_revision.to_string());
        Ok(object)
    }

    /// This storage for readers that cannot wait; None where a webhook converts the objects.
    pub fn direct(self: &Arc<Self>) -> Option<DirectStorage> {
        (!self.codec.converts_by_webhook()).then(|| DirectStorage(self.clone()))
    }
}

/// The storage of a resource whose objects no webhook converts, so that they are decoded without waiting.
#[derive(Clone)]
pub struct DirectStorage(Arc<ResourceStorage>);

impl Deref for DirectStorage {
    type Target = Arc<ResourceStorage>;

    fn deref(&self) -> &Arc<ResourceStorage> {
        &self.0
    }
}

impl DirectStorage {
    /// Every object of the resource is readable.
    pub fn ready<'a>(&self, object: &'a Arc<Object>) -> Readable<'a> {
        Readable { object, converted: None }
    }

    /// The object that is stored there.
    pub fn read_entry(&self, entry: &Entry) -> Result<Value, Unreadable> {
        self.read_with(entry, |bytes| self.codec.0.decode(bytes))
    }

    /// Like `read_entry`, with the error that reads of the object fail with.
    pub fn decode_entry(&self, entry: &Entry) -> Result<Value, Error> {
        self.read_entry(entry).map_err(|why| self.unreadable(entry, why))
    }

    /// Reads at least what is at these paths.
    pub fn read_paths(&self, entry: &Entry, paths: &[Str]) -> Result<Value, Unreadable> {
        self.read_with(entry, |bytes| self.codec.0.decode_paths(bytes, paths))
    }
}
