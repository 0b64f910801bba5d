//! From a definition to the resources that the catalog serves: one storage and one cache for all versions, and a
//! resource for each served one.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cache::{Budget, Cache, CacheOptions};
use cel::conversion::ConversionRules;
use cel::rules::Validator;
use object::{GroupVersion, GroupVersionKind, Randomness, Str, Value};
use outbound::Webhooks;
use registry::{
    Deprecation, Describer, Form, JsonPath, Resource, ResourceStorage, SealedCodec, Shape, Strategy, Subresource,
};
use schema::Types;
use sha2::{Digest, Sha256};
use storage::{Entry, KeyRange, Store};

use crate::codec::{Schemas, VersionCodec};
use crate::columns::Printer;
use crate::conversion::{ConversionMeters, ConvertFn, Converter, ConvertingWebhook, RulesConverter};
use crate::definition::{Definition, Version, openapi_of};
use crate::strategy::{Rules, VersionStrategy};

/// What every custom resource can do, in upstream's order.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Events that a custom resource's cache keeps for watchers; there can be thousands of such caches.
const RING_EVENTS: usize = 1024;

/// Where custom resources are stored.
#[derive(Clone)]
pub struct Stores {
    pub store: Arc<dyn Store>,
    /// `/registry`.
    pub prefix: String,
    pub budget: Arc<Budget>,
    /// For conversion webhooks.
    pub webhooks: Arc<Webhooks>,
    pub meters: Arc<ConversionMeters>,
    pub randomness: Arc<dyn Randomness>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
    /// Objects are stored as CBOR instead of JSON.
    pub cbor: bool,
    /// Whether errors name objects that cannot be read: the gate `AllowUnsafeMalformedObjectDeletion`.
    pub names_unreadable: bool,
}

/// What is served of one definition.
pub struct Opened {
    pub resources: Vec<Arc<Resource>>,
    /// The storage in the version that is stored, whether or not it is served.
    pub storage: Arc<ResourceStorage>,
    /// Whether the definition is being deleted.
    pub terminating: Arc<AtomicBool>,
}

/// Loads what is stored of a definition and follows it from then on. `entry` is the stored definition itself, which
/// schemas are read from when they are first used. `convert` is for definitions of the program.
pub async fn open(
    definition: &Definition,
    entry: &Arc<Entry>,
    stores: &Stores,
    convert: Option<Arc<ConvertFn>>,
) -> Result<Opened, cache::Error> {
    let stored = definition.storage_version().map(|version| version.name.clone()).unwrap_or_default();
    let stored = GroupVersion::new(definition.group.clone(), stored);
    let schemas = Arc::new(Schemas {
        versions: definition
            .versions
            .iter()
            .map(|version| (version.name.clone(), shape(definition, version, entry)))
            .collect(),
        preserve_unknown: definition.preserve_unknown,
    });
    let converter = converter(definition, entry, &schemas, stores, convert);
    let terminating = Arc::new(AtomicBool::new(definition.terminating));
    let parts = definition.versions.iter().zip(&schemas.versions).map(|(version, (_, shape))| {
        let kind = definition.kind_in(version);
        let codec = SealedCodec::new(VersionCodec {
            kind: kind.clone(),
            stored: stored.clone(),
            schemas: schemas.clone(),
            converter: converter.clone(),
            cbor: stores.cbor,
        });
        let rules = rules(version, entry, &stores.expressions);
        let strategy = strategy(definition, version, shape, &version.selectable_fields, rules, &stores.expressions);
        let strategy: Arc<dyn Strategy> = Arc::new(VersionStrategy { terminating: terminating.clone(), ..strategy });
        (version, kind, codec, strategy)
    });
    let parts: Vec<_> = parts.collect();
    let selected = parts.iter().find(|(version, ..)| version.storage);
    let Some((_, kind, codec, strategy)) = selected else {
        return Err(cache::Error::Store(storage::Error::Unavailable("the definition has no storage version".into())));
    };
    let prefix = format!("{}/{}/{}/", stores.prefix, definition.group, definition.accepted.plural);
    // Filters look at objects as they are stored: no webhook is called for them.
    let as_stored = SealedCodec::new(VersionCodec {
        kind: kind.clone(),
        stored: stored.clone(),
        schemas: schemas.clone(),
        converter: None,
        cbor: stores.cbor,
    });
    let describe = Arc::new(Describer::new(describing(definition, &schemas), as_stored));
    let options = CacheOptions { ring_events: RING_EVENTS, ..CacheOptions::default() };
    let range = KeyRange::prefix(prefix.clone());
    let cache = Cache::start(stores.store.clone(), range, describe, stores.budget.clone(), options).await?;
    let resource = stored.with_resource(&definition.accepted.plural).group_resource();
    let storage = |kind: &GroupVersionKind, codec: &SealedCodec, strategy: &Arc<dyn Strategy>| ResourceStorage {
        id: ResourceStorage::next_id(),
        resource: resource.clone(),
        kind: kind.clone(),
        namespaced: definition.namespaced,
        strategy: strategy.clone(),
        codec: codec.clone(),
        store: cache.through(),
        cache: cache.clone(),
        prefix: prefix.clone(),
        root: stores.prefix.len(),
        names_unreadable: stores.names_unreadable,
    };
    let served = parts.iter().zip(&schemas.versions).filter(|((version, ..), _)| version.served);
    let resources = served.map(|((version, kind, codec, strategy), (_, shape))| {
        let source = (entry.clone(), version.name.clone());
        let described_by = registry::Definition {
            openapi: Box::new(move || read_openapi(&source.0, &source.1)),
            preserve_unknown: definition.preserve_unknown,
            terminating: terminating.clone(),
            scale: version.scale.clone(),
        };
        Arc::new(described(definition, version, shape, described_by, storage(kind, codec, strategy)))
    });
    let resources = resources.collect();
    Ok(Opened { resources, storage: Arc::new(storage(kind, codec, strategy)), terminating })
}

/// The converter of the objects; None where only the version's name changes.
fn converter(
    definition: &Definition,
    entry: &Arc<Entry>,
    schemas: &Arc<Schemas>,
    stores: &Stores,
    convert: Option<Arc<ConvertFn>>,
) -> Option<Arc<Converter>> {
    let webhook = definition.webhook.clone().map(|webhook| ConvertingWebhook {
        webhooks: stores.webhooks.clone(),
        webhook,
        meters: stores.meters.clone(),
        randomness: stores.randomness.clone(),
    });
    let converter = match (convert, &definition.conversion_rules, webhook) {
        (Some(convert), ..) => Converter::Function(convert),
        (None, Some(_), webhook) => Converter::Rules(rules_converter(definition, entry, schemas, stores), webhook),
        (None, None, webhook) => Converter::ConvertingWebhook(webhook?),
    };
    Some(Arc::new(converter))
}

/// The conversion rules, compiled from the stored definition when they are first used.
fn rules_converter(
    definition: &Definition,
    entry: &Arc<Entry>,
    schemas: &Arc<Schemas>,
    stores: &Stores,
) -> RulesConverter {
    let (entry, expressions) = (entry.clone(), stores.expressions.clone());
    let compile = move || match ConversionRules::read(&read_definition(&entry), &expressions) {
        Some(Ok(rules)) => Ok(rules),
        Some(Err(errors)) => Err(errors.aggregate()),
        None => Err("the definition cannot be read".into()),
    };
    RulesConverter {
        definition: definition.name.clone(),
        rules: LazyLock::new(Box::new(compile)),
        schemas: schemas.clone(),
        meters: stores.meters.clone(),
    }
}

/// The schema of a version, compiled from the stored definition when it is first used.
fn shape(definition: &Definition, version: &Version, entry: &Arc<Entry>) -> Shape {
    let (entry, name, preserve) = (entry.clone(), version.name.clone(), definition.preserve_unknown);
    Shape::lazy(move || {
        let (types, node) = schema::from_openapi(&read_openapi(&entry, &name), preserve);
        (Arc::new(types) as Arc<Types>, node)
    })
}

/// The rules of a version, compiled from the stored definition when they are first used.
fn rules(version: &Version, entry: &Arc<Entry>, expressions: &Arc<cel::Pool>) -> Arc<Rules> {
    let (entry, name, expressions) = (entry.clone(), version.name.clone(), expressions.clone());
    Arc::new(LazyLock::new(Box::new(move || Validator::new(&read_openapi(&entry, &name), true, &expressions))))
}

fn no_rules() -> Arc<Rules> {
    Arc::new(LazyLock::new(Box::new(|| None)))
}

/// Reads the `openAPIV3Schema` of a version from the stored definition.
fn read_openapi(entry: &Entry, version: &str) -> Value {
    openapi_of(&read_definition(entry), version)
}

/// The stored definition in the form of v1; null if it cannot be read.
fn read_definition(entry: &Entry) -> Value {
    let decoded = codec::json::decode(&entry.value, None, &mut codec::Notes::ignore());
    match decoded {
        Ok(object) => kinds::apiextensions::to_v1(object),
        Err(error) => {
            tracing::error!(key = %entry.key.to_string(), %error, "a stored definition cannot be read");
            Value::Null
        }
    }
}

/// The strategy that describes stored objects to filters: versions share a cache, so it knows the fields of all of them.
fn describing(definition: &Definition, schemas: &Schemas) -> Arc<dyn Strategy> {
    let mut fields: Vec<Str> =
        definition.versions.iter().flat_map(|version| version.selectable_fields.clone()).collect();
    fields.sort_unstable();
    fields.dedup();
    let stored = definition.versions.iter().zip(&schemas.versions).find(|(version, _)| version.storage);
    match stored {
        Some((version, (_, shape))) => {
            Arc::new(strategy(definition, version, shape, &fields, no_rules(), &Arc::default()))
        }
        None => Arc::new(registry::Generic),
    }
}

fn strategy(
    definition: &Definition,
    version: &Version,
    shape: &Shape,
    fields: &[Str],
    rules: Arc<Rules>,
    expressions: &Arc<cel::Pool>,
) -> VersionStrategy {
    let parsed = fields.iter().filter_map(|path| {
        let name = path.strip_prefix('.').unwrap_or(path);
        Some((Str::from(name), JsonPath::parse(path).ok()?))
    });
    let (selectable, selectable_paths) = parsed.unzip();
    VersionStrategy {
        resource: definition
            .kind_in(version)
            .group_version()
            .with_resource(&definition.accepted.plural)
            .group_resource(),
        shape: shape.clone(),
        has_status: version.has_status,
        scale: version.scale.clone(),
        printer: Printer::new(&version.columns),
        selectable,
        selectable_paths,
        terminating: Arc::default(),
        rules,
        expressions: expressions.clone(),
    }
}

fn described(
    definition: &Definition,
    version: &Version,
    shape: &Shape,
    described_by: registry::Definition,
    storage: ResourceStorage,
) -> Resource {
    let names = &definition.accepted;
    let kind = definition.kind_in(version);
    Resource {
        id: Resource::next_id(),
        resource: kind.group_version().with_resource(&names.plural),
        list_kind: names.list_kind.clone(),
        singular: names.singular.clone(),
        namespaced: definition.namespaced,
        verbs: VERBS.map(Str::const_new).to_vec(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        storage_version_hash: storage_version_hash(definition),
        form: Form::unstructured(shape.clone()),
        subresources: subresources(version, &kind),
        columns: Printer::new(&version.columns).headers(),
        storage: Some(Arc::new(storage)),
        report: None,
        action: None,
        deprecation: version.deprecated.then(|| deprecation(definition, version)),
        conversion: None,
        withdrawn: Default::default(),
        definition: Some(Arc::new(described_by)),
        kind,
    }
}

fn subresources(version: &Version, kind: &GroupVersionKind) -> Vec<Subresource> {
    let part = |name: &str, kind: GroupVersionKind, form: Option<Form>| {
        let verbs = ["get", "patch", "update"].map(Into::into).to_vec();
        Subresource { name: name.into(), kind, verbs, action: None, connect: None, form }
    };
    let status = version.has_status.then(|| part("status", kind.clone(), None));
    let scale_kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
    let scale = version.scale.as_ref().map(|_| {
        let form = Form::builtin(&scale_kind);
        part("scale", scale_kind, form)
    });
    status.into_iter().chain(scale).collect()
}

/// The first eight bytes of a hash over the version that is stored, if that version is served.
fn storage_version_hash(definition: &Definition) -> Str {
    let Some(stored) = definition.storage_version().filter(|version| version.served) else { return Str::default() };
    let text = format!("{}/{}/{}", definition.group, stored.name, definition.requested.kind);
    STANDARD.encode(&Sha256::digest(text)[..8]).into()
}

/// The warning that every request to a deprecated version gets.
fn deprecation(definition: &Definition, version: &Version) -> Deprecation {
    let kind = &definition.requested.kind;
    let warning = version.deprecation_warning.clone().unwrap_or_else(|| {
        let newer = definition.versions.iter().filter(|other| {
            other.served && !other.deprecated && object::compare_versions(&version.name, &other.name).is_lt()
        });
        let best = newer.max_by(|a, b| object::compare_versions(&a.name, &b.name));
        let instead = best.map(|best| format!("; use {}/{} {kind}", definition.group, best.name)).unwrap_or_default();
        format!("{}/{} {kind} is deprecated{instead}", definition.group, version.name).into()
    });
    Deprecation { warning, removed_release: Str::default() }
}

impl Definition {
    fn kind_in(&self, version: &Version) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), version.name.clone(), self.accepted.kind.clone())
    }
}
