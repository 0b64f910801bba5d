//! Objects that were decoded lately: every write asks for its namespace, every pod for its service account.

use std::sync::Arc;

use hashbrown::HashMap;
use object::Value;
use parking_lot::Mutex;
use registry::Storage;
use storage::{Key, Revision};

/// More are not remembered, nor larger ones: with both, the memory this can take is bounded.
const OBJECTS_MAX: usize = 512;
const STORED_BYTES_MAX: usize = 4096;

#[derive(Default)]
pub struct Recent(Mutex<HashMap<Key, (Revision, Arc<Value>)>>);

impl Recent {
    /// The current object, decoded now or earlier.
    pub fn get(&self, storage: &Storage, key: &Key) -> Option<Arc<Value>> {
        let object = storage.cache.get(key)?;
        let known = self.0.lock().get(key).cloned();
        if let Some((revision, value)) = known
            && revision == object.revision()
        {
            return Some(value);
        }
        let value = Arc::new(storage.decode_entry(object.entry()).ok()?);
        if object.value().len() <= STORED_BYTES_MAX {
            let mut recent = self.0.lock();
            if recent.len() >= OBJECTS_MAX {
                recent.clear();
            }
            recent.insert(key.clone(), (object.revision(), value.clone()));
        }
        Some(value)
    }
}
