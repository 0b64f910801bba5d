//! [`Cache`]: the current state and recent events of one resource.

mod follow;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use object::Str;
use object::fields::Selector;
use parking_lot::{Mutex, RwLock};
use storage::{Entry, Key, KeyRange, Progress, Revision, Store, Subscription};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::channel::{Channel, Place};
use crate::renditions::Renditions;
use crate::ring::Ring;
use crate::through::Through;
use crate::watcher::Start;
use crate::{Budget, CacheMeters, Describe, Error, Event, Object, WatchLag, Watcher};

/// How large a cache may grow.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Events kept in memory for watchers; older ones are read from the store's log.
    pub ring_events: usize,
    /// How many bytes of old versions those events may keep in memory.
    pub ring_bytes: usize,
    /// How long a read waits for a revision that has not arrived yet.
    pub fresh_timeout: Duration,
    /// A selectable field that lists and watches are often narrowed by (pods by spec.nodeName).
    pub index: Option<Str>,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions { ring_events: 2048, ring_bytes: RING_BYTES, fresh_timeout: Duration::from_secs(3), index: None }
    }
}

/// Enough for two thousand changes of objects of 8 KB.
const RING_BYTES: usize = 16 * 1024 * 1024;
/// The index value of objects that cannot be decoded, which may have any value. No field has this value.
const UNREADABLE: &str = "\0";
/// More watchers than this are woken by a task of their own, so that the writer does not wait for it.
const WAKE_INLINE_MAX: usize = 16;

/// The watch cache of one resource.
pub struct Cache {
    store: Arc<dyn Store>,
    range: KeyRange,
    describe: Arc<dyn Describe>,
    budget: Arc<Budget>,
    options: CacheOptions,
    state: RwLock<State>,
    /// Wakes readers that wait for a revision when the change feed was replaced.
    followed: Notify,
    subscription: Mutex<Option<Subscription>>,
    /// The revision of the last change to an object of this cache.
    changed: AtomicI64,
    /// Events that have come since it was started.
    received: AtomicU64,
    /// How it does.
    pub meters: CacheMeters,
    runtime: Handle,
}

struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    /// The size of all objects, as stored.
    bytes: usize,
    channel: Channel,
    /// The revision of the list or the last batch of events that was applied.
    applied: Revision,
    /// How far the change feed has come beyond that revision.
    progress: Progress,
    /// Value of the indexed field → keys.
    index: HashMap<String, IndexedObjects>,
}

/// The objects with one value of the indexed field.
#[derive(Default)]
struct IndexedObjects {
    objects: BTreeMap<Key, Arc<Object>>,
    /// The size of all of them, as stored.
    bytes: usize,
}

/// Some of a cache's objects: a range of keys, perhaps only where the indexed field has one value.
#[derive(Clone, Debug)]
pub struct Part {
    pub(crate) range: KeyRange,
    value: Option<String>,
}

impl From<KeyRange> for Part {
    fn from(range: KeyRange) -> Part {
        Part { range, value: None }
    }
}

/// Objects as they were together at one revision.
#[derive(Debug)]
pub struct Snapshot {
    /// The objects, sorted by key.
    pub objects: Vec<Arc<Object>>,
    /// How many more objects of the part there are.
    pub more: usize,
    /// The revision that they are of.
    pub revision: Revision,
}

/// Some objects of a range, and how far they were looked for.
#[derive(Debug)]
pub struct CacheScan {
    /// Those that were wanted, sorted by key.
    pub objects: Vec<Arc<Object>>,
    /// The key that was looked at last, if there may be more behind it.
    pub last: Option<Key>,
}

impl Cache {
    /// Loads the range and follows it from then on.
    pub async fn start(
        store: Arc<dyn Store>,
        range: KeyRange,
        describe: Arc<dyn Describe>,
        budget: Arc<Budget>,
        options: CacheOptions,
    ) -> Result<Arc<Cache>, Error> {
        let channel = Channel::new(Ring::new(options.ring_events, options.ring_bytes, 0));
        let state = State {
            objects: BTreeMap::new(),
            bytes: 0,
            channel,
            applied: 0,
            progress: Progress::default(),
            index: HashMap::new(),
        };
        let cache = Arc::new(Cache {
            store,
            range,
            describe,
            budget,
            options,
            state: RwLock::new(state),
            followed: Notify::new(),
            subscription: Mutex::new(None),
            changed: AtomicI64::new(0),
            received: AtomicU64::new(0),
            meters: CacheMeters::default(),
            runtime: Handle::current(),
        });
        cache.follow().await?;
        Ok(cache)
    }

    fn wake(&self, woken: Vec<Waker>) {
        if woken.len() <= WAKE_INLINE_MAX {
            woken.into_iter().for_each(Waker::wake);
        } else {
            self.runtime.spawn(async { woken.into_iter().for_each(Waker::wake) });
        }
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
            state.index.entry(value.to_string()).or_default().insert(object.clone());
        }
        previous
    }

    fn unindex(&self, state: &mut State, object: &Object) {
        if let Some(value) = self.index_value(object)
            && let Some(indexed) = state.index.get_mut(value)
        {
            indexed.remove(object.key());
            if indexed.objects.is_empty() {
                state.index.remove(value);
            }
        }
    }

    fn index_value<'o>(&self, object: &'o Object) -> Option<&'o str> {
        let index = self.options.index.as_ref()?;
        Some(object.indexed(&*self.describe, index).unwrap_or(UNREADABLE))
    }

    /// The revision up to which the cache is complete.
    pub fn revision(&self) -> Revision {
        self.state.read().revision()
    }

    /// When an object of this cache last changed: what was derived from them is good as long as this stays the same.
    pub fn last_change(&self) -> Revision {
        self.changed.load(Ordering::Acquire)
    }

    /// How many events have come since it was started.
    pub fn events_received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How many events it keeps for watchers.
    pub fn capacity(&self) -> usize {
        self.options.ring_events
    }

    /// Waits until every write acknowledged before this call is in the cache.
    pub async fn fresh(&self) -> Result<Revision, Error> {
        let revision = self.store.progress_of(&self.range).await?;
        self.wait_for(revision).await?;
        Ok(revision)
    }

    /// Whether it has every write that was acknowledged, without waiting.
    pub fn is_always_fresh(&self) -> bool {
        self.store.delivers_in_commit()
    }

    /// Waits until the cache has reached `revision`.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Error> {
        if self.revision() >= revision {
            self.meters.waits.observe(0.0);
            return Ok(());
        }
        let began = Instant::now();
        let reached = tokio::time::timeout(self.options.fresh_timeout, self.reached(revision)).await;
        self.meters.waits.observe(began.elapsed().as_secs_f64());
        match reached {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::TooLarge { requested: revision, current: self.revision() }),
        }
    }

    async fn reached(&self, revision: Revision) {
        loop {
            // Registers for wake-ups before it checks, so that none is missed.
            let mut followed = std::pin::pin!(self.followed.notified());
            followed.as_mut().enable();
            if self.revision() >= revision {
                return;
            }
            let progress = self.state.read().progress.clone();
            tokio::select! {
                () = followed => {}
                () = progress.reach(revision) => {}
            }
        }
    }

    /// The object as it is now: from the cache, or from the store if the cache does not catch up in time.
    pub async fn current(&self, key: &[u8]) -> Result<Option<Arc<Object>>, Error> {
        if !self.is_always_fresh()
            && let Some(known) = self.get(key)
            && self.store.is_unchanged(key, known.revision()).await.unwrap_or(false)
        {
            return Ok(Some(known));
        }
        match self.fresh().await {
            Ok(_) => Ok(self.get(key)),
            Err(Error::TooLarge { .. }) => {
                let found = self.store.get(key, None).await?;
                Ok(found.entry.map(|entry| self.wrap(&entry)))
            }
            Err(other) => Err(other),
        }
    }

    /// The object under a key, if there is one.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Object>> {
        self.state.read().objects.get(key).cloned()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// The size of all objects, as stored.
    pub fn encoded_bytes(&self) -> usize {
        self.state.read().bytes
    }

    /// The size of the old versions that are kept for watchers.
    pub fn ring_bytes(&self) -> usize {
        self.state.read().channel.ring.bytes()
    }

    /// How far the watchers are.
    pub fn watch_lag(&self) -> WatchLag {
        self.state.read().channel.lag()
    }

    /// How many objects of a range there are, their size as stored, and the revision that they are of.
    pub fn count(&self, range: &KeyRange) -> (usize, usize, Revision) {
        let state = self.state.read();
        let (count, bytes) = if *range == self.range {
            (state.objects.len(), state.bytes)
        } else {
            let inside = state.objects.range::<[u8], _>(bounds(range));
            inside.fold((0, 0), |(count, bytes), (_, object)| (count + 1, bytes + object.value().len()))
        };
        (count, bytes, state.revision())
    }

    /// How many objects there are for each value of a field that the cache has an index for, their size as stored, and the revision that
    /// they are of. None without such an index, where objects are unreadable, and where there are more values than `most`.
    pub fn count_by(&self, field: &str, most: usize) -> Option<(Vec<(String, usize, usize)>, Revision)> {
        self.options.index.as_ref().filter(|index| index.as_str() == field)?;
        let state = self.state.read();
        if state.index.len() > most || state.index.contains_key(UNREADABLE) {
            return None;
        }
        let count =
            |(value, indexed): (&String, &IndexedObjects)| (value.clone(), indexed.objects.len(), indexed.bytes);
        Some((state.index.iter().map(count).collect(), state.revision()))
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part that holds every object which a field selector may match.
    pub fn part(&self, range: KeyRange, fields: &Selector) -> Part {
        let value = self.options.index.as_ref().and_then(|index| fields.requires_exact_match(index));
        Part { range, value: value.map(str::to_string) }
    }

    /// The objects of a part in key order. Only references are taken: the cost is a pointer an object.
    pub fn snapshot(&self, part: &Part) -> Snapshot {
        self.first(part, usize::MAX)
    }

    /// The first objects of a part, no more than `most`.
    pub fn first(&self, part: &Part, most: usize) -> Snapshot {
        let state = self.state.read();
        let (objects, more) = state.objects(part, most);
        Snapshot { objects, more, revision: state.revision() }
    }

    /// Looks at the first objects of a range, no more than `most`, and takes those that are wanted. The cache is locked meanwhile, so
    /// `is_wanted` must not take long.
    pub fn scan(
        &self,
        range: &KeyRange,
        most: usize,
        mut is_wanted: impl FnMut(&Key, &Arc<Object>) -> bool,
    ) -> CacheScan {
        let state = self.state.read();
        let (mut objects, mut last, mut looked_at) = (Vec::new(), None, 0);
        for (key, object) in state.objects.range::<[u8], _>(bounds(range)) {
            if is_wanted(key, object) {
                objects.push(object.clone());
            }
            looked_at += 1;
            if looked_at == most {
                last = Some(key.clone());
                break;
            }
        }
        CacheScan { objects, last }
    }

    /// The objects of a range as they were at `revision`: the present with what came later undone. None if the revision
    /// has not been reached, or if the ring does not reach back to it; the store may know then. Nor is there one of a
    /// revision that was compacted, so that continue tokens expire as they do on etcd.
    pub fn snapshot_at(&self, range: &KeyRange, revision: Revision) -> Option<Snapshot> {
        // Not with the lock: a commit that holds the store's may wait for it.
        let oldest = self.store.compacted(range);
        let state = self.state.read();
        if revision > state.revision() || revision < oldest {
            return None;
        }
        let mut then: BTreeMap<&[u8], Option<&Arc<Object>>> = BTreeMap::new();
        for event in state.channel.ring.after(revision)? {
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
        Some(Snapshot { objects, more: 0, revision })
    }

    /// The events after `revision` and the revision they lead to; None if some of them have left the ring.
    pub fn events_after(&self, revision: Revision) -> Option<(Vec<Arc<Event>>, Revision)> {
        let state = self.state.read();
        let events = state.channel.ring.after(revision)?.cloned().collect();
        Some((events, state.revision()))
    }

    /// The store for callers that expect to find in this cache what they have just written. On engines that
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

    /// Follows a part from `start`. Events outside of the part may come, too.
    pub async fn watch(self: &Arc<Self>, part: Part, start: Start) -> Result<Watcher, Error> {
        Watcher::begin(self.clone(), part, start).await
    }

    /// The budget of other encodings, which all caches of a server share.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn join(&self, part: &Part) -> Place {
        self.state.write().channel.join(part.value.as_deref())
    }

    pub(crate) fn leave(&self, place: &Place) {
        self.state.write().channel.leave(place);
    }

    /// An entry that was read from the store, as the object it is here if that is the same state.
    pub fn wrap(&self, entry: &Arc<Entry>) -> Arc<Object> {
        match self.get(&entry.key) {
            Some(object) if object.is_of(entry) => object,
            _ => self.object(entry.clone()),
        }
    }

    /// The current objects of a part with the ring position right after them.
    pub(crate) fn snapshot_and_position(&self, part: &Part) -> (Snapshot, u64) {
        let state = self.state.read();
        let (objects, more) = state.objects(part, usize::MAX);
        (Snapshot { objects, more, revision: state.revision() }, state.channel.ring.next())
    }

    pub(crate) fn position_after(&self, revision: Revision) -> Option<u64> {
        self.state.read().channel.ring.position_after(revision)
    }

    /// Reads events from the ring, see `Channel::read`. If it has read to the end, the revision up to which it knows of
    /// everything comes with the position.
    pub(crate) fn read_ring(
        &self,
        place: &Place,
        next: u64,
        waker: &Waker,
        take: impl FnMut(&Arc<Event>) -> ControlFlow<()>,
    ) -> Option<(u64, Option<Revision>)> {
        let state = self.state.read();
        let position = state.channel.read(place, next, waker, take)?;
        Some((position, (position == state.channel.ring.next()).then(|| state.revision())))
    }
}

impl IndexedObjects {
    fn insert(&mut self, object: Arc<Object>) {
        self.bytes += object.value().len();
        if let Some(previous) = self.objects.insert(object.key().clone(), object) {
            self.bytes -= previous.value().len();
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(removed) = self.objects.remove(key) {
            self.bytes -= removed.value().len();
        }
    }
}

impl FromIterator<(Key, Arc<Object>)> for IndexedObjects {
    fn from_iter<I: IntoIterator<Item = (Key, Arc<Object>)>>(objects: I) -> IndexedObjects {
        let objects: BTreeMap<Key, Arc<Object>> = objects.into_iter().collect();
        let bytes = objects.values().map(|object| object.value().len()).sum();
        IndexedObjects { objects, bytes }
    }
}

impl State {
    /// All of ours that happened up to here is in this state, and nothing later: progress moves only after
    /// everything before it was applied, and what is applied cannot change while the state is read.
    fn revision(&self) -> Revision {
        self.applied.max(self.progress.revision())
    }

    /// The first objects of a part, and how many more there are.
    fn objects(&self, part: &Part, most: usize) -> (Vec<Arc<Object>>, usize) {
        let in_range = |objects: &BTreeMap<Key, Arc<Object>>| -> Vec<Arc<Object>> {
            objects.range::<[u8], _>(bounds(&part.range)).map(|(_, object)| object.clone()).collect()
        };
        let Some(value) = &part.value else {
            let mut all = self.objects.range::<[u8], _>(bounds(&part.range));
            let first = all.by_ref().take(most).map(|(_, object)| object.clone()).collect();
            return (first, all.count());
        };
        let mut found = self.index.get(value).map(|indexed| in_range(&indexed.objects)).unwrap_or_default();
        if let Some(unreadable) = self.index.get(UNREADABLE) {
            found.extend(in_range(&unreadable.objects));
            found.sort_by(|one, two| one.key().cmp(two.key()));
        }
        let more = found.len().saturating_sub(most);
        found.truncate(most);
        (found, more)
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
