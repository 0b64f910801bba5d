//! [`ResourceStorage`]: where the objects of one resource live, in whatever version they are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use cache::{Cache, Describe, Header, Object};
use object::{GroupResource, GroupVersion, GroupVersionKind, Meta, Status, Str, Value, labels};
use schema::Schema;
use storage::{Entry, Key, KeyRange, Revision, Store};

use crate::{Error, Pace, Shard, Strategy, Unreadable, shard};

/// The stored side of a resource: one for all its served versions.
#[derive(Clone)]
pub struct ResourceStorage {
    /// Tells storages apart, also those that follow one another for one resource with another schema.
    pub id: u64,
    pub resource: GroupResource,
    /// The kind in the version that is stored.
    pub kind: GroupVersionKind,
    pub namespaced: bool,
    pub strategy: Arc<dyn Strategy>,
    pub codec: Arc<dyn StoredCodec>,
    pub store: Arc<dyn Store>,
    pub cache: Arc<Cache>,
    /// All keys begin with it: `/registry/pods/`.
    pub prefix: String,
    /// How much of it all resources have in common: `/registry`.
    pub root: usize,
}

/// Looking at an object whose header is known costs about as much as reading so many bytes.
const HEADER_BYTES: usize = 64;

/// What an encrypted value begins with, whatever it is encrypted with.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Turns objects of the storage version into stored bytes and back.
#[async_trait]
pub trait StoredCodec: Send + Sync + 'static {
    fn encode(&self, object: &Value) -> Result<Bytes, String>;
    /// Decodes, converts to the storage version if the bytes are of another one, and applies defaults.
    fn decode(&self, bytes: &Bytes) -> Result<Value, String>;

    /// What decoding gives after an object was encoded, where that is known without doing it.
    fn as_decoded(&self, _object: Value) -> Option<Value> {
        None
    }

    /// Whether a webhook converts between the stored version and this one. Then `decode` and `encode` only know what was
    /// prepared before.
    fn converts_by_webhook(&self) -> bool {
        false
    }

    /// Calls the conversion webhook for all that is not in this version, so that `decode` can go on without waiting. What the
    /// webhook does not convert is an error of `decode`.
    async fn prepare(&self, _stored: &[Bytes]) -> Prepared {
        Prepared::default()
    }

    /// Calls the conversion webhook for an object that is to be stored, so that `encode` can go on without waiting.
    async fn prepare_write(&self, _object: &Value) -> Prepared {
        Prepared::default()
    }

    /// An object of one version of the kind in another one, as it would be read in that version.
    async fn convert(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        Err(format!("{} is not converted to {to} here", object.api_version()))
    }

    /// The same with the fields that the other version does not have, as managed fields are compared.
    async fn convert_unpruned(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        self.convert(object, to).await
    }

    /// The schema of the kind in a version that its definition has, served or not.
    fn schema_in(&self, _version: &str) -> Option<Schema<'_>> {
        None
    }

    /// The string at a path (`spec.nodeName`) that has no default; "" if there is none.
    fn text_at(&self, bytes: &Bytes, path: &Str) -> Result<Str, String> {
        Ok(text_at(&self.decode(bytes)?, path))
    }

    /// Decodes at least what is at these paths.
    fn decode_paths(&self, bytes: &Bytes, _paths: &[Str]) -> Result<Value, String> {
        self.decode(bytes)
    }
}

/// What a conversion webhook answered, which is known for as long as this lives.
#[derive(Debug, Default)]
#[must_use = "what was prepared is forgotten when this is dropped"]
pub struct Prepared(Vec<Arc<Result<Value, String>>>);

impl Prepared {
    pub fn new(converted: Vec<Arc<Result<Value, String>>>) -> Prepared {
        Prepared(converted)
    }

    pub fn join(&mut self, other: Prepared) {
        self.0.extend(other.0);
    }
}

impl ResourceStorage {
    /// An id that no other storage of this process has.
    pub fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// The same storage as another group serves it: its messages name the resource as that group does.
    pub fn served_as(self: Arc<ResourceStorage>, resource: &GroupResource) -> Arc<ResourceStorage> {
        if self.resource == *resource {
            return self;
        }
        Arc::new(ResourceStorage { resource: resource.clone(), ..(*self).clone() })
    }

    pub fn key(&self, namespace: &str, name: &str) -> Key {
        let key = match (self.namespaced, namespace) {
            (true, namespace) => format!("{}{namespace}/{name}", self.prefix),
            (false, _) => format!("{}{name}", self.prefix),
        };
        key.into()
    }

    /// Everything, or everything of a namespace.
    pub fn range(&self, namespace: &str) -> KeyRange {
        if self.namespaced && !namespace.is_empty() {
            KeyRange::prefix(format!("{}{namespace}/", self.prefix))
        } else {
            KeyRange::prefix(self.prefix.clone())
        }
    }

    /// The object that is stored there.
    pub fn read(&self, entry: &Entry) -> Result<Value, Unreadable> {
        let sealed =
            |why: &str| Unreadable::Sealed(format!("data from the storage is not transformable revision=0: {why}"));
        if let Some(why) = entry.sealed() {
            return Err(sealed(why));
        }
        if entry.value.starts_with(ENCRYPTED) {
            return Err(sealed("identity transformer tried to read encrypted data"));
        }
        let mut object = self.codec.decode(&entry.value).map_err(|why| {
            Unreadable::Undecodable(format!("object not decodable revision={}: {why}", entry.mod_revision))
        })?;
        object.set_meta_str("resourceVersion", &entry.mod_revision.to_string());
        Ok(object)
    }

    /// The object that is stored there, which the conversion webhook converts where there is one.
    pub async fn load(&self, entry: &Entry) -> Result<Value, Unreadable> {
        let _prepared = self.prepare(std::iter::once(&entry.value)).await;
        self.read(entry)
    }

    /// Like `read`, with the error that reads of the object fail with.
    pub fn decode_entry(&self, entry: &Entry) -> Result<Value, Error> {
        self.read(entry).map_err(|why| self.unreadable(entry, why))
    }

    /// The error that reads of an object fail with.
    pub fn unreadable(&self, entry: &Entry, why: Unreadable) -> Error {
        let key = entry.key.to_string();
        tracing::error!(key, %why, "a stored object cannot be read");
        Error::Unreadable { key: self.below_root(&key).to_string(), why }
    }

    /// The key without the prefix that all resources share, as upstream's errors show it.
    pub(crate) fn below_root<'k>(&self, key: &'k str) -> &'k str {
        key.get(self.root..).unwrap_or(key)
    }

    /// The bytes to store: without what the store itself knows.
    pub(crate) fn encode(&self, object: &mut Value) -> Result<Bytes, Error> {
        object.set_type(&self.kind);
        object.metadata_mut().remove("selfLink");
        let revision = object.metadata_mut().remove("resourceVersion");
        let bytes = self.codec.encode(object).map_err(Error::Failed);
        // Copying everything just to leave this out would cost more than all the rest.
        if let Some(revision) = revision {
            object.metadata_mut().insert("resourceVersion", revision);
        }
        bytes
    }

    /// Calls the conversion webhook for all of these objects at once, where there is one.
    pub async fn prepare(&self, objects: impl Iterator<Item = &Bytes>) -> Prepared {
        if !self.codec.converts_by_webhook() {
            return Prepared::default();
        }
        let stored: Vec<Bytes> = objects.cloned().collect();
        self.codec.prepare(&stored).await
    }

    /// The bytes to store, and what they will be read as. Clients get what is stored, which is not always what was sent: an
    /// empty list, for one, has no stored form.
    pub(crate) async fn encoded(&self, mut object: Value, revision: Revision) -> Result<(Bytes, Value), Error> {
        let bytes = self.to_bytes(&mut object).await?;
        let _prepared = self.prepare(std::iter::once(&bytes)).await;
        let stored = match self.codec.as_decoded(object) {
            Some(stored) => Ok(stored),
            None => self.codec.decode(&bytes).map_err(Status::internal),
        };
        let mut stored = stored?;
        stored.set_meta_str("resourceVersion", &revision.to_string());
        Ok((bytes, stored))
    }

    /// The bytes to store, converted by the webhook where there is one.
    pub(crate) async fn to_bytes(&self, object: &mut Value) -> Result<Bytes, Error> {
        if !self.codec.converts_by_webhook() {
            return self.encode(object);
        }
        // The webhook sees what is stored, which has no resourceVersion.
        let revision = object.metadata_mut().remove("resourceVersion");
        object.set_type(&self.kind);
        object.metadata_mut().remove("selfLink");
        let _prepared = self.codec.prepare_write(object).await;
        let bytes = self.encode(object);
        if let Some(revision) = revision {
            object.metadata_mut().insert("resourceVersion", revision);
        }
        bytes
    }

    /// Keeps the first objects that a filter is about, no more than `most`, and lets other tasks run meanwhile. Fields are
    /// selected as the requested version has them.
    pub async fn select(
        &self,
        objects: &mut Vec<Arc<Object>>,
        filter: &Filter,
        most: usize,
    ) -> Result<Prepared, Error> {
        if filter.is_everything() {
            objects.truncate(most);
            return Ok(Prepared::default());
        }
        let is_converted = self.selects_converted(filter);
        let prepared = match is_converted {
            true => self.prepare(objects.iter().map(|object| object.value())).await,
            false => Prepared::default(),
        };
        let mut pace = Pace::begin();
        let mut selected = Vec::new();
        for object in std::mem::take(objects) {
            let work = if is_converted { object.value().len() } else { self.work_of_matching(&object) };
            if self.is_selected(&object, filter, is_converted) {
                selected.push(object);
                if selected.len() == most {
                    break;
                }
            }
            pace.worked(work).await;
        }
        *objects = selected;
        Ok(prepared)
    }

    /// Whether a filter is about an object, which was prepared if a webhook converts it.
    pub fn matches(&self, object: &Object, filter: &Filter) -> bool {
        filter.is_everything() || self.is_selected(object, filter, self.selects_converted(filter))
    }

    /// The work of looking whether a filter is about an object, as bytes that are read.
    pub fn work_of_matching(&self, object: &Object) -> usize {
        if object.is_described() { HEADER_BYTES } else { HEADER_BYTES + object.value().len() }
    }

    fn is_selected(&self, object: &Object, filter: &Filter, is_converted: bool) -> bool {
        if !is_converted {
            return filter.matches(object.header(self.cache.describe()));
        }
        match self.read(object.entry()) {
            Ok(object) => filter.matches(&header(&*self.strategy, &object)),
            // Lists and watches say that it cannot be read.
            Err(_) => true,
        }
    }

    /// Whether a filter looks at fields that only a conversion webhook knows in this version.
    fn selects_converted(&self, filter: &Filter) -> bool {
        let selectable = self.strategy.selectable_fields();
        let mut fields = filter.fields.fields();
        self.codec.converts_by_webhook() && fields.any(|asked| selectable.iter().any(|field| field == asked))
    }

    /// The current object.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Value, Error> {
        let found = self.cache.current(&self.key(namespace, name)).await;
        let found = found.map_err(|error| self.read_failed(error, "get"))?.ok_or_else(|| self.not_found(name))?;
        self.load(found.entry()).await.map_err(|why| self.unreadable(found.entry(), why))
    }

    pub fn not_found(&self, name: &str) -> Error {
        Error::NotFound { resource: self.resource.clone(), name: name.to_string() }
    }

    pub fn read_failed(&self, error: cache::Error, verb: &'static str) -> Error {
        Error::Read { error, resource: self.resource.clone(), verb }
    }

    pub fn store_failed(&self, error: storage::Error, verb: &'static str, name: &str) -> Error {
        Error::Store { error, resource: self.resource.clone(), verb, name: name.to_string() }
    }
}

/// Derives cache headers by decoding what selectors look at: once for each object that one does look at.
pub struct Describer {
    strategy: Arc<dyn Strategy>,
    codec: Arc<dyn StoredCodec>,
    paths: Vec<Str>,
}

impl Describe for Describer {
    fn describe(&self, entry: &Entry) -> Header {
        match self.codec.decode_paths(&entry.value, &self.paths) {
            Ok(object) if entry.sealed().is_none() => header(&*self.strategy, &object),
            _ => Header { unreadable: true, ..Header::default() },
        }
    }

    fn indexed(&self, entry: &Entry, field: &Str) -> Option<Str> {
        if entry.sealed().is_some() {
            return None;
        }
        self.codec.text_at(&entry.value, field).ok()
    }
}

impl Describer {
    pub fn new(strategy: Arc<dyn Strategy>, codec: Arc<dyn StoredCodec>) -> Describer {
        let mut paths =
            object::strs!["metadata.namespace", "metadata.name", "metadata.uid", "metadata.labels"].to_vec();
        paths.extend_from_slice(strategy.facts().selected_paths.unwrap_or(strategy.selectable_fields()));
        Describer { strategy, codec, paths }
    }
}

pub(crate) fn text_at(object: &Value, path: &str) -> Str {
    let value = path.split('.').fold(object, |value, name| value.field(name));
    value.as_str().unwrap_or("").into()
}

/// What selectors look at.
fn header(strategy: &dyn Strategy, object: &Value) -> Header {
    let fields = strategy.selectable_fields();
    Header {
        namespace: object.namespace().into(),
        name: object.name().into(),
        uid_hash: shard::hash(object.uid()),
        labels: object.labels().map(|(key, value)| (Str::from(key), Str::from(value))).collect(),
        fields: fields.iter().map(|field| (field.clone(), strategy.select_field(object, field).into())).collect(),
        unreadable: false,
    }
}

/// Which objects a list or watch is about.
#[derive(Clone, Debug)]
pub struct Filter {
    pub labels: labels::Selector,
    pub fields: object::fields::Selector,
    pub shard: Option<Shard>,
}

impl Filter {
    pub fn everything() -> Filter {
        Filter { labels: labels::Selector::everything(), fields: object::fields::Selector::everything(), shard: None }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shard.is_none()
    }

    /// Whether it is one of them, or might be, for all that can be known.
    pub fn matches(&self, header: &Header) -> bool {
        if header.unreadable {
            return true;
        }
        self.labels.matches(header.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            && self.fields.matches(|field| header.field(field))
            && self.shard.as_ref().is_none_or(|shard| shard.matches(header))
    }
}
