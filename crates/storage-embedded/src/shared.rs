//! What the writer thread and all readers share, and reading it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use storage::{
    Batch, Entry, Error, Found, Health, KeyRange, LogStatus, Page, Progress, RangeQuery, Result, Revision, Status,
};

use crate::alone::StallGuard;
use crate::checkpoint::Checkpoint;
use crate::disk::Disk;
use crate::expiry::StoreClock;
use crate::log;
use crate::notifier::Notifier;
use crate::options::{BATCH_EVENTS_MAX, EmbeddedOptions, FETCHED_AT_ONCE, SCAN_EVENTS_MAX};
use crate::queue::{Job, Queue};
use crate::ring::Ring;
use crate::state::{Located, State};

pub(crate) struct Shared {
    pub options: EmbeddedOptions,
    /// By which keys expire.
    pub clock: StoreClock,
    pub queue: Queue,
    pub disk: Disk,
    /// The state as of the last commit. It is locked for moments only: readers of more than one current entry
    /// take a copy.
    pub state: RwLock<State>,
    pub ring: RwLock<Ring>,
    pub notifier: Notifier,
    /// How far all subscribers have been told.
    pub told: Progress,
    pub checkpoint: Checkpoint,
    pub stalls: StallGuard,
    /// Why nothing can be committed, if so.
    pub outage: Mutex<Option<String>>,
    /// Why writes that need room are refused, if so.
    pub shortage: Mutex<Option<String>>,
    pub wal_size: AtomicU64,
    pub commits: CommitTimes,
    /// That of the write-ahead log's file which has the last group.
    pub wal_generation: AtomicU64,
    /// Bytes of all records in the file.
    pub file_bytes: AtomicI64,
}

impl Shared {
    /// That of the last commit.
    pub fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub async fn get(self: &Arc<Self>, key: &[u8], at: Option<Revision>) -> Result<Found> {
        let Some(at) = at else {
            let state = self.state.read();
            return Ok(Found { entry: state.current.get(key).cloned(), revision: state.revision });
        };
        let located = {
            let state = self.state.read().clone();
            state.readable(at)?;
            state.find(key, at).into_iter().collect()
        };
        let entry = self.fetch(located, at).await?.into_iter().next();
        Ok(Found { entry, revision: at })
    }

    pub async fn range(self: &Arc<Self>, query: RangeQuery) -> Result<Page> {
        let state = self.state.read().clone();
        let at = query.at.unwrap_or(state.revision);
        state.readable(at)?;
        let limit = query.limit.unwrap_or(usize::MAX);
        let range = &query.range;
        let (entries, count) = if range.is_empty() {
            (Vec::new(), 0)
        } else if at == state.revision {
            let before = state.current.rank(&range.start);
            let upto = range.end.as_ref().map_or(state.current.len(), |end| state.current.rank(end));
            (state.current.range(&range.start, range.end.as_deref()).take(limit).cloned().collect(), upto - before)
        } else {
            let (located, count) = state.find_range(range, at, limit);
            let (mut entries, mut bytes) = (Vec::with_capacity(located.len()), 0);
            for some in
                located.chunks(if query.enough_bytes.is_some() { FETCHED_AT_ONCE } else { located.len().max(1) })
            {
                let fetched = self.fetch(some.to_vec(), at).await?;
                bytes += fetched.iter().map(|entry| entry.value.len()).sum::<usize>();
                entries.extend(fetched);
                if query.enough_bytes.is_some_and(|enough| bytes >= enough) {
                    break;
                }
            }
            (entries, count)
        };
        let more = limit > 0 && count > entries.len();
        let entries = if query.keys_only { entries.into_iter().map(without_value).collect() } else { entries };
        Ok(Page { entries, more, count, revision: at })
    }

    /// Brings what is only in the log.
    async fn fetch(self: &Arc<Self>, located: Vec<Located>, at: Revision) -> Result<Vec<Arc<Entry>>> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        {
            let ring = self.ring.read();
            for item in &located {
                if let Located::Logged { key, revision } = item {
                    match ring.entry(*revision) {
                        Some(entry) => drop(found.insert(*revision, entry)),
                        None => missing.push((key.clone(), *revision)),
                    }
                }
            }
        }
        if !missing.is_empty() {
            let read = move |shared: &Shared| shared.disk.read(|reader| log::entries(reader, &missing));
            found.extend(self.blocking(read).await?);
        }
        let resolve = |item| match item {
            Located::Here(entry) => Ok(entry),
            Located::Logged { key, revision } => found.remove(&revision).ok_or_else(|| {
                // Compaction came between finding out where it is and reading it.
                let compacted = self.state.read().compacted;
                if at < compacted {
                    return Error::Compacted { requested: at, compacted };
                }
                Error::corrupt(key, format!("the file has lost revision {revision}"))
            }),
        };
        located.into_iter().map(resolve).collect()
    }

    /// The next events of a range, from memory if they are there. Reads the file otherwise, so do not call it from a task.
    pub fn events_after(&self, range: &KeyRange, position: Revision) -> Result<Batch> {
        if let Some(batch) = self.ring.read().after(position, range, BATCH_EVENTS_MAX, SCAN_EVENTS_MAX) {
            return Ok(batch);
        }
        // Up to here the database has everything; the rest is in the ring.
        let last = self.ring.read().floor();
        self.disk.read(|reader| reader.events(range, position, last))
    }

    /// Runs something that may wait for the disk where it does not hold up other tasks.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&shared));
        task.await.unwrap_or_else(|error| Err(Error::unavailable(error)))
    }

    pub fn status(&self) -> Status {
        let (revision, compacted) = {
            let state = self.state.read();
            (state.revision, state.compacted)
        };
        let size = self.disk.size() + self.wal_size.load(Ordering::Relaxed);
        let failure = self.outage.lock().clone().or_else(|| self.checkpoint.failure());
        let health = match (failure, self.shortage.lock().clone()) {
            (Some(failure), _) => Health::Degraded(failure),
            (None, Some(shortage)) => Health::Full(shortage),
            (None, None) => Health::Healthy,
        };
        Status {
            revision,
            compacted,
            size,
            size_in_use: u64::try_from(self.file_bytes.load(Ordering::Relaxed)).unwrap_or(0).min(size),
            health,
            log: Some(self.log_status()),
        }
    }

    fn log_status(&self) -> LogStatus {
        let nanos = |count: &AtomicU64| Duration::from_nanos(count.load(Ordering::Relaxed));
        LogStatus {
            size: self.wal_size.load(Ordering::Relaxed),
            pending: self.checkpoint.pending_bytes() as u64,
            checkpoint: self.checkpoint.revision(),
            commits: self.commits.count.load(Ordering::Relaxed),
            commit_time: nanos(&self.commits.nanos),
            commit_time_max: nanos(&self.commits.nanos_max),
        }
    }
}

/// How long commits have taken.
#[derive(Default)]
pub(crate) struct CommitTimes {
    count: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

impl CommitTimes {
    /// Only the writer calls this.
    pub fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }
}

fn without_value(entry: Arc<Entry>) -> Arc<Entry> {
    Arc::new(Entry { value: Bytes::new(), ..(*entry).clone() })
}

/// Ends a subscription when it is dropped.
pub(crate) struct Unsubscribe {
    pub shared: Weak<Shared>,
    pub number: u64,
}

impl Drop for Unsubscribe {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            // A store that is closed has no subscribers.
            drop(shared.queue.put(Job::Unsubscribe(self.number)));
        }
    }
}
