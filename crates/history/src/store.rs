//! [`RecordedStore`]: the layer that notes who made which change, and answers from the past.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use storage::{
    Entry, Error as StoreError, Key, KeyRange, Layer, Page, RangeQuery, RefusedWrites, Result as StoreResult, Revision,
    Store, Write, Written,
};

use crate::archive::Archive;
use crate::change::{Change, Origin, Replaced};
use crate::error::Error;
use crate::origin::{Origins, Unanswered, current};
use crate::recorder::Recorder;
use crate::step::participant;

/// How many present entries are read at once while they are compared with the past.
const ENTRIES: usize = 500;
const READ_BYTES: usize = 1 << 20;
/// How many changes are read at once.
const CHANGES: usize = 256;

/// A store whose changes are recorded. Encryption is above it: what is kept is what is stored.
pub struct RecordedStore {
    below: Arc<dyn Store>,
    recorder: Arc<Recorder>,
    writes: AttributedWrites,
    counts: Mutex<RememberedCounts>,
}

impl RecordedStore {
    /// A store whose changes this recorder records.
    pub(crate) fn of(below: Arc<dyn Store>, recorder: Arc<Recorder>, origins: Arc<Origins>) -> RecordedStore {
        let archive = recorder.archive().clone();
        let writes = AttributedWrites { below: below.clone(), archive, origins };
        RecordedStore { below, recorder, writes, counts: Mutex::default() }
    }
}

/// Makes writes, and notes which requests made them.
#[derive(Clone)]
pub(crate) struct AttributedWrites {
    below: Arc<dyn Store>,
    archive: Arc<Archive>,
    origins: Arc<Origins>,
}

impl AttributedWrites {
    async fn write(&self, write: Write) -> StoreResult<Written> {
        let Some(unanswered) = self.origins.begin(&write.key, current()) else { return self.below.write(write).await };
        let written = self.below.write(write).await;
        if let Ok(written) = &written {
            unanswered.made(written.revision, (self.archive.options().clock.now)());
        }
        written
    }

    pub async fn write_all(&self, writes: Vec<(Write, Option<Arc<Origin>>)>) -> Result<Vec<Written>, RefusedWrites> {
        let begin = |(write, origin): (Write, Option<Arc<Origin>>)| (self.origins.begin(&write.key, origin), write);
        let (unanswered, writes): (Vec<Option<Unanswered<'_>>>, Vec<Write>) = writes.into_iter().map(begin).unzip();
        let written = self.below.write_all(writes).await?;
        let now = (self.archive.options().clock.now)();
        for (unanswered, written) in unanswered.iter().zip(&written) {
            if let Some(unanswered) = unanswered {
                unanswered.made(written.revision, now);
            }
        }
        Ok(written)
    }
}

#[async_trait]
impl Layer for RecordedStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn write(&self, write: Write) -> StoreResult<Written> {
        match participant(&write.key) {
            Some(participant) => participant.write(&self.writes, write).await,
            None => self.writes.write(write).await,
        }
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let origin = current();
        self.writes.write_all(writes.into_iter().map(|write| (write, origin.clone())).collect()).await
    }

    async fn range(&self, query: RangeQuery) -> StoreResult<Page> {
        let Some(at) = query.at.filter(|_| query.recorded) else { return self.below.range(query).await };
        match self.below.range(query.clone()).await {
            Err(StoreError::Compacted { .. }) => self.recorded(query, at).await,
            other => other,
        }
    }

    async fn close(&self) {
        self.recorder.close().await;
        self.below.close().await;
    }
}

impl RecordedStore {
    /// As `recorded`, of one key: no file is read if it has not changed since, and none after the one that has the first change.
    async fn recorded_one(&self, query: RangeQuery, at: Revision) -> StoreResult<Page> {
        let key = query.range.start;
        let found = self.below.get(&key, None).await?;
        let is_there = found.entry.is_some();
        let mut entry = found.entry.filter(|entry| entry.mod_revision <= at);
        if entry.is_none() {
            self.recorder.check_kept(&key, at).await.map_err(failed)?;
            self.recorder.reached(found.revision).await.map_err(failed)?;
            let archive = self.recorder.archive().clone();
            entry = match blocking(move || archive.first_after(&key, at)).await?.map(|change| change.replaced) {
                Some(Replaced::Entry(entry)) => Some(entry),
                Some(Replaced::Nothing) => None,
                None if !is_there => None,
                Some(Replaced::Unknown) | None => return Err(failed(Error::NotKept(at))),
            };
        }
        let entries: Vec<_> = entry.into_iter().collect();
        Ok(Page { count: entries.len(), entries, more: false, revision: at })
    }

    /// The entries at a revision that the store has forgotten.
    async fn recorded(&self, query: RangeQuery, at: Revision) -> StoreResult<Page> {
        if query.range == KeyRange::single(query.range.start.clone()) {
            return self.recorded_one(query, at).await;
        }
        let archive = self.recorder.archive().clone();
        self.recorder.check_kept(&query.range.start, at).await.map_err(failed)?;
        // The present that the past is compared with must be recorded.
        let now = self.below.progress_of(&query.range).await?;
        self.recorder.reached(now).await.map_err(failed)?;
        let known_count = self.counts.lock().of(&query, at);
        let mut past = PastPage { entries: Vec::new(), bytes: 0, count: 0, known_count, is_full: false, query: &query };
        let present =
            Present { below: &*self.below, range: Some(query.range.clone()), revision: now, at: 0, page: Vec::new() };
        let changes = blocking({
            let (archive, range) = (archive.clone(), query.range.clone());
            move || archive.first_changes(&range, at)
        });
        past.merge(present, changes.await?, at).await?;
        let count = past.known_count.unwrap_or(past.count);
        let more = count > past.entries.len();
        if let Some(last) = past.entries.last().filter(|_| more) {
            let rest = query.range.after(&last.key);
            self.counts.lock().put(CountedRange { range: rest, at, count: count - past.entries.len() });
        }
        Ok(Page { entries: past.entries, more, count, revision: at })
    }
}

/// How many entries there were in ranges that were read in part, so that each page of a long list does not count all that follow.
#[derive(Default)]
struct RememberedCounts(VecDeque<CountedRange>);

struct CountedRange {
    range: KeyRange,
    at: Revision,
    count: usize,
}

const COUNTS_MAX: usize = 64;

impl RememberedCounts {
    fn of(&self, query: &RangeQuery, at: Revision) -> Option<usize> {
        let found = self.0.iter().find(|known| known.at == at && known.range == query.range);
        found.map(|known| known.count)
    }

    fn put(&mut self, counted: CountedRange) {
        if self.0.len() == COUNTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(counted);
    }
}

/// The page of the past that is being collected.
struct PastPage<'a> {
    entries: Vec<Arc<Entry>>,
    bytes: usize,
    count: usize,
    /// How many there are, if that was counted for the page before.
    known_count: Option<usize>,
    is_full: bool,
    query: &'a RangeQuery,
}

impl PastPage<'_> {
    /// Goes through the present and the changes since, both in the order of keys: where something has changed, what the first change
    /// replaced was there.
    async fn merge(
        &mut self,
        mut present: Present<'_>,
        mut changes: crate::segment::FirstChanges,
        at: Revision,
    ) -> StoreResult<()> {
        let mut read: VecDeque<Change> = VecDeque::new();
        let mut change = None;
        let mut has_more = true;
        loop {
            if self.is_full && self.known_count.is_some() {
                return Ok(());
            }
            if change.is_none() && read.is_empty() && has_more {
                changes.without_values(self.is_full);
                (read, changes) = blocking(move || Ok((changes.some(CHANGES, READ_BYTES)?, changes))).await?;
                has_more = !read.is_empty();
            }
            change = change.or_else(|| read.pop_front());
            let entry = present.peek().await?;
            let key = match (&change, &entry) {
                (None, None) => return Ok(()),
                (Some(change), None) => change.head.key.clone(),
                (None, Some(entry)) => entry.key.clone(),
                (Some(change), Some(entry)) => change.head.key.clone().min(entry.key.clone()),
            };
            let unchanged = entry.filter(|entry| entry.key == key);
            if unchanged.is_some() {
                present.step();
            }
            match change.take_if(|change| change.head.key == key).map(|change| change.replaced) {
                Some(Replaced::Entry(entry)) => self.add(entry),
                Some(Replaced::Nothing) => {}
                Some(Replaced::Unknown) => return Err(failed(Error::NotKept(at))),
                None => match unchanged {
                    Some(entry) if entry.mod_revision <= at => self.add(entry),
                    // It has changed, and the change is not recorded.
                    _ => return Err(failed(Error::NotKept(at))),
                },
            }
        }
    }

    fn add(&mut self, entry: Arc<Entry>) {
        self.count += 1;
        let limit = self.query.limit.unwrap_or(usize::MAX);
        let enough = self.query.enough_bytes.unwrap_or(usize::MAX);
        self.is_full |= self.entries.len() >= limit || self.bytes >= enough && !self.entries.is_empty();
        if self.is_full {
            return;
        }
        self.bytes += entry.value.len();
        match self.query.keys_only {
            true => self.entries.push(Arc::new(Entry { value: Default::default(), ..(*entry).clone() })),
            false => self.entries.push(entry),
        }
    }
}

/// The present entries of the store, read bit by bit.
struct Present<'a> {
    below: &'a dyn Store,
    range: Option<KeyRange>,
    revision: Revision,
    page: Vec<Arc<Entry>>,
    at: usize,
}

impl Present<'_> {
    async fn peek(&mut self) -> StoreResult<Option<Arc<Entry>>> {
        while self.at == self.page.len() {
            let Some(range) = self.range.take() else { return Ok(None) };
            let query = RangeQuery::new(range.clone()).at(self.revision).limit(ENTRIES).enough_bytes(READ_BYTES);
            let page = self.below.range(query).await?;
            self.range = page.entries.last().filter(|_| page.more).map(|last| range.after(&last.key));
            (self.page, self.at) = (page.entries, 0);
        }
        Ok(self.page.get(self.at).cloned())
    }

    fn step(&mut self) {
        self.at += 1;
    }
}

/// Runs what waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> crate::Result<T> + Send + 'static) -> StoreResult<T> {
    crate::recorder::blocking(work).await.map_err(failed)
}

/// As reads of the store fail.
fn failed(error: Error) -> StoreError {
    match error {
        Error::NotKept(revision) => {
            StoreError::Compacted { requested: revision, compacted: revision.saturating_add(1) }
        }
        Error::Store(error) => error,
        Error::Damaged { path, what } => {
            StoreError::Corrupt { key: Key::from("history"), message: Error::Damaged { path, what }.to_string() }
        }
        other => StoreError::Unavailable(other.to_string()),
    }
}
