//! [`Cache`]: the current state and recent events of one resource.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use storage::{Batch, Entry, Key, KeyRange, RangeQuery, Revision, Store, Subscriber, Subscription, WatchRequest};
use tokio::sync::watch;

use crate::renditions::Renditions;
use crate::ring::Ring;
use crate::through::Through;
use crate::watcher::Start;
use crate::{Budget, Describe, Error, Event, Object, Watcher};

/// How large a cache may grow.
#[derive(Clone, Debug)]
pub struct Options {
    /// Events kept in memory for watchers; older ones are read from the store's log.
    pub ring_events: usize,
    /// How long a read waits for a revision that has not arrived yet.
    pub fresh_timeout: Duration,
    /// A selectable field that lists are often narrowed by (pods by spec.nodeName).
    pub index: Option<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options { ring_events: 2048, fresh_timeout: Duration::from_secs(3), index: None }
    }
}

/// How many objects one page of the initial list has.
const LOAD_PAGE: usize = 2000;
/// How long to wait before following the store again after it failed.
const RETRY: Duration = Duration::from_millis(200);

/// The watch cache of one resource.
pub struct Cache {
    store: Arc<dyn Store>,
    range: KeyRange,
    describe: Arc<dyn Describe>,
    budget: Arc<Budget>,
    options: Options,
    state: RwLock<State>,
    /// The revision up to which everything has been applied; watchers wait on it.
    applied: watch::Sender<Revision>,
    subscription: Mutex<Option<Subscription>>,
    /// The revision of the last change to an object of this cache.
    changed: AtomicI64,
}

struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    /// Of all objects, as stored.
    bytes: usize,
    ring: Ring,
    /// Value of the indexed field → keys.
    index: HashMap<String, BTreeMap<Key, Arc<Object>>>,
}

/// Objects as they were together at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub objects: Vec<Arc<Object>>,
    pub revision: Revision,
}

impl Cache {
    /// Loads the range and follows it from then on.
    pub async fn start(
        store: Arc<dyn Store>,
        range: KeyRange,
        describe: Arc<dyn Describe>,
        budget: Arc<Budget>,
        options: Options,
    ) -> Result<Arc<Cache>, Error> {
        let ring = Ring::new(options.ring_events, 0);
        let state = State { objects: BTreeMap::new(), bytes: 0, ring, index: HashMap::new() };
        let cache = Arc::new(Cache {
            store,
            range,
            describe,
            budget,
            options,
            state: RwLock::new(state),
            applied: watch::Sender::new(0),
            subscription: Mutex::new(None),
            changed: AtomicI64::new(0),
        });
        cache.follow().await?;
        Ok(cache)
    }

    /// Lists the range, replaces the state with it and subscribes to what comes after.
    async fn follow(self: &Arc<Self>) -> Result<(), Error> {
        let (entries, revision) = self.load().await?;
        self.replace(entries, revision);
        let follower = Arc::new(Follower { cache: Arc::downgrade(self) });
        let request = WatchRequest::after(self.range.clone(), revision);
        let subscription = self.store.subscribe(request, follower).await?;
        *self.subscription.lock() = Some(subscription);
        Ok(())
    }

    async fn load(&self) -> Result<(Vec<Arc<Entry>>, Revision), Error> {
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        let mut query = RangeQuery::new(self.range.clone()).limit(LOAD_PAGE);
        loop {
            let page = self.store.range(query.clone()).await?;
            entries.extend(page.entries);
            match entries.last() {
                // Later pages are read at the revision of the first, so that together they are one state.
                Some(last) if page.more => {
                    query.range = self.range.after(&last.key);
                    query.at = Some(page.revision);
                }
                _ => return Ok((entries, page.revision)),
            }
        }
    }

    fn replace(&self, entries: Vec<Arc<Entry>>, revision: Revision) {
        let mut state = self.state.write();
        let old = std::mem::take(&mut state.objects);
        state.bytes = 0;
        state.index.clear();
        for entry in entries {
            // An object that has not changed keeps its header and renditions.
            let object = match old.get(&entry.key) {
                Some(object) if object.revision() == entry.mod_revision => object.clone(),
                _ => self.object(entry),
            };
            self.put(&mut state, object);
        }
        state.ring.reset(revision);
        self.changed.store(revision, Ordering::Release);
        self.applied.send_replace(revision);
    }

    fn object(&self, entry: Arc<Entry>) -> Arc<Object> {
        Arc::new(Object::new(entry, Renditions::new(self.budget.clone())))
    }

    fn put(&self, state: &mut State, object: Arc<Object>) -> Option<Arc<Object>> {
        let previous = state.objects.insert(object.key().clone(), object.clone());
        state.bytes += object.value().len();
        if let Some(previous) = &previous {
            state.bytes -= previous.value().len();
            self.unindex(state, previous);
        }
        if let Some(value) = self.index_value(&object) {
            state.index.entry(value).or_default().insert(object.key().clone(), object);
        }
        previous
    }

    fn unindex(&self, state: &mut State, object: &Object) {
        if let Some(value) = self.index_value(object)
            && let Some(keys) = state.index.get_mut(&value)
        {
            keys.remove(object.key());
            if keys.is_empty() {
                state.index.remove(&value);
            }
        }
    }

    fn index_value(&self, object: &Object) -> Option<String> {
        let index = self.options.index?;
        object.header(&*self.describe).field(index).map(str::to_string)
    }

    fn apply(&self, batch: &Batch) {
        let objects = batch.events.iter().map(|change| change.entry.as_ref().map(|entry| self.object(entry.clone())));
        let objects: Vec<Option<Arc<Object>>> = objects.collect();
        if self.options.index.is_some() {
            // Reads the bytes, which readers need not wait for.
            objects.iter().flatten().for_each(|object| drop(self.index_value(object)));
        }
        let mut state = self.state.write();
        for (change, object) in batch.events.iter().zip(objects) {
            let event = match object {
                Some(object) => {
                    let previous = self.put(&mut state, object.clone());
                    Event::new(change.revision, Some(object), previous, self.budget.clone())
                }
                None => {
                    let previous = state.objects.remove(&change.key);
                    if let Some(previous) = &previous {
                        state.bytes -= previous.value().len();
                        self.unindex(&mut state, previous);
                    }
                    Event::new(change.revision, None, previous, self.budget.clone())
                }
            };
            self.changed.store(event.revision, Ordering::Release);
            state.ring.push(Arc::new(event));
        }
        // Still under the lock: a snapshot's revision must say exactly what it contains.
        self.applied.send_replace(batch.revision);
    }

    /// The revision up to which the cache is complete.
    pub fn revision(&self) -> Revision {
        *self.applied.borrow()
    }

    /// When an object of this cache last changed: what was derived from them is good as long as this stays the same.
    pub fn last_change(&self) -> Revision {
        self.changed.load(Ordering::Acquire)
    }

    /// Waits until every write acknowledged before this call is in the cache.
    pub async fn fresh(&self) -> Result<Revision, Error> {
        let revision = self.store.progress_of(&self.range).await?;
        self.wait_for(revision).await?;
        Ok(revision)
    }

    /// Waits until the cache has reached `revision`.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Error> {
        if self.revision() >= revision {
            return Ok(());
        }
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|applied| *applied >= revision);
        match tokio::time::timeout(self.options.fresh_timeout, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::TooLarge { requested: revision, current: self.revision() }),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<Arc<Object>> {
        self.state.read().objects.get(key).cloned()
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// What the objects take, as stored.
    pub fn encoded_bytes(&self) -> usize {
        self.state.read().bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects of a range in key order. Only references are taken: the cost is a pointer an object.
    pub fn snapshot(&self, range: &KeyRange) -> Snapshot {
        let state = self.state.read();
        let objects = state.objects.range::<[u8], _>(bounds(range)).map(|(_, object)| object.clone()).collect();
        Snapshot { objects, revision: self.revision() }
    }

    /// Like `snapshot`, narrowed to the objects whose indexed field has this value; None without such an index.
    pub fn snapshot_by(&self, field: &str, value: &str, range: &KeyRange) -> Option<Snapshot> {
        if self.options.index != Some(field) {
            return None;
        }
        let state = self.state.read();
        let objects = state
            .index
            .get(value)
            .map(|keys| keys.range::<[u8], _>(bounds(range)).map(|(_, object)| object.clone()).collect::<Vec<_>>());
        Some(Snapshot { objects: objects.unwrap_or_default(), revision: self.revision() })
    }

    /// The objects of a range as they were at `revision`: the present with what came later undone. None if the revision
    /// has not been reached, or if the ring does not reach back to it; the store may know then.
    pub fn snapshot_at(&self, range: &KeyRange, revision: Revision) -> Option<Snapshot> {
        let state = self.state.read();
        if revision > self.revision() {
            return None;
        }
        let mut then: BTreeMap<&[u8], Option<&Arc<Object>>> = BTreeMap::new();
        for event in state.ring.after(revision)? {
            let Some(key) = event.subject().map(|object| object.key()).filter(|key| range.contains(key)) else {
                continue;
            };
            // What the first later event has replaced is what was there.
            then.entry(key).or_insert(event.previous.as_ref());
        }
        let unchanged =
            state.objects.range::<[u8], _>(bounds(range)).filter(|(key, _)| !then.contains_key(key.as_bytes()));
        let mut objects: Vec<Arc<Object>> = unchanged.map(|(_, object)| object.clone()).collect();
        objects.extend(then.into_values().flatten().cloned());
        objects.sort_by(|one, two| one.key().cmp(two.key()));
        Some(Snapshot { objects, revision })
    }

    /// The store, as somebody uses it who expects to find in this cache what they have just written. On engines that
    /// deliver later than they acknowledge, a write waits until the cache has seen it.
    pub fn through(self: &Arc<Self>) -> Arc<dyn Store> {
        if self.store.delivers_in_commit() {
            return self.store.clone();
        }
        Arc::new(Through { store: self.store.clone(), cache: Arc::downgrade(self) })
    }

    /// What filters need to know about an object of this cache.
    pub fn describe(&self) -> &dyn Describe {
        &*self.describe
    }

    /// Follows a range from `start`.
    pub async fn watch(self: &Arc<Self>, range: KeyRange, start: Start) -> Result<Watcher, Error> {
        Watcher::begin(self.clone(), range, start).await
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn applied(&self) -> watch::Receiver<Revision> {
        self.applied.subscribe()
    }

    /// An entry that was read from the store, as the object it is here if that is the same state.
    pub fn wrap(&self, entry: &Arc<Entry>) -> Arc<Object> {
        match self.get(&entry.key) {
            Some(object) if object.revision() == entry.mod_revision => object,
            _ => self.object(entry.clone()),
        }
    }

    /// The current objects of a range with the ring position right after them.
    pub(crate) fn snapshot_and_position(&self, range: &KeyRange) -> (Snapshot, u64) {
        let state = self.state.read();
        let objects = state.objects.range::<[u8], _>(bounds(range)).map(|(_, object)| object.clone()).collect();
        (Snapshot { objects, revision: self.revision() }, state.ring.next())
    }

    pub(crate) fn position_after(&self, revision: Revision) -> Option<u64> {
        self.state.read().ring.position_after(revision)
    }

    /// Reads events from the ring and says how far the ring is complete; None if the position has left it.
    pub(crate) fn read_ring(&self, from: u64, limit: usize, out: &mut Vec<Arc<Event>>) -> Option<Revision> {
        let state = self.state.read();
        state.ring.read(from, limit, out)?;
        Some(self.revision())
    }
}

fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_bytes()));
    // A BTreeMap range must not be inverted, even if the answer is obviously nothing.
    if range.is_empty() {
        return (Bound::Excluded(range.start.as_bytes()), Bound::Included(range.start.as_bytes()));
    }
    (Bound::Included(range.start.as_bytes()), end)
}

/// Feeds a cache. It holds the cache weakly: a cache nobody uses any more stops following.
struct Follower {
    cache: Weak<Cache>,
}

impl Subscriber for Follower {
    fn apply(&self, batch: &Batch) {
        if let Some(cache) = self.cache.upgrade() {
            cache.apply(batch);
        }
    }

    fn end(&self, error: storage::Error) {
        let Some(cache) = self.cache.upgrade().filter(|cache| !cache.store.is_closed()) else { return };
        tracing::warn!(%error, "the store's change feed ended; listing again");
        tokio::spawn(async move {
            while let Err(error) = cache.follow().await {
                tracing::warn!(%error, "cannot follow the store; trying again");
                tokio::time::sleep(RETRY).await;
            }
        });
    }
}
