//! [`ResourceStorage`]: where the objects of one resource live, in whatever version they are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::{Cache, Describe, Header, Object};
use object::{GroupResource, GroupVersionKind, Meta, Status, Str, Value, labels};
use storage::{Entry, Key, KeyRange, Revision, Store};

use crate::{Error, ListCondition, Pace, Readable, SealedCodec, Shard, Strategy, Unreadable, shard};

/// The stored side of a resource: one for all its served versions.
#[derive(Clone)]
pub struct ResourceStorage {
    /// Tells storages apart, also those that follow one another for one resource with another schema.
    pub id: u64,
    /// The resource.
    pub resource: GroupResource,
    /// The kind in the version that is stored.
    pub kind: GroupVersionKind,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The rules of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// Reads and writes the stored bytes.
    pub codec: SealedCodec,
    /// Where writes go.
    pub store: Arc<dyn Store>,
    /// Follows the store; reads come from it.
    pub cache: Arc<Cache>,
    /// All keys begin with it: `/registry/pods/`.
    pub prefix: String,
    /// How much of it all resources have in common: `/registry`.
    pub root: usize,
    /// Whether errors name objects that cannot be read: the gate `AllowUnsafeMalformedObjectDeletion`.
    pub names_unreadable: bool,
}

/// Looking at an object whose header is known costs about as much as reading so many bytes.
const HEADER_BYTES: usize = 64;

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

    /// The key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        let key = match (self.namespaced, namespace) {
            (true, namespace) => format!("{}{namespace}/{name}", self.prefix),
            (false, _) => format!("{}{name}", self.prefix),
        };
        key.into()
    }

    /// The namespace ("" for cluster-scoped objects) and the name that a key stands for.
    pub fn place<'k>(&self, key: &'k Key) -> Option<(&'k str, &'k str)> {
        let below = key.as_str()?.strip_prefix(&self.prefix)?;
        if self.namespaced { below.split_once('/') } else { Some(("", below)) }
    }

    /// Everything, or everything of a namespace.
    pub fn range(&self, namespace: &str) -> KeyRange {
        if self.namespaced && !namespace.is_empty() {
            KeyRange::prefix(format!("{}{namespace}/", self.prefix))
        } else {
            KeyRange::prefix(self.prefix.clone())
        }
    }

    /// The error that reads of an object fail with.
    pub fn unreadable(&self, entry: &Entry, why: Unreadable) -> Error {
        let key = entry.key.to_string();
        tracing::error!(key, %why, "a stored object cannot be read");
        match self.names_unreadable {
            true => Error::Unreadable { key: self.below_root(&key).to_string(), why },
            false => Error::Unnamed(why),
        }
    }

    /// The key without the prefix that all resources share, as upstream's errors show it.
    pub(crate) fn below_root<'k>(&self, key: &'k str) -> &'k str {
        key.get(self.root..).unwrap_or(key)
    }

    /// The bytes to store: without what the store itself knows.
    pub(crate) async fn to_bytes(&self, object: &mut Value) -> Result<Bytes, Error> {
        object.set_type(&self.kind);
        object.metadata_mut().remove("selfLink");
        let revision = object.metadata_mut().remove("resourceVersion");
        let bytes = self.codec.encode(object).await.map_err(Error::Failed);
        // Copying everything just to leave this out would cost more than all the rest.
        if let Some(revision) = revision {
            object.metadata_mut().insert("resourceVersion", revision);
        }
        bytes
    }

    /// The bytes to store, and what they will be read as. Clients get what is stored, which is not always what was sent: an
    /// empty list, for one, has no stored form.
    pub(crate) async fn encoded(&self, mut object: Value, revision: Revision) -> Result<(Bytes, Value), Error> {
        let bytes = self.to_bytes(&mut object).await?;
        let mut stored = self.codec.decoded(object, &bytes).await.map_err(Status::internal)?;
        stored.set_meta_str("resourceVersion", &revision.to_string());
        Ok((bytes, stored))
    }

    /// Keeps the first objects that a filter is about, no more than `most`, and lets other tasks run meanwhile. Fields are
    /// selected as the requested version has them.
    pub async fn select(&self, objects: &mut Vec<Arc<Object>>, filter: &Filter, most: usize) -> Result<(), Error> {
        if filter.is_everything() {
            objects.truncate(most);
            return Ok(());
        }
        let found = std::mem::take(objects);
        if self.selects_converted(filter) || !filter.conditions.is_empty() {
            *objects = self.select_readable(&found, filter, most).await?;
            return Ok(());
        }
        let mut pace = Pace::begin();
        for object in found {
            let work = self.work_of_matching(&object);
            if filter.matches(object.header(self.cache.describe())) {
                objects.push(object);
                if objects.len() == most {
                    break;
                }
            }
            pace.worked(work).await;
        }
        Ok(())
    }

    async fn select_readable(
        &self,
        found: &[Arc<Object>],
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<Arc<Object>>, Error> {
        for condition in &filter.conditions {
            condition.prepare(found).await?;
        }
        let mut pace = Pace::begin();
        let mut selected = Vec::new();
        let mut batches = self.batches(found);
        while let Some(batch) = batches.next().await {
            for object in batch.iter() {
                let mut work = self.work_of_matching(&object);
                if self.matches(object, filter, &mut work)? {
                    selected.push(object.object().clone());
                    if selected.len() == most {
                        return Ok(selected);
                    }
                }
                pace.worked(work).await;
            }
        }
        Ok(selected)
    }

    /// Whether a filter is about an object. `work` grows by the bytes that were read to find out, beyond those of the header.
    pub fn matches(&self, object: Readable<'_>, filter: &Filter, work: &mut usize) -> Result<bool, Error> {
        if filter.is_everything() {
            return Ok(true);
        }
        let is_selected = match self.selects_converted(filter) {
            true => {
                *work += object.value().len();
                self.is_selected(object, filter)
            }
            false => filter.matches(object.header(self.cache.describe())),
        };
        Ok(is_selected && filter.holds(object, work)?)
    }

    /// The work of looking whether a filter is about an object, as bytes that are read.
    pub fn work_of_matching(&self, object: &Object) -> usize {
        if object.is_described() { HEADER_BYTES } else { HEADER_BYTES + object.value().len() }
    }

    fn is_selected(&self, object: Readable<'_>, filter: &Filter) -> bool {
        match self.read(object) {
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
        self.load(&found).await.map_err(|why| self.unreadable(found.entry(), why))
    }

    /// All current objects of a namespace, or of all namespaces if it is "".
    pub async fn list(&self, namespace: &str) -> Result<Vec<Value>, Error> {
        self.cache.fresh().await.map_err(|error| self.read_failed(error, "list"))?;
        let objects = self.cache.snapshot(&self.range(namespace).into()).objects;
        let (mut all, mut batches) = (Vec::with_capacity(objects.len()), self.batches(&objects));
        while let Some(batch) = batches.next().await {
            for object in batch.iter() {
                all.push(self.decode(object)?);
            }
        }
        Ok(all)
    }

    /// The error for an object that is not there.
    pub fn not_found(&self, name: &str) -> Error {
        Error::NotFound { resource: self.resource.clone(), name: name.to_string() }
    }

    /// The error for a failure of the cache.
    pub fn read_failed(&self, error: cache::Error, verb: &'static str) -> Error {
        Error::Read { error, resource: self.resource.clone(), verb }
    }

    /// The error for a failure of the store.
    pub fn store_failed(&self, error: storage::Error, verb: &'static str, name: &str) -> Error {
        Error::Store { error, resource: self.resource.clone(), verb, name: name.to_string() }
    }
}

/// Derives cache headers by decoding what selectors look at: once for each object that one does look at.
pub struct Describer {
    strategy: Arc<dyn Strategy>,
    codec: SealedCodec,
    paths: Vec<Str>,
}

impl Describe for Describer {
    fn describe(&self, entry: &Entry) -> Header {
        match self.codec.0.decode_paths(&entry.value, &self.paths) {
            Ok(object) if entry.sealed().is_none() => header(&*self.strategy, &object),
            _ => Header { unreadable: true, ..Header::default() },
        }
    }

    fn indexed(&self, entry: &Entry, field: &Str) -> Option<Str> {
        if entry.sealed().is_some() {
            return None;
        }
        self.codec.0.text_at(&entry.value, field).ok()
    }
}

impl Describer {
    /// Describes the objects that a codec reads by the rules of their kind.
    pub fn new(strategy: Arc<dyn Strategy>, codec: SealedCodec) -> Describer {
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

/// The parts of an object that selectors look at.
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
    /// The label selector.
    pub labels: labels::Selector,
    /// The field selector.
    pub fields: object::fields::Selector,
    /// The shard selector.
    pub shard: Option<Shard>,
    /// Looked at in this order, and only where everything else fits.
    pub conditions: Vec<Arc<dyn ListCondition>>,
}

impl Filter {
    /// Lets every object through.
    pub fn everything() -> Filter {
        Filter {
            labels: labels::Selector::everything(),
            fields: object::fields::Selector::everything(),
            shard: None,
            conditions: Vec::new(),
        }
    }

    /// Whether every object gets through.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shard.is_none() && self.conditions.is_empty()
    }

    /// The same for objects that it was found to be about before, see [`ListCondition::again`].
    pub fn again(&self) -> Filter {
        Filter { conditions: self.conditions.iter().map(|condition| condition.again()).collect(), ..self.clone() }
    }

    /// See [`ListCondition::end_of_initial`].
    pub fn end_of_initial(&self) {
        self.conditions.iter().for_each(|condition| condition.end_of_initial());
    }

    /// Whether a watch tells of the change of an object that it is about before and after, see [`ListCondition::holds_for_change`].
    pub fn tells_of(&self, object: Readable<'_>, before: Readable<'_>, work: &mut usize) -> Result<bool, Error> {
        for condition in &self.conditions {
            if !condition.holds_for_change(object, before, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all conditions hold.
    fn holds(&self, object: Readable<'_>, work: &mut usize) -> Result<bool, Error> {
        for condition in &self.conditions {
            if !condition.holds(object, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether it is one of them, or might be, for all that its header tells. Conditions are not asked.
    pub fn matches(&self, header: &Header) -> bool {
        if header.unreadable {
            return true;
        }
        self.labels.matches(header.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            && self.fields.matches(|field| header.field(field))
            && self.shard.as_ref().is_none_or(|shard| shard.matches(header))
    }
}
