//! [`Search`]: looks through the caches of all resources. What a user may see is decided first, and nothing else is looked at.

use std::sync::Arc;

use authz::{LIST_REDACTED, Permitted, Visible};
use cache::Object;
use hashbrown::HashMap;
use memchr::memmem::Finder;
use object::{Meta, Status, Value};
use registry::{Catalog, Pace, Readable, Resource, ResourceStorage};
use request::{RequestInfo, Verb};
use storage::{Key, KeyRange};

use super::query::FindQuery;
use crate::large::aside;
use crate::view::{ObjectReader, is_member, is_secrets, wrong};
use crate::{Call, Snapshot, list, table};

/// So many objects are looked at while a cache is locked.
const SCANNED_AT_ONCE: usize = 1024;
/// Looking at a name takes about as long as reading so many bytes.
const NAME_BYTES: usize = 16;
/// A decision takes about as long as reading so many bytes.
const DECIDED_BYTES: usize = 2048;
/// So much is decoded for one page.
const DECODED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Where a page ended.
pub struct FindPosition {
    pub group: String,
    pub resource: String,
    /// The key of an object, without the part that all keys of the resource have in common.
    pub key: String,
}

/// The search of one request.
pub struct Search<'a> {
    query: &'a FindQuery,
    sources: Vec<FindSource>,
    /// How many objects the page may have, and those that it has.
    limit: usize,
    pub found: Vec<Value>,
    decoded_bytes: usize,
    pace: Pace,
}

/// The objects of one resource, and in which ways the user may come to see them.
struct FindSource {
    storage: Arc<ResourceStorage>,
    ways: Vec<FindWay>,
}

/// A right to see objects: `list` of the resource in one of its groups, or `list-redacted`.
struct FindWay {
    resource: Arc<Resource>,
    visible: Visible,
    reader: ObjectReader,
    /// Whether it shows Secrets without their values.
    redacts: bool,
}

/// A part of the keys, and the names of the objects there that the user may see in each way; None for all of them.
struct FindArea {
    range: KeyRange,
    seen: Vec<Option<Vec<String>>>,
}

/// Where objects of the catalog are stored, each place once.
pub fn storages(catalog: &Catalog) -> Vec<&Arc<ResourceStorage>> {
    let mut all: Vec<&Arc<ResourceStorage>> =
        catalog.resources().filter_map(|resource| resource.storage.as_ref()).collect();
    all.sort_by(|one, other| one.prefix.cmp(&other.prefix));
    all.dedup_by(|one, other| one.prefix == other.prefix);
    all
}

/// The resources whose objects can be found: one version of each that can be listed.
fn resources(catalog: &Catalog) -> Vec<&Arc<Resource>> {
    let mut all: Vec<&Arc<Resource>> = catalog
        .resources()
        .filter(|resource| resource.storage.is_some() && resource.report.is_none() && resource.serves("list"))
        .collect();
    let is_stored = |resource: &Resource| {
        resource.storage.as_ref().is_some_and(|storage| storage.kind.version == resource.resource.version)
    };
    all.sort_by_cached_key(|resource| {
        (place_of(&resource.resource.group, &resource.resource.resource), !is_stored(resource))
    });
    all.dedup_by(|one, other| {
        one.resource.group == other.resource.group && one.resource.resource == other.resource.resource
    });
    all
}

/// The order in which resources are looked through. Events, of which there are most, come last.
fn place_of(group: &str, resource: &str) -> (bool, String, String) {
    (resource == "events", group.to_string(), resource.to_string())
}

impl<'a> Search<'a> {
    pub fn new(
        api: &Snapshot,
        call: &Permitted<Call>,
        query: &'a FindQuery,
        limit: usize,
    ) -> Result<Search<'a>, Status> {
        let mut sources: Vec<FindSource> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for resource in resources(&api.catalog).into_iter().filter(|resource| query.is_about(resource)) {
            let Some(storage) = &resource.storage else { continue };
            let ways = ways(api, call, resource);
            let place = *places.entry(storage.prefix.as_str()).or_insert(sources.len());
            match sources.get_mut(place) {
                Some(source) => source.ways.extend(ways),
                None => sources.push(FindSource { storage: storage.clone(), ways }),
            }
        }
        if sources.is_empty() && !query.resources.is_empty() {
            return Err(wrong("q", &format!("names no resource that there is: {}", query.resources.join(", "))));
        }
        Ok(Search { query, sources, limit, found: Vec::new(), decoded_bytes: 0, pace: Pace::begin() })
    }

    /// Fills the page. The position is where the next page begins; None at the end.
    pub async fn run(&mut self, after: Option<FindPosition>) -> Result<Option<FindPosition>, Status> {
        let mut sources = std::mem::take(&mut self.sources);
        if let Some(after) = &after {
            let place = place_of(&after.group, &after.resource);
            sources.retain(|source| source.place() >= place);
        }
        let fresh = sources.iter().map(|source| source.storage.cache.fresh());
        for (source, fresh) in sources.iter().zip(futures::future::join_all(fresh).await) {
            fresh.map_err(|error| source.storage.read_failed(error, "list"))?;
        }
        for source in &sources {
            let mut rest = source.storage.range("");
            if let Some(after) =
                after.as_ref().filter(|after| place_of(&after.group, &after.resource) == source.place())
            {
                let last = list::key_below(&rest, &after.key);
                rest = rest.after(&last.ok_or_else(|| Status::bad_request("invalid continue token: it has no key"))?);
            }
            while let Some(area) = source.next_area(&mut rest, self.query, &mut self.pace).await? {
                if let Some(last) = self.look_through(source, &area).await? {
                    let (_, group, resource) = source.place();
                    let key = source.storage.place(&last).map(|_| last.to_string());
                    let key = key.as_deref().and_then(|key| key.strip_prefix(&source.storage.prefix)).unwrap_or("");
                    return Ok(Some(FindPosition { group, resource, key: key.to_string() }));
                }
            }
        }
        Ok(None)
    }

    /// Looks through what may be seen of a namespace. Some is the last object that was looked at when the page is full.
    async fn look_through(&mut self, source: &FindSource, area: &FindArea) -> Result<Option<Key>, Status> {
        let storage = &source.storage;
        if !area.seen.iter().any(Option::is_none) {
            let mut names: Vec<&String> = area.seen.iter().flatten().flatten().collect();
            names.sort();
            names.dedup();
            let namespace = area.range.start.as_str().and_then(|start| start.strip_prefix(&storage.prefix));
            let namespace = namespace.unwrap_or("").split('/').next().unwrap_or("");
            let keys = names.into_iter().map(|name| storage.key(namespace, name));
            let keys = keys.filter(|key| area.range.contains(key));
            let named: Vec<Arc<Object>> = keys.filter_map(|key| storage.cache.get(&key)).collect();
            let named = named.into_iter().filter(|object| self.may_match(storage, object.key(), object)).collect();
            return self.take(source, area, named).await;
        }
        let mut rest = area.range.clone();
        loop {
            let scan = storage.cache.scan(&rest, SCANNED_AT_ONCE, |key, object| self.may_match(storage, key, object));
            self.pace.worked(SCANNED_AT_ONCE * NAME_BYTES).await;
            if let Some(last) = self.take(source, area, scan.objects).await? {
                return Ok(Some(last));
            }
            match scan.last {
                Some(last) => rest = rest.after(&last),
                None => return Ok(None),
            }
        }
    }

    /// Whether an object may match, as far as is known without decoding anything.
    fn may_match(&self, storage: &ResourceStorage, key: &Key, object: &Object) -> bool {
        let name = storage.place(key).map_or("", |(_, name)| name);
        let has_names = self.query.names.iter().all(|part| name.contains(part.as_str()));
        has_names && (self.query.labels.is_empty() || !object.is_described() || self.has_labels(storage, object))
    }

    fn has_labels(&self, storage: &ResourceStorage, object: &Object) -> bool {
        let header = object.header(storage.cache.describe());
        header.unreadable || self.query.has_labels(header)
    }

    /// Adds those of the objects that match. Some is the last one that was looked at when the page is full.
    async fn take(
        &mut self,
        source: &FindSource,
        area: &FindArea,
        mut objects: Vec<Arc<Object>>,
    ) -> Result<Option<Key>, Status> {
        let storage = &source.storage;
        if !self.query.labels.is_empty() {
            let mut labelled = Vec::new();
            for object in objects {
                let work = storage.work_of_matching(&object);
                if self.has_labels(storage, &object) {
                    labelled.push(object);
                }
                self.pace.worked(work).await;
            }
            objects = labelled;
        }
        // The stored bytes have what is redacted, so that even the time would tell of it.
        let is_redacted = source.ways.iter().any(|way| way.redacts);
        if !storage.codec.converts_by_webhook() && !is_redacted {
            let texts = self.query.inside.iter().filter_map(|term| term.stored_text());
            for finder in texts.map(Finder::new) {
                let mut having = Vec::new();
                for object in objects {
                    let bytes = object.value().len();
                    if object.entry().sealed().is_some() || finder.find(object.value()).is_some() {
                        having.push(object);
                    }
                    self.pace.worked(bytes / 16).await;
                }
                objects = having;
            }
        }
        let mut batches = storage.batches(&objects);
        while let Some(batch) = batches.next().await {
            for object in batch.iter() {
                let bytes = object.value().len();
                let found = aside(bytes, || self.describe(source, area, object))?;
                self.found.extend(found);
                self.decoded_bytes += bytes;
                self.pace.worked(bytes).await;
                if self.found.len() >= self.limit || self.decoded_bytes >= DECODED_BYTES_MAX {
                    return Ok(Some(object.key().clone()));
                }
            }
        }
        Ok(None)
    }

    /// Describes an object as it is sent; None if it does not match.
    fn describe(&self, source: &FindSource, area: &FindArea, object: Readable<'_>) -> Result<Option<Value>, Status> {
        let name = source.storage.place(object.key()).map_or("", |(_, name)| name);
        let is_seen = |seen: &Option<Vec<String>>| {
            seen.as_ref().is_none_or(|names| names.binary_search_by(|known| known.as_str().cmp(name)).is_ok())
        };
        let way = area.seen.iter().position(is_seen).and_then(|at| source.ways.get(at));
        let Some(way) = way else { return Ok(None) };
        let shown = way.reader.must_read(object)?;
        if !self.query.inside.iter().all(|term| term.is_in(&shown)) {
            return Ok(None);
        }
        let hidden = source.storage.strategy.facts().hidden_annotations;
        let mut metadata = table::shown_metadata(&shown, hidden);
        metadata.remove(&["managedFields"]);
        let mut found = Value::map();
        found.set_type(&way.resource.kind);
        found.set(&["metadata"], metadata);
        Ok(Some(found))
    }
}

/// The rights by which a user may see objects of a resource.
fn ways(api: &Snapshot, call: &Permitted<Call>, resource: &Arc<Resource>) -> Vec<FindWay> {
    let name = &resource.resource;
    let info = RequestInfo {
        is_resource: true,
        verb: Verb::List,
        prefix: if name.group.is_empty() { "api" } else { "apis" }.into(),
        group: name.group.to_string(),
        version: name.version.to_string(),
        resource: name.resource.to_string(),
        parts: vec![name.resource.to_string()],
        ..RequestInfo::default()
    };
    let is_secret = is_secrets(&name.group, &name.resource);
    let redacts = is_secret && is_member(&api.limits.redact_secrets_for, &call.user);
    let visible = || Visible::new(api.authorizer.clone(), call.user.clone(), info.clone());
    let way = |visible: Visible, redacts: bool| FindWay {
        resource: resource.clone(),
        visible,
        reader: ObjectReader::whole(resource.clone(), redacts),
        redacts,
    };
    let mut ways = vec![way(visible(), redacts)];
    if is_secret {
        ways.push(way(visible().with_verb(LIST_REDACTED), true));
    }
    ways
}

impl FindSource {
    /// The place of the first group that has the resource.
    fn place(&self) -> (bool, String, String) {
        let name = self.ways.first().map(|way| &way.resource.resource);
        name.map(|name| place_of(&name.group, &name.resource)).unwrap_or_default()
    }

    /// Whether one right to see everything, which comes before all others, is enough to know.
    async fn shows_everything(&self) -> Result<bool, Status> {
        let Some(first) = self.ways.first() else { return Ok(false) };
        Ok(first.visible.names_in("").await.map_err(Status::internal)?.is_none())
    }

    /// The next part of the rest that the user may see something of; the rest is what follows it.
    async fn next_area(
        &self,
        rest: &mut KeyRange,
        query: &FindQuery,
        pace: &mut Pace,
    ) -> Result<Option<FindArea>, Status> {
        let nothing = || KeyRange { start: Key::default(), end: Some(Key::default()) };
        if !rest.is_empty() && query.namespaces.is_empty() && self.shows_everything().await? {
            return Ok(Some(FindArea { range: std::mem::replace(rest, nothing()), seen: vec![None] }));
        }
        while !rest.is_empty() {
            let mut first_key = None;
            self.storage.cache.scan(rest, 1, |key, _| {
                first_key = Some(key.clone());
                false
            });
            let Some(key) = first_key else { return Ok(None) };
            let namespace = self.storage.place(&key).map_or("", |(namespace, _)| namespace);
            let end = match self.storage.namespaced {
                true => self.storage.range(namespace).end,
                false => rest.end.clone(),
            };
            let range = KeyRange { start: key.clone(), end: end.clone() };
            *rest = match end {
                Some(end) if self.storage.namespaced => KeyRange { start: end, end: rest.end.take() },
                _ => nothing(),
            };
            pace.worked(DECIDED_BYTES).await;
            if !query.namespaces.iter().all(|asked| asked == namespace) {
                continue;
            }
            let mut seen = Vec::new();
            for way in &self.ways {
                seen.push(way.visible.names_in(namespace).await.map_err(Status::internal)?);
                // What was decided is in `seen`; all namespaces together would be much to remember.
                way.visible.undecide(namespace);
            }
            if seen.iter().any(|names| names.as_ref().is_none_or(|names| !names.is_empty())) {
                return Ok(Some(FindArea { range, seen }));
            }
        }
        Ok(None)
    }
}
