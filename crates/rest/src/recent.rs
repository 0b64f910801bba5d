//! Objects that were decoded lately: every write asks for its namespace, every pod for its service account and the
//! priority classes.

use std::sync::Arc;

use cache::Object;
use hashbrown::HashMap;
use object::Value;
use parking_lot::Mutex;
use registry::DirectStorage;
use storage::{Key, KeyRange, Revision};

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
    pub fn get(&self, storage: &DirectStorage, key: &Key) -> Option<Arc<Value>> {
        self.decoded(storage, &*storage.cache.get(key)?)
    }

    /// The current objects of a range.
    pub fn list(&self, storage: &DirectStorage, range: KeyRange) -> Vec<Arc<Value>> {
        let objects = storage.cache.snapshot(&range.into()).objects;
        if objects.len() > LIST_MAX {
            return objects.iter().filter_map(|object| decode(storage, object)).collect();
        }
        objects.iter().filter_map(|object| self.decoded(storage, object)).collect()
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

fn decode(storage: &DirectStorage, object: &Object) -> Option<Arc<Value>> {
    storage.decode_entry(object.entry()).ok().map(Arc::new)
}
