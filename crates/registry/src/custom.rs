//! Kinds that are not in the table: described by a structural schema, brought at run time, taken away again.
//!
//! This is the door custom resources come through: a [`Definition`] becomes a [`Resource`] with a cache of its own, and
//! from then on nothing but its schema tells it from a built-in one.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cache::{Budget, Cache, Options};
use object::{Cursor, Errors, GroupVersionKind, Str, Value};
use storage::{KeyRange, Store};

use crate::catalog::{Column, Resource, Shape, Subresource};
use crate::storage::{Describer, Storage, StoredCodec};
use crate::{Context, Strategy};

/// Everything there is to say about a custom kind in one version.
#[derive(Clone)]
pub struct Definition {
    pub kind: GroupVersionKind,
    pub plural: Str,
    pub singular: Str,
    pub list_kind: Str,
    pub short_names: Vec<Str>,
    pub categories: Vec<Str>,
    pub namespaced: bool,
    /// The root node is an embedded object: apiVersion, kind and metadata are not in it.
    pub shape: Shape,
    /// Whether `/status` exists and plain writes leave the status alone.
    pub has_status: bool,
}

/// What every custom kind can do.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

impl Definition {
    /// Loads what is stored of the kind and follows it; `prefix` is where all kinds are kept, `/registry`.
    pub async fn open(
        &self,
        store: Arc<dyn Store>,
        prefix: &str,
        budget: Arc<Budget>,
    ) -> Result<Resource, cache::Error> {
        let strategy: Arc<dyn Strategy> =
            Arc::new(Structural { shape: self.shape.clone(), has_status: self.has_status });
        let codec: Arc<dyn StoredCodec> = Arc::new(JsonCodec { shape: self.shape.clone() });
        let describe = Arc::new(Describer::new(strategy.clone(), codec.clone()));
        let root = prefix.len();
        let prefix = format!("{prefix}/{}/{}/", self.kind.group, self.plural);
        let range = KeyRange::prefix(prefix.clone());
        let cache = Cache::start(store.clone(), range, describe, budget, Options::default()).await?;
        let resource = self.kind.group_version().with_resource(&self.plural);
        let storage = Storage {
            resource: resource.group_resource(),
            kind: self.kind.clone(),
            namespaced: self.namespaced,
            strategy,
            codec,
            store,
            cache,
            prefix,
            root,
        };
        Ok(Resource {
            resource,
            kind: self.kind.clone(),
            list_kind: self.list_kind.clone(),
            singular: self.singular.clone(),
            namespaced: self.namespaced,
            verbs: VERBS.map(Into::into).to_vec(),
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            storage_version_hash: Str::default(),
            shape: self.shape.clone(),
            subresources: self.has_status.then(|| self.status()).into_iter().collect(),
            columns: columns(),
            storage: Some(Arc::new(storage)),
            report: None,
            action: None,
            deprecation: None,
            conversion: None,
            custom: true,
        })
    }

    fn status(&self) -> Subresource {
        let verbs = ["get", "patch", "update"].map(Into::into).to_vec();
        Subresource { name: "status".into(), kind: self.kind.clone(), verbs, action: None, shape: None }
    }
}

/// What a table of a kind shows that says nothing about it.
fn columns() -> Vec<Column> {
    let name = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
                allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
                for creation idempotence and configuration definition. Cannot be updated. More info: \
                https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
    let age = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
               guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It \
               is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
               info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
    let column = |title: &str, kind: &str, format: &str, description: &str| Column {
        name: title.into(),
        kind: kind.into(),
        format: format.into(),
        description: description.into(),
        priority: 0,
    };
    vec![column("Name", "string", "name", name), column("Age", "date", "", age)]
}

/// The rules of a kind that has nothing but a schema.
struct Structural {
    shape: Shape,
    has_status: bool,
}

#[async_trait]
impl Strategy for Structural {
    fn has_status(&self) -> bool {
        self.has_status
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        errors.extend(schema::validate(self.shape.schema(), object.value()));
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        errors.extend(schema::validate_update(self.shape.schema(), new.value(), old.value()));
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate_update(cx, new, old, errors);
    }

    fn checks_finalizer_names(&self) -> bool {
        false
    }

    fn default(&self, object: &mut Value) {
        schema::default(self.shape.schema(), object);
    }
}

/// JSON, as upstream stores custom resources.
struct JsonCodec {
    shape: Shape,
}

impl StoredCodec for JsonCodec {
    fn encode(&self, object: &Value) -> Result<Bytes, String> {
        let mut out = Vec::with_capacity(512);
        codec::json::encode(object, None, &mut out);
        out.push(b'\n');
        Ok(out.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Value, String> {
        let decoded = codec::json::decode(bytes, None, &mut codec::Notes::ignore());
        let mut object = decoded.map_err(|error| error.to_string())?;
        schema::default(self.shape.schema(), &mut object);
        Ok(object)
    }
}
