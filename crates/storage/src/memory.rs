//! The engine for tests: everything in memory behind one lock, written to be obviously right rather than fast.
//!
//! History is the list of events since the last compaction. An old state is found by undoing the events after it, so
//! there is no second representation that could disagree with the log.

mod revert;

pub use revert::{Contents, Reverted};

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::{
    Batch, Change, Condition, Entry, Error, Event, Expect, Found, Health, Key, KeyRange, Page, Progress, RangeQuery,
    RefusedWrites, Result, Revision, Status, Store, Subscriber, Subscription, WatchRequest, WatchStream, Write,
    WriteLimits, Written,
};

/// As large as etcd's default, so that tests meet the same limit.
const VALUE_BYTES_MAX: usize = 1_572_864;
/// As many events as one batch carries at most.
const BATCH_EVENTS_MAX: usize = 512;
/// Bytes that an event takes beside its key and values, about.
const EVENT_BYTES: usize = 256;
const LIMITS: WriteLimits = WriteLimits { keys: 1024, bytes: 8 << 20 };

/// A store in memory: for tests, and for servers whose objects end with them.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<SharedMemory>,
}

impl MemoryStore {
    /// A store that keeps its history until it is compacted.
    pub fn new() -> Self {
        MemoryStore::with_history(usize::MAX)
    }

    /// A store that compacts itself when its history takes more than so many bytes.
    pub fn with_history(history_bytes_max: usize) -> Self {
        let state = State { revision: 1, history_bytes_max, ..State::default() };
        MemoryStore { shared: Arc::new(SharedMemory { state: Mutex::new(state), progress: Progress::at(1) }) }
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

struct SharedMemory {
    state: Mutex<State>,
    /// How far all subscribers have been told: to the state's revision. Wakes watchers too, in the order in which they began to wait.
    progress: Progress,
}

#[derive(Default)]
struct State {
    revision: Revision,
    compacted: Revision,
    current: BTreeMap<Key, Arc<Entry>>,
    log: VecDeque<Arc<Event>>,
    /// Bytes that the events of the log take, and may take.
    log_bytes: usize,
    history_bytes_max: usize,
    /// What each wants, after which revision.
    subscribers: BTreeMap<u64, (KeyRange, Revision, Arc<dyn Subscriber>)>,
    next_subscriber: u64,
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        let page = self.range(RangeQuery { at, ..RangeQuery::new(KeyRange::single(key)) }).await?;
        Ok(Found { entry: page.entries.into_iter().next(), revision: page.revision })
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        let state = self.shared.state.lock();
        let at = query.at.unwrap_or(state.revision);
        state.readable(at)?;
        let all = state.as_of(&query.range, at);
        let limit = query.limit.unwrap_or(usize::MAX);
        let (count, enough) = (all.len(), query.enough_bytes.unwrap_or(usize::MAX));
        let mut bytes = 0;
        let entries = all.into_values().take(limit).take_while(|entry| {
            let is_wanted = bytes < enough;
            bytes += entry.value.len();
            is_wanted
        });
        let entries: Vec<Arc<Entry>> = entries.map(|entry| shown(entry, query.keys_only)).collect();
        Ok(Page { more: count > entries.len() && limit > 0, count, revision: at, entries })
    }

    async fn write(&self, write: Write) -> Result<Written> {
        match self.write_all(vec![write]).await {
            Ok(mut written) => written.pop().ok_or(Error::NotFound),
            Err(refused) => Err(refused.error),
        }
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let is_too_large =
            |write: &Write| matches!(&write.change, Change::Put { value, .. } if value.len() > VALUE_BYTES_MAX);
        if let Some(at) = writes.iter().position(is_too_large) {
            let error = Error::TooLarge { size: writes[at].size() - writes[at].key.len(), limit: VALUE_BYTES_MAX };
            return Err(RefusedWrites { at, error });
        }
        LIMITS.check(&writes)?;
        let expiring: Vec<Option<(Key, Duration)>> = writes.iter().map(Write::expiring).collect();
        let written = self.shared.commit(writes)?;
        for (expiring, written) in expiring.into_iter().zip(&written) {
            if let Some((key, ttl)) = expiring {
                tokio::spawn(expire(Arc::downgrade(&self.shared), key, written.revision, ttl));
            }
        }
        Ok(written)
    }

    fn write_limits(&self) -> WriteLimits {
        LIMITS
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        let position = self.shared.state.lock().start_of(&request)?;
        let cursor = Cursor { shared: self.shared.clone(), request, position, marked: 0, ended: false };
        Ok(Box::pin(futures::stream::unfold(cursor, |mut cursor| async { Some((cursor.next().await?, cursor)) })))
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        let mut state = self.shared.state.lock();
        let after = state.start_of(&request)?;
        state.tell(&*subscriber, &request.range, after);
        let id = state.next_subscriber;
        state.next_subscriber += 1;
        state.subscribers.insert(id, (request.range, after, subscriber));
        Ok(Subscription::new(self.shared.progress.clone(), Unsubscribe { shared: Arc::downgrade(&self.shared), id }))
    }

    fn delivers_in_commit(&self) -> bool {
        true
    }

    async fn progress(&self) -> Result<Revision> {
        Ok(self.shared.state.lock().revision)
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let mut state = self.shared.state.lock();
        if revision > state.revision {
            return Err(Error::FutureRevision { requested: revision, current: state.revision });
        }
        state.compacted = state.compacted.max(revision);
        while state.log.front().is_some_and(|event| event.revision <= revision) {
            state.forget_first();
        }
        Ok(())
    }

    fn compacted(&self, _: &KeyRange) -> Revision {
        self.shared.state.lock().compacted
    }

    async fn status(&self) -> Result<Status> {
        let state = self.shared.state.lock();
        let size = state.current.values().map(|entry| (entry.key.len() + entry.value.len()) as u64).sum();
        Ok(Status {
            revision: state.revision,
            compacted: state.compacted,
            size,
            size_in_use: size,
            health: Health::Healthy,
            log: None,
        })
    }
}

impl SharedMemory {
    fn commit(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let mut state = self.state.lock();
        for (at, write) in writes.iter().enumerate() {
            write.check(state.current.get(&write.key)).map_err(|error| RefusedWrites { at, error })?;
        }
        let before = state.revision;
        let written = writes.into_iter().map(|write| {
            let event = state.put(write.key, write.change);
            let (entry, previous) = (event.entry.clone(), event.previous.clone());
            let removed = if entry.is_none() { previous } else { None };
            Written { revision: event.revision, entry, previous: removed }
        });
        let written = written.collect();
        for (range, after, subscriber) in state.subscribers.values() {
            state.tell(&**subscriber, range, (*after).max(before));
        }
        state.trim();
        self.progress.advance(state.revision);
        Ok(written)
    }
}

impl State {
    /// Makes a change, which gets the next revision.
    fn put(&mut self, key: Key, change: Change) -> Arc<Event> {
        let (revision, previous) = (self.revision + 1, self.current.get(&key).cloned());
        let entry = match change {
            Change::Put { value, ttl } => Some(Arc::new(Entry {
                key: key.clone(),
                value,
                create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
                mod_revision: revision,
                version: previous.as_ref().map_or(1, |entry| entry.version + 1),
                lease: if ttl.is_some() { revision } else { 0 },
                condition: Condition::Good,
            })),
            Change::Delete => None,
        };
        match &entry {
            Some(entry) => self.current.insert(key.clone(), entry.clone()),
            None => self.current.remove(&key),
        };
        let event = Arc::new(Event { revision, key, entry, previous });
        self.log_bytes += bytes_of(&event);
        self.log.push_back(event.clone());
        self.revision = revision;
        event
    }

    fn forget_first(&mut self) -> Option<Arc<Event>> {
        let event = self.log.pop_front()?;
        self.log_bytes -= bytes_of(&event);
        Some(event)
    }

    /// Compacts what history has beyond its limit.
    fn trim(&mut self) {
        while self.log_bytes > self.history_bytes_max
            && let Some(event) = self.forget_first()
        {
            self.compacted = event.revision;
        }
    }

    /// The given range as it was after revision `at`: the present with everything later undone.
    fn as_of(&self, range: &KeyRange, at: Revision) -> BTreeMap<Key, Arc<Entry>> {
        if range.is_empty() {
            return BTreeMap::new();
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_bytes()));
        let present = self.current.range::<[u8], _>((Bound::Included(range.start.as_bytes()), end));
        let mut entries: BTreeMap<_, _> = present.map(|(key, entry)| (key.clone(), entry.clone())).collect();
        let later = self.log.iter().rev().take_while(|event| event.revision > at);
        for event in later.filter(|event| range.contains(&event.key)) {
            match &event.previous {
                Some(previous) => entries.insert(event.key.clone(), previous.clone()),
                None => entries.remove(&event.key),
            };
        }
        entries
    }

    fn readable(&self, at: Revision) -> Result<()> {
        if at < self.compacted {
            return Err(Error::Compacted { requested: at, compacted: self.compacted });
        }
        if at > self.revision {
            return Err(Error::FutureRevision { requested: at, current: self.revision });
        }
        Ok(())
    }

    fn start_of(&self, request: &WatchRequest) -> Result<Revision> {
        let after = request.after.unwrap_or(self.revision);
        if after < self.compacted {
            return Err(Error::Compacted { requested: after, compacted: self.compacted });
        }
        Ok(after)
    }

    fn tell(&self, subscriber: &dyn Subscriber, range: &KeyRange, after: Revision) {
        let batch = self.batch(range, after, usize::MAX);
        if !batch.events.is_empty() {
            subscriber.apply(&batch);
        }
    }

    fn batch(&self, range: &KeyRange, after: Revision, limit: usize) -> Batch {
        let first = self.log.partition_point(|event| event.revision <= after);
        let mut batch = Batch { events: Vec::new(), revision: self.revision };
        for event in self.log.range(first..).filter(|event| range.contains(&event.key)) {
            if batch.events.len() == limit {
                batch.revision = event.revision - 1;
                break;
            }
            batch.events.push(event.clone());
        }
        batch
    }
}

/// A watcher: how far it got, and what it wants.
struct Cursor {
    shared: Arc<SharedMemory>,
    request: WatchRequest,
    position: Revision,
    /// The revision of the last delivered batch.
    marked: Revision,
    ended: bool,
}

impl Cursor {
    async fn next(&mut self) -> Option<Result<Batch>> {
        while !self.ended {
            let reached_before = self.shared.progress.revision();
            let batch = {
                let state = self.shared.state.lock();
                if self.position < state.compacted {
                    self.ended = true;
                    return Some(Err(Error::Compacted { requested: self.position, compacted: state.compacted }));
                }
                state.batch(&self.request.range, self.position, BATCH_EVENTS_MAX)
            };
            // A watcher may wait for a revision in the future; until then there is nothing to tell it.
            let reached = batch.revision >= self.position;
            self.position = self.position.max(batch.revision);
            if !batch.events.is_empty() || (self.request.marks && reached && batch.revision > self.marked) {
                self.marked = batch.revision;
                return Some(Ok(batch));
            }
            self.shared.progress.reach(reached_before + 1).await;
        }
        None
    }
}

struct Unsubscribe {
    shared: Weak<SharedMemory>,
    id: u64,
}

impl Drop for Unsubscribe {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state.lock().subscribers.remove(&self.id);
        }
    }
}

/// Deletes the key when its time has come, unless it was written again.
async fn expire(shared: Weak<SharedMemory>, key: Key, revision: Revision, ttl: Duration) {
    tokio::time::sleep(ttl).await;
    if let Some(shared) = shared.upgrade() {
        let expired = shared.commit(vec![Write { key, change: Change::Delete, expect: Expect::At(revision) }]);
        drop(expired);
    }
}

impl Write {
    fn expiring(&self) -> Option<(Key, Duration)> {
        match &self.change {
            Change::Put { ttl, .. } => ttl.map(|ttl| (self.key.clone(), ttl)),
            Change::Delete => None,
        }
    }
}

/// Bytes that an event keeps in memory, about.
fn bytes_of(event: &Event) -> usize {
    let values = event.entry.iter().chain(&event.previous).map(|entry| entry.value.len());
    EVENT_BYTES + event.key.len() + values.sum::<usize>()
}

fn shown(entry: Arc<Entry>, keys_only: bool) -> Arc<Entry> {
    if keys_only { Arc::new(Entry { value: Default::default(), ..(*entry).clone() }) } else { entry }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn store() -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }

    crate::suite!(store);

    #[tokio::test]
    async fn history_has_a_limit() {
        let store = MemoryStore::with_history(10 * 1024);
        let mut watch = store.watch(WatchRequest::after(KeyRange::prefix("/"), 1)).await.unwrap();
        for round in 0..100 {
            let put = Change::Put { value: vec![round; 1000].into(), ttl: None };
            store.write(Write { key: "/a".into(), change: put, expect: Expect::Any }).await.unwrap();
        }
        let status = store.status().await.unwrap();
        assert_eq!((status.revision, status.compacted > 90), (101, true), "{status:?}");
        assert!(store.get(b"/a", Some(status.compacted)).await.unwrap().entry.is_some());
        assert!(matches!(store.get(b"/a", Some(status.compacted - 1)).await, Err(Error::Compacted { .. })));
        // One that did not keep up is told so.
        let next = futures::StreamExt::next(&mut watch).await;
        assert!(matches!(next, Some(Err(Error::Compacted { .. }))));
    }
}
