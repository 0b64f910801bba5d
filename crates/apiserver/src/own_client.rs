//! [`ApiClient`]: how the server reads and writes objects for itself.

use std::sync::Arc;

use async_trait::async_trait;
use codec::Notes;
use object::{Clock, GroupVersionKind, Meta, Randomness, Reason, Status, Value};
use registry::{
    Catalog, Context, Error, Features, MakeChange, OwnChange, OwnClient, Resource, ResourceStorage, UpdateOptions,
    UpdateScope,
};
use request::User;
use rest::{LoadedObjects, ManagedKind, ServedObjects};
use storage::Store;

/// The manager of the fields that the server writes.
const MANAGER: &str = "kube-apiserver";

/// The client of what is served, and for node ports of an object beside it.
pub struct ApiClient {
    pub objects: ServedObjects,
    pub clock: Arc<dyn Clock>,
    pub randomness: Arc<dyn Randomness>,
    pub features: Arc<Features>,
    pub store: Arc<dyn Store>,
    /// The beginning of all keys in the store.
    pub prefix: String,
}

impl ApiClient {
    fn objects(&self) -> Result<LoadedObjects, Status> {
        self.objects.load().ok_or_else(|| Status::internal("the server is shutting down"))
    }

    fn storage(&self, group: &str, resource: &str) -> Option<Arc<ResourceStorage>> {
        self.objects.load()?.catalog.stored(group, resource).cloned()
    }

    /// Where the node ports are: `/registry/ranges/servicenodeports`.
    fn ports_key(&self) -> String {
        [&self.prefix, "/ranges/servicenodeports"].concat()
    }

    /// A write of an object without a namespace, which looks at what is served.
    fn context<'a>(&'a self, objects: &'a LoadedObjects, user: &'a User, resource: &'a Resource) -> Context<'a> {
        Context {
            version: &resource.kind.version,
            catalog: &objects.catalog,
            lookup: objects,
            randomness: &*self.randomness,
            ..Context::of_server(self.clock.now(), user, &self.features)
        }
    }

    /// The object with the fields that it has now and `before` had not as the server's.
    async fn tracked(&self, resource: &Resource, subresource: &str, before: &Value, now: Value) -> Value {
        let resets = match &resource.storage {
            Some(storage) => storage.strategy.facts().reset_fields(subresource),
            None => &[],
        };
        let kind = ManagedKind { kind: &resource.kind, form: &resource.form, subresource, resets };
        rest::track(&kind, before, now, MANAGER, self.clock.now()).await
    }

    async fn store_change(
        &self,
        resource: &Resource,
        what: &OwnChange<'_>,
        change: &MakeChange<'_>,
    ) -> Result<bool, Error> {
        let Some(storage) = &resource.storage else { return Ok(false) };
        let (user, now) = (User::loopback(), self.clock.now());
        let OwnChange { namespace, subresource, name, uid, .. } = *what;
        let randomness = &*self.randomness;
        let cx = Context { namespace, subresource, randomness, ..Context::of_server(now, &user, &self.features) };
        let options = match subresource {
            "" => UpdateOptions { scope: UpdateScope::Other, ..UpdateOptions::default() },
            _ => UpdateOptions::STATUS,
        };
        let options = UpdateOptions { uid: uid.map(str::to_string), ..options };
        let mut write = storage.begin(&cx, name, &options).await?;
        loop {
            let live = write.existing().await?;
            let Some(changed) = change(&live) else { return Ok(false) };
            let changed = self.tracked(resource, subresource, &live, changed).await;
            if write.store(changed, Some(&live)).await?.is_some() {
                return Ok(true);
            }
        }
    }
}

/// A resource in the version that is stored.
fn stored_resource<'a>(catalog: &'a Catalog, group: &str, resource: &str) -> Result<&'a Arc<Resource>, Status> {
    let found = catalog.stored(group, resource).and_then(|s| catalog.get(group, &s.kind.version, resource));
    found.ok_or_else(|| Status::internal(format!("the server needs {resource}, which are turned off")))
}

#[async_trait]
impl OwnClient for ApiClient {
    async fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let storage = self.storage(group, resource)?;
        // The cache may be behind, but only with what is new: what it does not know is asked for again.
        if let Some(object) = storage.cache.get(&storage.key(namespace, name)) {
            return storage.load(&object).await.ok().map(Arc::new);
        }
        storage.get(namespace, name).await.ok().map(Arc::new)
    }

    async fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        let Some(storage) = self.storage(group, resource) else { return Ok(Vec::new()) };
        Ok(storage.list(namespace).await?.into_iter().map(Arc::new).collect())
    }

    async fn create(&self, group: &str, resource: &str, object: Value) -> Result<bool, Status> {
        let (objects, user) = (self.objects()?, User::loopback());
        let resource = stored_resource(&objects.catalog, group, resource)?;
        let Some(storage) = &resource.storage else { return Ok(false) };
        let object = self.tracked(resource, "", &Value::map(), object).await;
        match storage.create(&self.context(&objects, &user, resource), object).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason() == Reason::AlreadyExists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(&self, group: &str, resource: &str, name: &str) -> Result<(), Status> {
        let (objects, user) = (self.objects()?, User::loopback());
        let resource = stored_resource(&objects.catalog, group, resource)?;
        let Some(storage) = &resource.storage else { return Ok(()) };
        match storage.delete(&self.context(&objects, &user, resource), name, &Value::map()).await {
            Ok(_) => Ok(()),
            Err(error) if error.reason() == Reason::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn change(&self, what: &OwnChange<'_>, change: &MakeChange<'_>) -> Result<bool, Status> {
        let objects = self.objects()?;
        let resource = stored_resource(&objects.catalog, what.group, what.resource)?;
        match self.store_change(resource, what, change).await {
            Ok(changed) => Ok(changed),
            Err(error) if matches!(error.reason(), Reason::Conflict | Reason::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn node_ports(&self) -> Result<Option<(Value, u64)>, Status> {
        let found = self.store.get(self.ports_key().as_bytes(), None).await.map_err(Status::internal)?;
        let Some(entry) = found.entry else { return Ok(None) };
        let schema = schema::builtin().schema(&range_kind()).ok_or_else(|| Status::internal("no RangeAllocation"))?;
        let decoded = if entry.value.starts_with(codec::proto::MAGIC) {
            codec::proto::decode(&entry.value, schema)
        } else {
            codec::json::decode(&entry.value, Some(schema), &mut Notes::ignore())
        };
        let ports = decoded.map_err(Status::internal)?;
        Ok(Some((ports, entry.mod_revision.unsigned_abs())))
    }

    async fn store_node_ports(&self, ports: &Value, revision: Option<u64>) -> Result<Option<u64>, Status> {
        let schema = schema::builtin().schema(&range_kind()).ok_or_else(|| Status::internal("no RangeAllocation"))?;
        let mut object = ports.clone();
        object.set_type(&range_kind());
        let mut bytes = Vec::new();
        codec::proto::encode(&object, schema, &mut bytes).map_err(Status::internal)?;
        let key = self.ports_key().as_str().into();
        let written = match revision.and_then(|revision| i64::try_from(revision).ok()) {
            None => self.store.create(key, bytes.into(), None).await,
            Some(revision) => self.store.update(key, bytes.into(), revision, None).await,
        };
        match written {
            Ok(written) => Ok(Some(written.revision.unsigned_abs())),
            Err(storage::Error::Conflict(_) | storage::Error::KeyExists(_) | storage::Error::NotFound) => Ok(None),
            Err(error) => Err(Status::internal(error)),
        }
    }
}

fn range_kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "RangeAllocation")
}
