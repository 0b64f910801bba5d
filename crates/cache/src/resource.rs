//! [`Cache`]: the current state and recent events of one resource.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use object::fields::Selector;
use parking_lot::{Mutex, RwLock};
use storage::{Batch, Entry, Key, KeyRange, RangeQuery, Revision, Store, Subscriber, Subscription, WatchRequest};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::channel::{Channel, Seat};
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
    /// A selectable field that lists and watches are often narrowed by (pods by spec.nodeName).
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
/// More watchers than this are not woken by whoever made the change, which has better things to do.
const WAKE_INLINE_MAX: usize = 16;

/// The watch cache of one resource.
pub struct Cache {
    store: Arc<dyn Store>,
    range: KeyRange,
    describe: Arc<dyn Describe>,
    budget: Arc<Budget>,
    options: Options,
    state: RwLock<State>,
    /// The revision up to which everything has been applied.
    applied: AtomicI64,
    /// For those who wait for a revision.
    advanced: Notify,
    subscription: Mutex<Option<Subscription>>,
    /// The revision of the last change to an object of this cache.
    changed: AtomicI64,
    runtime: Handle,
}

struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    /// Of all objects, as stored.
    bytes: usize,
    channel: Channel,
    /// Value of the indexed field → keys.
    index: HashMap<String, BTreeMap<Key, Arc<Object>>>,
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
        let channel = Channel::new(Ring::new(options.ring_events, 0));
        let state = State { objects: BTreeMap::new(), bytes: 0, channel, index: HashMap::new() };
        let cache = Arc::new(Cache {
            store,
            range,
            describe,
            budget,
            options,
            state: RwLock::new(state),
            applied: AtomicI64::new(0),
            advanced: Notify::new(),
            subscription: Mutex::new(None),
            changed: AtomicI64::new(0),
            runtime: Handle::current(),
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
        let mut woken = Vec::new();
        state.channel.reset(revision, &mut woken);
        self.changed.store(revision, Ordering::Release);
        self.advance(revision);
        drop(state);
        self.wake(woken);
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
            state.index.entry(value.to_string()).or_default().insert(object.key().clone(), object.clone());
        }
        previous
    }

    fn unindex(&self, state: &mut State, object: &Object) {
        if let Some(value) = self.index_value(object)
            && let Some(keys) = state.index.get_mut(value)
        {
            keys.remove(object.key());
            if keys.is_empty() {
                state.index.remove(value);
            }
        }
    }

    fn index_value<'o>(&self, object: &'o Object) -> Option<&'o str> {
        let index = self.options.index?;
        object.header(&*self.describe).field(index)
    }

    fn apply(&self, batch: &Batch) {
        if batch.events.is_empty() {
            // Nothing of ours has happened: any state that is seen now is that of this revision, too.
            self.advance(batch.revision);
            return;
        }
        let objects = batch.events.iter().map(|change| change.entry.as_ref().map(|entry| self.object(entry.clone())));
        let objects: Vec<Option<Arc<Object>>> = objects.collect();
        if self.options.index.is_some() {
            // Reads the bytes, which readers need not wait for.
            objects.iter().flatten().for_each(|object| _ = self.index_value(object));
        }
        let mut woken = Vec::new();
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
            let event = Arc::new(event);
            let [now, before] = [&event.object, &event.previous].map(|object| self.index_value(object.as_ref()?));
            let values = now.into_iter().chain(before.filter(|before| now != Some(*before)));
            state.channel.push(event.clone(), values, &mut woken);
        }
        // Still under the lock: a snapshot's revision must say exactly what it contains.
        self.advance(batch.revision);
        drop(state);
        self.wake(woken);
    }

    /// The revision up to which the cache is complete.
    pub fn revision(&self) -> Revision {
        self.applied.load(Ordering::Acquire)
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
        match tokio::time::timeout(self.options.fresh_timeout, self.reached(revision)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::TooLarge { requested: revision, current: self.revision() }),
        }
    }

    async fn reached(&self, revision: Revision) {
        loop {
            // Listens before it looks, so that no step is missed.
            let mut advanced = std::pin::pin!(self.advanced.notified());
            advanced.as_mut().enable();
            if self.revision() >= revision {
                return;
            }
            advanced.await;
        }
    }

    fn advance(&self, revision: Revision) {
        self.applied.store(revision, Ordering::Release);
        self.advanced.notify_waiters();
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

    /// The part in which everything is that a field selector may match.
    pub fn part(&self, range: KeyRange, fields: &Selector) -> Part {
        let value = self.options.index.and_then(|index| fields.requires_exact_match(index));
        Part { range, value: value.map(str::to_string) }
    }

    /// The objects of a part in key order. Only references are taken: the cost is a pointer an object.
    pub fn snapshot(&self, part: &Part) -> Snapshot {
        let state = self.state.read();
        Snapshot { objects: state.objects(part), revision: self.revision() }
    }

    /// The objects of a range as they were at `revision`: the present with what came later undone. None if the revision
    /// has not been reached, or if the ring does not reach back to it; the store may know then.
    pub fn snapshot_at(&self, range: &KeyRange, revision: Revision) -> Option<Snapshot> {
        let state = self.state.read();
        if revision > self.revision() {
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

    /// Follows a part from `start`. What is outside of it may be told, too.
    pub async fn watch(self: &Arc<Self>, part: Part, start: Start) -> Result<Watcher, Error> {
        Watcher::begin(self.clone(), part, start).await
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn join(&self, part: &Part) -> Seat {
        self.state.write().channel.join(part.value.as_deref())
    }

    pub(crate) fn leave(&self, seat: &Seat) {
        self.state.write().channel.leave(seat);
    }

    /// An entry that was read from the store, as the object it is here if that is the same state.
    pub fn wrap(&self, entry: &Arc<Entry>) -> Arc<Object> {
        match self.get(&entry.key) {
            Some(object) if object.revision() == entry.mod_revision => object,
            _ => self.object(entry.clone()),
        }
    }

    /// The current objects of a part with the ring position right after them.
    pub(crate) fn snapshot_and_position(&self, part: &Part) -> (Snapshot, u64) {
        let state = self.state.read();
        (Snapshot { objects: state.objects(part), revision: self.revision() }, state.channel.ring.next())
    }

    pub(crate) fn position_after(&self, revision: Revision) -> Option<u64> {
        self.state.read().channel.ring.position_after(revision)
    }

    /// Reads events from the ring, see `Channel::read`. If it has read to the end, the revision up to which it knows of
    /// everything comes with the position.
    pub(crate) fn read_ring(
        &self,
        seat: &Seat,
        next: u64,
        limit: usize,
        waker: &Waker,
        take: impl FnMut(&Arc<Event>),
    ) -> Option<(u64, Option<Revision>)> {
        let state = self.state.read();
        let position = state.channel.read(seat, next, limit, waker, take)?;
        Some((position, (position == state.channel.ring.next()).then(|| self.revision())))
    }
}

impl State {
    fn objects(&self, part: &Part) -> Vec<Arc<Object>> {
        let objects = match &part.value {
            None => Some(&self.objects),
            Some(value) => self.index.get(value),
        };
        let in_range = objects.into_iter().flat_map(|objects| objects.range::<[u8], _>(bounds(&part.range)));
        in_range.map(|(_, object)| object.clone()).collect()
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
