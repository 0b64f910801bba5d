//! [`Compiled`]: the objects of one resource in the form that requests use, made again when an object changes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use object::{Meta, Status, Value};
use parking_lot::Mutex;
use registry::DirectStorage;
use storage::{Entry, Revision};

use crate::parts::{Item, Parts};

/// Compiled objects of one resource. A write that was answered is seen by every request that starts afterwards, because the
/// cache is current before the answer is sent.
pub struct Compiled<T> {
    storage: DirectStorage,
    compile: Box<dyn Fn(&Value) -> T + Send + Sync>,
    latest: ArcSwap<Snapshot<T>>,
    /// Held while a snapshot is made, so that it is made once for all requests that wait for it.
    making: Mutex<()>,
}

/// All compiled objects at one revision, sorted by namespace and name.
pub struct Snapshot<T> {
    revision: Option<Revision>,
    items: Parts<T>,
}

impl<T> Snapshot<T> {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().map(|item| &item.compiled)
    }

    pub fn is_empty(&self) -> bool {
        self.items.iter().next().is_none()
    }

    /// What an earlier snapshot has and this one has not, and what only this one has.
    pub fn changes<'s>(&'s self, earlier: &'s Snapshot<T>) -> (Vec<&'s Arc<T>>, Vec<&'s Arc<T>>) {
        self.items.changes(&earlier.items)
    }
}

impl<T> Compiled<T> {
    pub fn new(storage: DirectStorage, compile: impl Fn(&Value) -> T + Send + Sync + 'static) -> Compiled<T> {
        let empty = Snapshot { revision: None, items: Parts::default() };
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
        let made = match self.followed(&latest)? {
            Some(made) => made,
            None => self.listed(&latest, revision)?,
        };
        let made = Arc::new(made);
        self.latest.store(made.clone());
        Ok(made)
    }

    /// A snapshot with the changes that came since; None if they are not all known any more.
    fn followed(&self, latest: &Snapshot<T>) -> Result<Option<Snapshot<T>>, Status> {
        let Some(known) = latest.revision else { return Ok(None) };
        let Some((events, _)) = self.storage.cache.events_after(known) else { return Ok(None) };
        let Some(revision) = events.last().map(|event| event.revision) else { return Ok(None) };
        let mut items = latest.items.clone();
        for event in events {
            match (&event.object, event.subject()) {
                (Some(object), _) => items.put(self.item(object.entry(), items.get(object.key()))?),
                (None, Some(gone)) => items.remove(gone.key()),
                (None, None) => {}
            }
        }
        Ok(Some(Snapshot { revision: Some(revision), items }))
    }

    /// A snapshot of everything in the cache. What has not changed is taken over.
    fn listed(&self, latest: &Snapshot<T>, revision: Revision) -> Result<Snapshot<T>, Status> {
        let objects = self.storage.cache.snapshot(&self.storage.range("").into()).objects;
        let mut items = Parts::default();
        // Both are in key order, so that hundreds of thousands of objects are gone through once.
        let mut known = latest.items.iter().peekable();
        for object in &objects {
            while known.next_if(|item| item.key < *object.key()).is_some() {}
            items.push(self.item(object.entry(), known.peek().copied())?);
        }
        Ok(Snapshot { revision: Some(revision), items })
    }

    /// An object, compiled now if it is not the one that was compiled before.
    fn item(&self, entry: &Entry, known: Option<&Item<T>>) -> Result<Item<T>, Status> {
        let same = known.filter(|item| item.key == entry.key && item.revision == entry.mod_revision);
        let compiled = match same {
            Some(item) => item.compiled.clone(),
            None => Arc::new((self.compile)(&self.storage.decode_entry(entry)?)),
        };
        Ok(Item { key: entry.key.clone(), revision: entry.mod_revision, compiled })
    }
}

/// The name of an object, for compile functions.
pub(crate) fn name_of(object: &Value) -> String {
    object.name().to_string()
}
