//! [`Compiled`]: the objects of one resource in the form that requests use, made again when an object changes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use object::{Meta, Status, Value};
use parking_lot::Mutex;
use registry::Storage;
use storage::{Key, Revision};

/// Compiled objects of one resource. A write that was answered is seen by every request that starts afterwards, because the
/// cache is current before the answer is sent.
pub struct Compiled<T> {
    storage: Arc<Storage>,
    compile: Box<dyn Fn(&Value) -> T + Send + Sync>,
    latest: ArcSwap<Snapshot<T>>,
    /// Held while a snapshot is made, so that it is made once for all requests that wait for it.
    making: Mutex<()>,
}

/// All compiled objects at one revision, sorted by namespace and name.
pub struct Snapshot<T> {
    revision: Option<Revision>,
    items: Vec<Item<T>>,
}

struct Item<T> {
    key: Key,
    revision: Revision,
    compiled: Arc<T>,
}

impl<T> Snapshot<T> {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().map(|item| &item.compiled)
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Compiled<T> {
    pub fn new(storage: Arc<Storage>, compile: impl Fn(&Value) -> T + Send + Sync + 'static) -> Compiled<T> {
        let empty = Snapshot { revision: None, items: Vec::new() };
        Compiled { storage, compile: Box::new(compile), latest: ArcSwap::from_pointee(empty), making: Mutex::new(()) }
    }

    /// The objects as they are now. Err if one of them cannot be read: what it would have said is not known.
    pub fn current(&self) -> Result<Arc<Snapshot<T>>, Status> {
        let latest = self.latest.load();
        if latest.revision == Some(self.storage.cache.last_change()) {
            return Ok(Arc::clone(&latest));
        }
        drop(latest);
        self.make()
    }

    fn make(&self) -> Result<Arc<Snapshot<T>>, Status> {
        let _making = self.making.lock();
        let latest = self.latest.load_full();
        let revision = self.storage.cache.last_change();
        if latest.revision == Some(revision) {
            return Ok(latest);
        }
        let objects = self.storage.cache.snapshot(&self.storage.range("").into()).objects;
        let mut items = Vec::with_capacity(objects.len());
        // Both are in key order, so that hundreds of thousands of objects are gone through once.
        let mut known = latest.items.iter().peekable();
        for object in &objects {
            while known.next_if(|item| item.key < *object.key()).is_some() {}
            let same = known.peek().filter(|item| item.key == *object.key() && item.revision == object.revision());
            let compiled = match same {
                Some(item) => item.compiled.clone(),
                None => Arc::new((self.compile)(&self.storage.decode_entry(object.entry())?)),
            };
            items.push(Item { key: object.key().clone(), revision: object.revision(), compiled });
        }
        let made = Arc::new(Snapshot { revision: Some(revision), items });
        self.latest.store(made.clone());
        Ok(made)
    }
}

/// The name of an object, for compile functions.
pub(crate) fn name_of(object: &Value) -> String {
    object.name().to_string()
}
