//! The catalog of built-in resources: the generated table, the kinds' strategies and a store, put together.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cache::{Budget, Cache, CacheOptions};
use codec::StoredEncoding;
use futures::future::BoxFuture;
use hashbrown::HashMap;
use object::{GroupVersion, GroupVersionKind, GroupVersionResource, Meta, Str, Value};
use schema::{Builtin, builtin};
use storage::{KeyRange, Store};

use crate::catalog::{Catalog, Column, Convert, Deprecation, Resource, Subresource};
use crate::strategy::Generic;
use crate::{Describer, Form, Lifecycle, ResourceStorage, SealedCodec, StoredCodec, Strategy, Withdrawn};

/// The parts that the built-in catalog is made of besides the table.
pub struct Setup {
    /// Where objects are stored.
    pub store: Arc<dyn Store>,
    /// `/registry` unless told otherwise.
    pub prefix: String,
    /// Bounds the memory of other encodings in all caches together.
    pub budget: Arc<Budget>,
    /// (group, resource) → strategy.
    pub strategies: HashMap<(&'static str, &'static str), Arc<dyn Strategy>>,
    /// (group, version, resource) → how it differs from the stored version.
    pub conversions: HashMap<(&'static str, &'static str, &'static str), Arc<dyn Convert>>,
    /// `--storage-media-type`: how built-in resources are written. Both forms are read.
    pub encoding: StoredEncoding,
    /// Whether errors name objects that cannot be read: the gate `AllowUnsafeMalformedObjectDeletion`.
    pub names_unreadable: bool,
    /// Whether a resource is served: its name, and whether its version is by default.
    pub enabled: Box<dyn Fn(&GroupVersionResource, bool) -> bool + Send + Sync>,
    /// Decides what has been removed, and in which version objects are written.
    pub lifecycle: Lifecycle,
}

const DEPRECATED: &str = include_str!("../data/deprecated.txt");
const REMOVED: &str = include_str!("../data/removed.txt");
const STORED: &str = include_str!("../data/stored.txt");

/// The lines of a data file, split into at most `fields` words.
pub(crate) fn rows(text: &'static str, fields: usize) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(move |line| line.splitn(fields, ' ').collect())
}

impl Setup {
    /// Starts a cache for every stored resource and builds the catalog.
    pub fn catalog(self) -> BoxFuture<'static, Result<Catalog, cache::Error>> {
        Box::pin(async move {
            let table = builtin();
            let mut catalog = Catalog::new();
            let mut stored: HashMap<GroupVersionKind, Arc<ResourceStorage>> = HashMap::new();
            for group in table.groups() {
                for version in &group.versions {
                    for resource in version.resources.iter().filter(|r| self.serves(r, version.enabled)) {
                        let storage = match &resource.stored {
                            None => None,
                            Some(kind) => Some(match stored.get(kind) {
                                Some(storage) => storage.clone(),
                                None => {
                                    let storage = self.open(table, resource, kind).await?;
                                    stored.insert(kind.clone(), storage.clone());
                                    storage
                                }
                            }),
                        };
                        let storage = storage.map(|storage| storage.served_as(&resource.name.group_resource()));
                        if let Some(resource) = self.resource(table, resource, storage) {
                            catalog.insert(resource);
                        }
                    }
                }
            }
            for (old, kind) in rows(REMOVED, 3).filter_map(|row| self.removed_resource(table, &row)) {
                let storage = stored.get(&kind).map(|storage| storage.clone().served_as(&old.name.group_resource()));
                if let Some(resource) = self.resource(table, &old, storage) {
                    catalog.insert(resource);
                }
            }
            Ok(catalog)
        })
    }

    /// A removed resource that is enabled, and the kind it is stored as.
    fn removed_resource(&self, table: &Builtin, row: &[&'static str]) -> Option<(schema::Resource, GroupVersionKind)> {
        let [group, version, name] = row else { return None };
        let served = GroupVersion::new(*group, *version);
        let mut resources = table.resources();
        let stored = resources
            .find(|r| r.name.group == *group && r.name.resource == *name && r.stored.as_ref() == Some(&r.kind))?;
        let mut old = stored.clone();
        old.name.version = served.version.clone();
        old.kind.version = served.version.clone();
        for subresource in old.subresources.iter_mut().filter(|subresource| subresource.kind == stored.kind) {
            subresource.kind.version = served.version.clone();
        }
        self.serves(&old, false).then(|| (old, stored.kind.clone()))
    }

    fn serves(&self, resource: &schema::Resource, default: bool) -> bool {
        !self.lifecycle.is_removed(&resource.kind) && (self.enabled)(&resource.name, default)
    }

    async fn open(
        &self,
        table: &'static Builtin,
        resource: &schema::Resource,
        kind: &GroupVersionKind,
    ) -> Result<Arc<ResourceStorage>, cache::Error> {
        let (group, name) = (kind.group.as_str(), resource.name.resource.as_str());
        let strategy = self.strategies.get(&(group, name)).cloned().unwrap_or_else(|| Arc::new(Generic));
        let conversions = self
            .conversions
            .iter()
            .filter(|((_, _, resource), _)| *resource == name)
            .map(|((group, version, _), convert)| (GroupVersion::new(*group, *version), convert.clone()))
            .collect();
        let (path, always_json) = stored_at(group, name);
        let encoding = if always_json { StoredEncoding::Json } else { self.encoding };
        let written = self.lifecycle.written(table, kind);
        let codec = SealedCodec::new(BuiltinCodec {
            json_head: format!(r#"{{"kind":"{}","apiVersion":"{}","#, kind.kind, kind.group_version()),
            table,
            kind: kind.clone(),
            written: Some(written).filter(|written| written != kind),
            encoding,
            strategy: strategy.clone(),
            conversions,
        });
        let namespaced = resource.namespaced;
        let describe = Arc::new(Describer::new(strategy.clone(), codec.clone()));
        let prefix = format!("{}/{path}/", self.prefix);
        let options = CacheOptions { index: strategy.facts().index.map(Str::const_new), ..CacheOptions::default() };
        let range = KeyRange::prefix(prefix.clone());
        let cache = Cache::start(self.store.clone(), range, describe, self.budget.clone(), options).await?;
        Ok(Arc::new(ResourceStorage {
            id: ResourceStorage::next_id(),
            resource: resource.name.group_resource(),
            kind: kind.clone(),
            namespaced,
            strategy,
            codec,
            store: cache.through(),
            cache,
            prefix,
            root: self.prefix.len(),
            names_unreadable: self.names_unreadable,
        }))
    }

    fn resource(
        &self,
        table: &'static Builtin,
        resource: &schema::Resource,
        storage: Option<Arc<ResourceStorage>>,
    ) -> Option<Resource> {
        let form = Form::builtin(&resource.kind)?;
        let list_kind = table
            .kind(&resource.kind.group, &resource.kind.version, &resource.kind.kind)
            .and_then(|kind| kind.list.clone())
            .unwrap_or_default();
        let name = &resource.name;
        let key = (name.group.as_str(), name.version.as_str(), name.resource.as_str());
        let conversion = self
            .conversions
            .iter()
            .find(|((group, version, resource), _)| (*group, *version, *resource) == key)
            .map(|(_, convert)| convert.clone());
        let subresources = resource.subresources.iter().map(|subresource| Subresource {
            name: subresource.name.clone(),
            kind: subresource.kind.clone(),
            verbs: subresource.verbs.clone(),
            action: None,
            connect: None,
            form: Form::builtin(&subresource.kind),
        });
        let columns = resource.columns.iter().map(|column| Column {
            name: column.name.clone(),
            kind: column.kind.clone(),
            format: column.format.clone(),
            description: Default::default(),
            priority: i64::from(column.priority),
        });
        Some(Resource {
            id: Resource::next_id(),
            resource: resource.name.clone(),
            kind: resource.kind.clone(),
            list_kind,
            singular: resource.singular.clone(),
            namespaced: resource.namespaced,
            verbs: resource.verbs.clone(),
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            storage_version_hash: resource.storage_version_hash.clone(),
            form,
            subresources: subresources.collect(),
            columns: columns.collect(),
            storage,
            report: None,
            action: None,
            deprecation: deprecation(&resource.kind),
            conversion,
            definition: None,
            withdrawn: Withdrawn::default(),
        })
    }
}

/// Upstream's warning for kinds that are on their way out.
pub(crate) fn deprecation(kind: &GroupVersionKind) -> Option<Deprecation> {
    let version = kind.group_version().to_string();
    let row = rows(DEPRECATED, 5)
        .find(|row| row.first() == Some(&version.as_str()) && row.get(1) == Some(&kind.kind.as_str()))?;
    let mut warning = format!("{version} {} is deprecated in v{}+", kind.kind, row.get(2)?);
    let removed = row.get(3).filter(|gone| **gone != "-");
    if let Some(gone) = removed {
        warning.push_str(&format!(", unavailable in v{gone}+"));
    }
    if let Some(instead) = row.get(4) {
        warning.push_str(&format!("; use {instead}"));
    }
    let removed_release = removed.map_or(Str::default(), |gone| Str::from(*gone));
    Some(Deprecation { warning: warning.into(), removed_release })
}

/// Where upstream keeps a resource, below the prefix, and whether it is always JSON.
fn stored_at(group: &str, resource: &str) -> (String, bool) {
    let named = if group.is_empty() { "core" } else { group };
    let found = rows(STORED, 4).find_map(|row| match row.as_slice() {
        [of, name, path, rest @ ..] if *of == named && (*name == "*" || *name == resource) => {
            Some((path.replace('*', resource), rest.contains(&"json")))
        }
        _ => None,
    });
    found.unwrap_or_else(|| (resource.to_string(), false))
}

/// Where the built-in resources are stored: the path below the prefix, without slashes around it, then group and resource.
pub fn key_paths() -> impl Iterator<Item = (String, String, String)> {
    builtin().resources().filter_map(|resource| {
        let group = resource.stored.as_ref()?.group.to_string();
        let name = resource.name.resource.to_string();
        Some((stored_at(&group, &name).0, group, name))
    })
}

/// Most objects are encoded in no more than this.
const ENCODED_BYTES: usize = 8 * 1024;

/// Protobuf in upstream's envelope, or JSON, in the storage version; older versions are converted when read.
struct BuiltinCodec {
    table: &'static Builtin,
    kind: GroupVersionKind,
    /// What JSON of the storage version begins with as Go writes it.
    json_head: String,
    /// The version that objects are written in, where it is another.
    written: Option<GroupVersionKind>,
    encoding: StoredEncoding,
    strategy: Arc<dyn Strategy>,
    conversions: Vec<(GroupVersion, Arc<dyn Convert>)>,
}

#[async_trait]
impl StoredCodec for BuiltinCodec {
    async fn encode(&self, object: &Value) -> Result<Bytes, String> {
        match &self.written {
            None => self.encode_as(&self.kind, object),
            Some(written) => {
                let mut object = object.clone();
                if let Some(convert) = self.conversion(&written.group_version()) {
                    object = convert.from_storage(object)?;
                }
                object.set_type(written);
                self.encode_as(written, &object)
            }
        }
    }

    fn decode(&self, bytes: &Bytes) -> Result<Value, String> {
        self.decode_with(bytes, &|schema| codec::proto::decode(bytes, schema))
    }

    fn as_decoded(&self, mut object: Value) -> Option<Value> {
        match self.table.schema(&self.kind) {
            Some(schema) if self.written.is_none() && self.encoding.is_exact(&object, schema) => {
                schema::default(schema, &mut object);
                self.strategy.default(&mut object);
                Some(object)
            }
            _ => None,
        }
    }

    fn decode_paths(&self, bytes: &Bytes, paths: &[Str]) -> Result<Value, String> {
        self.decode_with(bytes, &|schema| codec::proto::decode_paths(bytes, schema, paths))
    }

    fn text_at(&self, bytes: &Bytes, path: &Str) -> Result<Str, String> {
        let object = match self.table.schema(&self.kind) {
            Some(schema) if self.is_of_stored_version(bytes) => {
                codec::proto::decode_paths(bytes, schema, std::slice::from_ref(path))
                    .map_err(|error| error.to_string())?
            }
            _ => self.decode(bytes)?,
        };
        Ok(crate::storage::text_at(&object, path))
    }
}

impl BuiltinCodec {
    fn conversion(&self, version: &GroupVersion) -> Option<&Arc<dyn Convert>> {
        self.conversions.iter().find(|(other, _)| other == version).map(|(_, convert)| convert)
    }

    fn encode_as(&self, kind: &GroupVersionKind, object: &Value) -> Result<Bytes, String> {
        let schema = self.table.schema(kind).ok_or_else(|| format!("no schema for {kind}"))?;
        let mut out = Vec::with_capacity(ENCODED_BYTES);
        match self.encoding {
            StoredEncoding::Json => {
                codec::json::encode(object, Some(schema), &mut out);
                out.push(b'\n');
            }
            StoredEncoding::Protobuf => {
                codec::proto::encode(object, schema, &mut out).map_err(|error| error.to_string())?;
            }
        }
        // A copy, because the cache keeps it for as long as the object lives: it takes no more room than it needs.
        Ok(Bytes::copy_from_slice(&out))
    }

    /// Whether these bytes are protobuf of the version that the server works with.
    fn is_of_stored_version(&self, bytes: &Bytes) -> bool {
        let envelope =
            bytes.starts_with(codec::proto::MAGIC).then(|| codec::proto::Envelope::open(bytes).ok()).flatten();
        envelope.is_some_and(|envelope| {
            self.kind.has_api_version(&envelope.api_version) && *envelope.kind == *self.kind.kind
        })
    }

    /// What is stored, in the storage version and with defaults; protobuf of that version is left to `proto`.
    fn decode_with(
        &self,
        bytes: &Bytes,
        proto: &dyn Fn(schema::Schema<'_>) -> Result<Value, codec::DecodeError>,
    ) -> Result<Value, String> {
        let is_proto = bytes.starts_with(codec::proto::MAGIC);
        let (version, kind) = if is_proto {
            let envelope = codec::proto::Envelope::open(bytes).map_err(|error| error.to_string())?;
            (GroupVersion::parse(&envelope.api_version)?, envelope.kind.into_owned())
        } else if bytes.starts_with(self.json_head.as_bytes()) {
            (self.kind.group_version(), self.kind.kind.to_string())
        } else {
            let meta = codec::json::type_meta(bytes).map_err(|error| error.to_string())?;
            (GroupVersion::parse(&meta.api_version)?, meta.kind.to_string())
        };
        let stored = version.with_kind(&kind);
        let schema = self.table.schema(&stored).ok_or_else(|| format!("no schema for {stored}"))?;
        let decoded = match is_proto {
            true if stored == self.kind => proto(schema),
            true => codec::proto::decode(bytes, schema),
            false => codec::json::decode(bytes, Some(schema), &mut codec::Notes::ignore()),
        };
        let mut object = decoded.map_err(|error| error.to_string())?;
        schema::default(schema, &mut object);
        if stored != self.kind {
            if let Some(convert) = self.conversion(&version) {
                object = convert.to_storage(object)?;
            }
            object.set_type(&self.kind);
        }
        self.strategy.default(&mut object);
        Ok(object)
    }
}
