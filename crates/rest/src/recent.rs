//! Objects that were decoded lately: every write asks for its namespace, every pod for its service account and the
//! priority classes.

use std::sync::{Arc, Weak};

use cache::Object;
use hashbrown::HashMap;
use object::Value;
use parking_lot::Mutex;
use registry::{Catalog, DirectStorage, LiveCatalog, Lookup};
use storage::{Key, Revision};

/// More objects are not kept, nor larger ones: with both, the memory this can take is bounded.
const OBJECTS_MAX: usize = 512;
const STORED_BYTES_MAX: usize = 4096;
/// Longer lists would drive everything else out.
const LIST_MAX: usize = 64;

/// Decoded objects by key. An object is found again only by the revision, and by the codec, that it was decoded with:
/// another schema means another codec.
#[derive(Default)]
pub struct Recent(Mutex<HashMap<Key, Decoded>>);

#[derive(Clone)]
struct Decoded {
    revision: Revision,
    storage: u64,
    value: Arc<Value>,
}

impl Recent {
    /// The current object, decoded now or earlier.
    pub fn find(
        &self,
        catalog: &Catalog,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        let storage = catalog.direct(group, resource)?;
        self.decoded(&storage, &*storage.cache.get(&storage.key(namespace, name))?)
    }

    /// The current objects of a namespace, or of all namespaces if it is "".
    pub fn list(&self, catalog: &Catalog, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let Some(storage) = catalog.direct(group, resource) else { return Vec::new() };
        let objects = storage.cache.snapshot(&storage.range(namespace).into()).objects;
        if objects.len() > LIST_MAX {
            return objects.iter().filter_map(|object| decode(&storage, object)).collect();
        }
        objects.iter().filter_map(|object| self.decoded(&storage, object)).collect()
    }

    fn decoded(&self, storage: &DirectStorage, object: &Object) -> Option<Arc<Value>> {
        let known = self.0.lock().get(object.key()).cloned();
        if let Some(known) = known
            && known.revision == object.revision()
            && known.storage == storage.id
        {
            return Some(known.value);
        }
        let value = decode(storage, object)?;
        if object.value().len() <= STORED_BYTES_MAX {
            let mut recent = self.0.lock();
            if recent.len() >= OBJECTS_MAX {
                recent.clear();
            }
            let decoded = Decoded { revision: object.revision(), storage: storage.id, value: value.clone() };
            recent.insert(object.key().clone(), decoded);
        }
        Some(value)
    }
}

/// The objects of what is served now, for the parts of the server that the API is made of.
#[derive(Clone)]
pub struct ServedObjects {
    /// Weak, because resources of the catalog have such parts themselves.
    catalog: Weak<LiveCatalog>,
    recent: Arc<Recent>,
}

impl ServedObjects {
    /// The objects of a catalog in which there may be no resources yet.
    pub fn of(catalog: &Arc<LiveCatalog>, recent: &Arc<Recent>) -> ServedObjects {
        ServedObjects { catalog: Arc::downgrade(catalog), recent: recent.clone() }
    }

    /// What is served now; None once the server is gone.
    pub fn load(&self) -> Option<LoadedObjects> {
        Some(LoadedObjects { catalog: self.catalog.upgrade()?.load_full(), recent: self.recent.clone() })
    }
}

/// The objects of one catalog.
pub struct LoadedObjects {
    pub catalog: Arc<Catalog>,
    recent: Arc<Recent>,
}

impl Lookup for LoadedObjects {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.recent.find(&self.catalog, group, resource, namespace, name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        self.recent.list(&self.catalog, group, resource, namespace)
    }
}

fn decode(storage: &DirectStorage, object: &Object) -> Option<Arc<Value>> {
    storage.decode_entry(object.entry()).ok().map(Arc::new)
}
