//! Fills a cache: lists the store, then subscribes to changes, and lists again when the subscription ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use storage::{Batch, Entry, Key, Progress, RangeQuery, Revision, Subscriber, WatchRequest};

use super::Cache;
use crate::{Error, Event, Object};

/// How many objects one page of the initial list has.
const LOAD_PAGE: usize = 20_000;
/// Fewer objects than this are not worth a thread.
const OBJECTS_PER_THREAD: usize = 5000;
/// How long to wait before following the store again after it failed.
const RETRY: Duration = Duration::from_millis(200);

impl Cache {
    /// Lists the range, replaces the state with it and subscribes to what comes after.
    pub(super) async fn follow(self: &Arc<Self>) -> Result<(), Error> {
        let began = Instant::now();
        let (entries, revision) = self.load().await?;
        self.replace(entries, revision);
        self.meters.initializations.observe(began.elapsed().as_secs_f64());
        let follower = Arc::new(CacheFollower { cache: Arc::downgrade(self), ended: AtomicBool::new(false) });
        let request = WatchRequest::after(self.range.clone(), revision);
        let subscription = self.store.subscribe(request, follower.clone()).await?;
        let mut state = self.state.write();
        // If the feed has ended already, another task starts following again.
        if !follower.ended.load(Ordering::Acquire) {
            state.progress = subscription.progress().clone();
            *self.subscription.lock() = Some(subscription);
        }
        drop(state);
        self.followed.notify_waiters();
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
        // An object that has not changed keeps its header and renditions.
        let objects: Vec<Arc<Object>> = entries.iter().map(|entry| self.wrap(entry)).collect();
        self.read_index_values(&objects);
        let mut index: HashMap<String, Vec<(Key, Arc<Object>)>> = HashMap::new();
        for object in &objects {
            if let Some(value) = self.index_value(object) {
                index.entry_ref(value).or_default().push((object.key().clone(), object.clone()));
            }
        }
        let mut state = self.state.write();
        state.bytes = objects.iter().map(|object| object.value().len()).sum();
        state.index = index.into_iter().map(|(value, objects)| (value, objects.into_iter().collect())).collect();
        state.objects = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        let mut woken = Vec::new();
        state.channel.reset(revision, &mut woken);
        self.changed.store(revision, Ordering::Release);
        state.applied = revision;
        drop(state);
        self.followed.notify_waiters();
        self.wake(woken);
    }

    /// Reads the indexed field of all objects from their bytes, on all processors if there are many.
    fn read_index_values(&self, objects: &[Arc<Object>]) {
        if self.options.index.is_none() || objects.is_empty() {
            return;
        }
        let read = |objects: &[Arc<Object>]| objects.iter().for_each(|object| _ = self.index_value(object));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let mut parts = objects.chunks(objects.len().div_ceil(threads).max(OBJECTS_PER_THREAD));
            let own = parts.next();
            for part in parts {
                scope.spawn(move || read(part));
            }
            own.into_iter().for_each(read);
        });
    }

    fn apply(&self, batch: &Batch) {
        let arrived = Instant::now();
        let objects = batch.events.iter().map(|change| change.entry.as_ref().map(|entry| self.object(entry.clone())));
        let objects: Vec<Option<Arc<Object>>> = objects.collect();
        if self.options.index.is_some() {
            // Reads the bytes, which readers need not wait for.
            objects.iter().flatten().for_each(|object| _ = self.index_value(object));
        }
        self.received.fetch_add(batch.events.len() as u64, Ordering::Relaxed);
        let mut woken = Vec::new();
        let mut state = self.state.write();
        for (change, object) in batch.events.iter().zip(objects) {
            let event = match object {
                Some(object) => {
                    let previous = self.put(&mut state, object.clone());
                    Event::new(change.revision, Some(object), previous, self.budget.clone()).arriving(arrived)
                }
                None => {
                    let previous = state.objects.remove(&change.key);
                    if let Some(previous) = &previous {
                        state.bytes -= previous.value().len();
                        self.unindex(&mut state, previous);
                    }
                    Event::new(change.revision, None, previous, self.budget.clone()).arriving(arrived)
                }
            };
            self.changed.store(event.revision, Ordering::Release);
            let event = Arc::new(event);
            let [now, before] = [&event.object, &event.previous].map(|object| self.index_value(object.as_ref()?));
            let values = now.into_iter().chain(before.filter(|before| now != Some(*before)));
            state.channel.push(event.clone(), values, &mut woken);
        }
        // Under the same lock: a snapshot's revision must say exactly what it contains.
        state.applied = batch.revision;
        drop(state);
        self.meters.applied.observe_times(arrived.elapsed().as_secs_f64(), batch.events.len() as u64);
        self.wake(woken);
    }
}

/// Feeds a cache. It holds the cache weakly: a cache that is no longer used stops following.
struct CacheFollower {
    cache: Weak<Cache>,
    ended: AtomicBool,
}

impl Subscriber for CacheFollower {
    fn apply(&self, batch: &Batch) {
        if let Some(cache) = self.cache.upgrade() {
            cache.apply(batch);
        }
    }

    fn end(&self, error: storage::Error) {
        let Some(cache) = self.cache.upgrade().filter(|cache| !cache.store.is_closed()) else { return };
        // The feed has ended: its progress says nothing about this cache any more.
        let mut state = cache.state.write();
        self.ended.store(true, Ordering::Release);
        state.applied = state.revision();
        state.progress = Progress::default();
        drop(state);
        tracing::warn!(%error, "the store's change feed ended; listing again");
        // An engine calls this from a thread of its own.
        let runtime = cache.runtime.clone();
        runtime.spawn(async move {
            while let Err(error) = cache.follow().await {
                tracing::warn!(%error, "cannot follow the store; trying again");
                tokio::time::sleep(RETRY).await;
            }
        });
    }
}
