//! [`FedObjects`]: the objects of a resource that the program keeps. Clients can get, list and watch them, and change nothing.
//!
//! They are in a store in memory of their own, so that reads and watches are those of every stored resource.

use std::sync::Arc;

use object::timestamp::Time;
use object::{Clock, Meta, SystemClock, Value, names};
use registry::Resource;
use storage::memory::MemoryStore;
use storage::{Error, Key, Store};
use uuid::Uuid;

use crate::definition::Definition;
use crate::resource::Stores;

/// How many bytes of old states are kept for watches that begin in the past.
const HISTORY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The beginning of all keys.
const PREFIX: &str = "/feed";
const VERBS: [&str; 3] = ["get", "list", "watch"];

/// Keeps the objects of one resource. Clones keep the same.
#[derive(Clone)]
pub struct FedObjects {
    store: MemoryStore,
    /// The beginning of the resource's keys.
    prefix: String,
    api_version: String,
    kind: String,
    is_namespaced: bool,
}

impl FedObjects {
    /// That of the resource of a CustomResourceDefinition, which should have one version that is stored.
    pub fn of(definition: &Value) -> FedObjects {
        let definition = Definition::read(definition);
        let version = definition.storage_version().map(|version| version.name.clone()).unwrap_or_default();
        FedObjects {
            store: MemoryStore::with_history(HISTORY_BYTES_MAX),
            prefix: format!("{PREFIX}/{}/{}/", definition.group, definition.requested.plural),
            api_version: format!("{}/{version}", definition.group),
            kind: definition.requested.kind.to_string(),
            is_namespaced: definition.namespaced,
        }
    }

    /// Adds an object, or puts it in the place of the one of its name. Requests that come later see it.
    pub async fn put(&self, mut object: Value) -> Result<(), String> {
        let key = self.key(object.namespace(), object.name())?;
        object.set(&["apiVersion"], self.api_version.clone());
        object.set(&["kind"], self.kind.clone());
        object.remove(&["metadata", "resourceVersion"]);
        loop {
            let stored = self.store.get(key.as_bytes(), None).await.map_err(|error| error.to_string())?;
            let (revision, before) = match &stored.entry {
                Some(entry) => (Some(entry.mod_revision), read(&entry.value)?),
                None => (None, Value::Null),
            };
            let next = encode(&identified(object.clone(), &before));
            let written = match revision {
                Some(_) if stored.entry.is_some_and(|entry| entry.value == next) => return Ok(()),
                Some(revision) => self.store.update(key.clone(), next.into(), revision, None).await,
                None => self.store.create(key.clone(), next.into(), None).await,
            };
            match written {
                // Another task put or removed it in between.
                Err(Error::Conflict(_) | Error::KeyExists(_) | Error::NotFound) => continue,
                written => return written.map(drop).map_err(|error| error.to_string()),
            }
        }
    }

    /// Removes an object; whether there was one.
    pub async fn remove(&self, namespace: &str, name: &str) -> Result<bool, String> {
        let key = self.key(namespace, name)?;
        loop {
            let stored = self.store.get(key.as_bytes(), None).await.map_err(|error| error.to_string())?;
            let Some(entry) = stored.entry else { return Ok(false) };
            match self.store.delete(key.clone(), Some(entry.mod_revision)).await {
                Err(Error::Conflict(_) | Error::NotFound) => continue,
                removed => return removed.map(|_| true).map_err(|error| error.to_string()),
            }
        }
    }

    fn key(&self, namespace: &str, name: &str) -> Result<Key, String> {
        if let Some(why) = names::dns1123_subdomain(name).first() {
            return Err(format!("the name {} cannot be used: {why}", object::quote(name)));
        }
        match (self.is_namespaced, names::dns1123_label(namespace).first()) {
            (true, Some(why)) => Err(format!("the namespace {} cannot be used: {why}", object::quote(namespace))),
            (true, None) => Ok(Key::from([&self.prefix, namespace, "/", name].concat())),
            (false, _) if !namespace.is_empty() => Err(format!("{} have no namespace", self.kind)),
            (false, _) => Ok(Key::from([&self.prefix, name].concat())),
        }
    }

    /// Where the objects are, for what serves them.
    pub(crate) fn stores(&self, stores: &Stores) -> Stores {
        let store = Arc::new(self.store.clone());
        Stores { store, prefix: PREFIX.into(), cbor: false, ..stores.clone() }
    }
}

/// Takes away everything but reading.
pub(crate) fn only_read(resource: &mut Resource) {
    resource.verbs = VERBS.map(Into::into).to_vec();
    resource.subresources.clear();
    resource.storage_version_hash = Default::default();
}

/// With the uid and the time of the object that was there before, or new ones.
fn identified(mut object: Value, before: &Value) -> Value {
    let uid = match before.str_at(&["metadata", "uid"]) {
        "" => Uuid::new_v4().to_string(),
        uid => uid.to_string(),
    };
    object.set(&["metadata", "uid"], uid);
    let created = match before.str_at(&["metadata", "creationTimestamp"]) {
        "" => Time(SystemClock.now()).to_string(),
        created => created.to_string(),
    };
    object.set(&["metadata", "creationTimestamp"], created);
    object
}

fn read(bytes: &[u8]) -> Result<Value, String> {
    codec::json::decode(bytes, None, &mut codec::Notes::ignore()).map_err(|error| error.to_string())
}

fn encode(object: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::json::encode(object, None, &mut bytes);
    bytes
}
