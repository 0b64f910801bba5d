//! Where services' addresses and ports are kept: in the store like everything else, so that all servers agree.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use codec::Notes;
use kinds::core::service::AllocationStore;
use object::{GroupVersionKind, Meta, Reason, Status, Value};
use registry::ResourceStorage;
use request::User;
use rest::{Api, ManagedKind};
use storage::Store;

/// Allocation through the registry and, for node ports, one object of its own beside it.
pub struct Allocations {
    /// Weak, because the API leads here through its services.
    api: Weak<Api>,
    store: Arc<dyn Store>,
    /// Where the node ports are: `/registry/ranges/servicenodeports`.
    ports_key: String,
}

impl Allocations {
    pub fn new(api: &Arc<Api>, store: Arc<dyn Store>, storage_prefix: &str) -> Allocations {
        let ports_key = format!("{storage_prefix}/ranges/servicenodeports");
        Allocations { api: Arc::downgrade(api), store, ports_key }
    }

    fn api(&self) -> Result<Arc<Api>, Status> {
        self.api.upgrade().ok_or_else(|| Status::internal("the server is shutting down"))
    }

    fn storage(&self, group: &str, resource: &str) -> Result<Arc<ResourceStorage>, Status> {
        let api = self.api()?;
        let catalog = api.catalog.load();
        let found = catalog.stored(group, resource).cloned();
        found.ok_or_else(|| Status::internal(format!("services need {resource}, which is turned off")))
    }

    async fn all(&self, storage: &ResourceStorage) -> Result<Vec<Arc<Value>>, Status> {
        Ok(storage.list("").await?.into_iter().map(Arc::new).collect())
    }
}

/// The fields of an address are the server's.
async fn owned_address(api: &Api, address: Value) -> Value {
    let catalog = api.catalog.load();
    let Some(resource) = catalog.get("networking.k8s.io", "v1", "ipaddresses") else { return address };
    let tracked = ManagedKind { kind: &resource.kind, form: &resource.form, subresource: "", resets: &[] };
    rest::track(&tracked, &Value::map(), address, "kube-apiserver", api.clock.now()).await
}

#[async_trait]
impl AllocationStore for Allocations {
    async fn create_address(&self, address: Value) -> Result<bool, Status> {
        let storage = self.storage("networking.k8s.io", "ipaddresses")?;
        let user = User::loopback();
        let api = self.api()?.snapshot();
        let cx = api.context(&user, "", "v1", "", false);
        let address = owned_address(&api, address).await;
        match storage.create(&cx, address).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason() == Reason::AlreadyExists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_address(&self, name: &str) -> Result<(), Status> {
        let storage = self.storage("networking.k8s.io", "ipaddresses")?;
        let user = User::loopback();
        let api = self.api()?.snapshot();
        let cx = api.context(&user, "", "v1", "", false);
        match storage.delete(&cx, name, &Value::map()).await {
            Ok(_) => Ok(()),
            Err(error) if error.reason() == Reason::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn addresses(&self) -> Result<Vec<Arc<Value>>, Status> {
        self.all(&*self.storage("networking.k8s.io", "ipaddresses")?).await
    }

    async fn services(&self) -> Result<Vec<Arc<Value>>, Status> {
        self.all(&*self.storage("", "services")?).await
    }

    async fn node_ports(&self) -> Result<Option<(Value, u64)>, Status> {
        let found = self.store.get(self.ports_key.as_bytes(), None).await.map_err(Status::internal)?;
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
        let key = self.ports_key.as_str().into();
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
