//! Reading the file: all of it at the start, and pieces of history later.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata};
use storage::meter::{Meter, Step};
use storage::{Batch, Entry, Error, Event, Key, KeyRange, Result, Revision};

use crate::disk::{BASE, FIRST_REVISION, LOG, META};
use crate::error::OpenError;
use crate::expiry::Deadlines;
use crate::numbers::{Content, Log, Numbers};
use crate::options::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, SCAN_EVENTS_MAX};
use crate::record::{Layout, Record, records};
use crate::ring::weight;
use crate::state::State;
use crate::versions::Version;
use crate::wal::{self, Replay};

/// One consistent view of the file.
pub(crate) struct LogReader {
    log: ReadOnlyTable<Revision, &'static [u8]>,
    base: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub numbers: Numbers,
    meter: Option<Arc<Meter>>,
}

/// What the file adds up to.
#[derive(Default)]
pub(crate) struct Loaded {
    pub state: State,
    pub deadlines: Deadlines,
    /// The last revision in the database.
    pub checkpointed: Revision,
    /// Whether the store was closed in order, so that the write-ahead log has nothing more.
    pub is_clean: bool,
    /// The write-ahead log that belongs to the database.
    pub log: Log,
    /// The store's clock; 0 if it was never used.
    pub time: i64,
    /// Bytes of all records, and of those that are history.
    pub bytes: u64,
    pub history_bytes: u64,
    pub records: u64,
}

impl LogReader {
    pub fn new(transaction: &ReadTransaction) -> Result<Self> {
        let log = transaction.open_table(LOG).map_err(failed)?;
        let base = transaction.open_table(BASE).map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        Ok(LogReader { log, base, numbers: Numbers::read(&meta).map_err(failed)?, meter: None })
    }

    /// Counts what is read from here on.
    pub fn metered(self, meter: Option<&Arc<Meter>>) -> Self {
        LogReader { meter: meter.cloned(), ..self }
    }

    /// Begins to read everything, for this purpose.
    pub fn begin(&self, step: Step) -> Result<()> {
        if let Some(meter) = &self.meter {
            meter.begin(step, self.log.len().map_err(failed)? + self.base.len().map_err(failed)?);
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.add(bytes);
        }
    }

    /// The records of a chunk or of an entry of the base.
    fn records<'a>(&self, chunk: &'a [u8]) -> impl Iterator<Item = Result<Record<'a>>> + use<'a> {
        records(chunk, self.numbers.layout()).map(|record| record.map_err(damaged))
    }

    /// The last revision that was given to a change.
    pub fn last_revision(&self) -> Result<Revision> {
        let floor = self.numbers.revision.max(self.numbers.folded);
        let Some((_, chunk)) = self.log.last().map_err(failed)? else { return Ok(floor) };
        let mut last = floor;
        for record in self.records(chunk.value()) {
            last = last.max(record?.revision);
        }
        Ok(last)
    }

    /// Every chunk of the log in order.
    pub fn each_chunk<E: From<Error>>(&self, mut visit: impl FnMut(Revision, &[u8]) -> Result<(), E>) -> Result<(), E> {
        for item in self.log.iter().map_err(failed)? {
            let (first, chunk) = item.map_err(failed)?;
            visit(first.value(), chunk.value())?;
            self.count(chunk.value().len());
        }
        Ok(())
    }

    /// Every record of the base in order of keys.
    pub fn each_base<E: From<Error>>(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        for item in self.base.iter().map_err(failed)? {
            let (key, record) = item.map_err(failed)?;
            visit(key.value(), record.value())?;
            self.count(record.value().len());
        }
        Ok(())
    }

    /// What this revision wrote to this key; none if compaction has removed it.
    pub fn entry(&self, key: &[u8], revision: Revision) -> Result<Option<Arc<Entry>>> {
        let in_log = self.log.range(..=revision).map_err(failed)?.next_back().transpose().map_err(failed)?;
        let in_base = || self.base.get(key).map_err(failed);
        let found = |chunk: &[u8]| {
            let wanted = |record: &Record| record.revision == revision && record.key == key;
            for record in self.records(chunk) {
                let record = record?;
                if wanted(&record) {
                    return Ok(record.entry());
                }
            }
            Ok(None)
        };
        match in_log.map(|(_, chunk)| found(chunk.value())).transpose()?.flatten() {
            Some(entry) => Ok(Some(entry)),
            None => Ok(in_base()?.map(|record| found(record.value())).transpose()?.flatten()),
        }
    }

    /// The events of a range after a revision, up to `last`, as many as one batch takes.
    pub fn events(&self, range: &KeyRange, after: Revision, last: Revision) -> Result<Batch> {
        let compacted = self.numbers.compacted;
        if after < compacted {
            return Err(Error::Compacted { requested: after, compacted });
        }
        let mut batch = Batch { events: Vec::new(), revision: last };
        let (mut bytes, mut passed) = (0, 0);
        // The chunk that begins at or before the first wanted revision may have it.
        let first = self.log.range(..=after + 1).map_err(failed)?.next_back().transpose().map_err(failed)?;
        let start = first.map_or(Revision::MIN, |(first, _)| first.value());
        let chunks = self.log.range((Bound::Included(start), Bound::Included(last))).map_err(failed)?;
        for chunk in chunks {
            let (_, chunk) = chunk.map_err(failed)?;
            for record in self.records(chunk.value()) {
                let record = record?;
                if record.revision <= after || record.revision > last {
                    continue;
                }
                if passed == SCAN_EVENTS_MAX || batch.events.len() == BATCH_EVENTS_MAX || bytes > BATCH_BYTES_MAX {
                    batch.revision = record.revision - 1;
                    return Ok(batch);
                }
                passed += 1;
                if range.contains(record.key) {
                    let event = self.event(&record)?;
                    bytes += weight(&event);
                    batch.events.push(event);
                }
            }
        }
        Ok(batch)
    }

    fn event(&self, record: &Record) -> Result<Arc<Event>> {
        let lost = || {
            let message = format!("the file has lost revision {}, which {} replaced", record.previous, record.revision);
            Error::corrupt(record.key, message)
        };
        let previous = match record.previous {
            0 => None,
            before => Some(self.entry(record.key, before)?.ok_or_else(lost)?),
        };
        let entry = record.entry();
        let key = entry.as_ref().map_or_else(|| Key::from(record.key), |entry| entry.key.clone());
        Ok(Arc::new(Event { revision: record.revision, key, entry, previous }))
    }

    /// Reads the whole file, and checks that nothing in it is damaged or missing.
    pub fn load(&self) -> Result<Loaded> {
        let numbers = self.numbers;
        let mut loaded =
            Loaded { is_clean: numbers.is_clean, log: numbers.log, time: numbers.time, ..Loaded::default() };
        let (folded, compacted, revision) = (numbers.folded, numbers.compacted, self.last_revision()?);
        if folded > compacted || compacted > revision {
            let numbers = format!("folded {folded}, compacted {compacted}, revision {revision}");
            return Err(damaged(format!("its numbers contradict each other: {numbers}")));
        }
        self.begin(Step::Records)?;
        self.load_base(&mut loaded)?;
        self.load_log(&mut loaded, revision)?;
        loaded.state.revision = revision;
        loaded.checkpointed = revision;
        loaded.state.compacted = compacted;
        for entry in loaded.state.current.iter() {
            loaded.deadlines.add(Some(entry));
        }
        Ok(loaded)
    }

    fn load_base(&self, loaded: &mut Loaded) -> Result<()> {
        let mut content = Content::default();
        self.each_base(|key, bytes| {
            let record = only_record(bytes, self.numbers.layout()).map_err(|error| at_key(key, error))?;
            if record.key != key || record.is_delete || record.revision > self.numbers.folded {
                return Err(Error::corrupt(key, "the base has a record that does not belong there"));
            }
            content.add(record.checksum);
            loaded.count(&record);
            if let Some(entry) = record.entry() {
                loaded.state.current.insert(entry);
            }
            Ok(())
        })?;
        if self.numbers.layout() == Layout::Checked && content != self.numbers.base {
            let (found, expected) = (content.records, self.numbers.base.records);
            return Err(damaged(format!("the base has {found} records, and not the {expected} that belong there")));
        }
        Ok(())
    }

    fn load_log(&self, loaded: &mut Loaded, revision: Revision) -> Result<()> {
        let mut last = self.numbers.folded.max(FIRST_REVISION);
        self.each_chunk(|first, chunk| {
            for (index, record) in self.records(chunk).enumerate() {
                let record = record?;
                let follows = match self.numbers.layout() {
                    // A store that was restored by an earlier version has skipped revisions.
                    Layout::Plain => record.revision > last,
                    Layout::Checked => record.revision == last + 1,
                };
                if !follows || (index == 0 && record.revision != first) {
                    return Err(damaged(format!("revision {} follows {last}", record.revision)));
                }
                last = record.revision;
                loaded.count(&record);
                if record.revision > self.numbers.compacted {
                    loaded.history_bytes += record.bytes.len() as u64;
                }
                loaded.add(&record)?;
            }
            Ok(())
        })?;
        if self.numbers.layout() == Layout::Checked && last != revision {
            return Err(damaged(format!("the log ends at revision {last}, not at {revision}")));
        }
        Ok(())
    }
}

impl Loaded {
    fn count(&mut self, record: &Record) {
        self.records += 1;
        self.bytes += record.bytes.len() as u64;
    }

    /// Goes on with what the write-ahead log has beyond the database, and returns it as events. Damage in the log does not
    /// matter as long as the database has what was there.
    pub fn replay(&mut self, replay: &Replay, path: &Path) -> Result<Vec<Arc<Event>>, OpenError> {
        for damage in &replay.damage {
            if !self.is_clean && !damage.is_within(self.state.revision) {
                return Err(OpenError::corrupt(path, format!("acknowledged writes are lost: {damage}")));
            }
            tracing::warn!(%damage, "the write-ahead log is damaged where the database has everything");
        }
        replay
            .check_follows(path, self.log, self.is_clean, self.state.revision)
            .map_err(|why| OpenError::corrupt(path, why))?;
        let lost = |from: Revision, to: Revision| {
            let [first, second] = wal::paths(path).map(|file| file.display().to_string());
            let message =
                format!("acknowledged writes are lost: revisions {from} to {to} are missing from {first} and {second}");
            OpenError::corrupt(path, message)
        };
        let mut events = Vec::new();
        let mut last = self.state.revision;
        for frame in &replay.frames {
            if frame.last > last && frame.first > last + 1 {
                return Err(lost(last + 1, frame.first - 1));
            }
            for record in records(&frame.payload, frame.layout) {
                let record = record.map_err(|error| OpenError::corrupt(path, error))?;
                if record.revision <= last {
                    continue;
                }
                let previous = self.state.current.get(record.key).cloned();
                self.count(&record);
                self.history_bytes += record.bytes.len() as u64;
                self.add(&record).map_err(|error| OpenError::corrupt(path, error))?;
                last = record.revision;
                let entry = self.state.current.get(record.key).filter(|_| !record.is_delete).cloned();
                let event = Event { revision: last, key: Key::from(record.key), entry, previous };
                self.deadlines.follow(&event);
                events.push(Arc::new(event));
            }
        }
        if last < replay.must_reach(self.log) {
            return Err(lost(last + 1, replay.must_reach(self.log)));
        }
        self.state.revision = last;
        Ok(events)
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        let before = self.state.current.get(record.key).cloned();
        let revision = before.as_ref().map_or(0, |entry| entry.mod_revision);
        if revision != record.previous {
            let message = format!("revision {} replaces {}, but {revision} is there", record.revision, record.previous);
            return Err(Error::corrupt(record.key, message));
        }
        let entry = record.entry();
        let continues = match (&before, &entry) {
            (Some(before), Some(entry)) => {
                before.create_revision == entry.create_revision && before.version + 1 == entry.version
            }
            (None, Some(entry)) => entry.version == 1 && entry.create_revision == record.revision,
            (before, None) => before.is_some(),
        };
        if !continues {
            return Err(Error::corrupt(record.key, format!("revision {} does not continue its key", record.revision)));
        }
        if let Some(before) = before {
            let (key, revision) = (before.key.clone(), before.mod_revision);
            self.state.versions.push(Version { key, revision, until: record.revision });
        }
        match entry {
            Some(entry) => drop(self.state.current.insert(entry)),
            None => drop(self.state.current.remove(record.key)),
        }
        Ok(())
    }
}

/// Reads several entries in one view, by their revisions.
pub(crate) fn entries(reader: &LogReader, wanted: &[(Key, Revision)]) -> Result<HashMap<Revision, Arc<Entry>>> {
    let mut found = HashMap::with_capacity(wanted.len());
    for (key, revision) in wanted {
        if let Some(entry) = reader.entry(key, *revision)? {
            found.insert(*revision, entry);
        }
    }
    Ok(found)
}

pub(crate) fn only_record(bytes: &[u8], layout: Layout) -> Result<Record<'_>> {
    let mut all = records(bytes, layout);
    match (all.next(), all.next()) {
        (Some(record), None) => record.map_err(damaged),
        _ => Err(damaged("the base has an entry that is not one record".into())),
    }
}

pub(crate) fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(message) => damaged(message),
        other => Error::unavailable(other),
    }
}

pub(crate) fn damaged(message: String) -> Error {
    Error::Corrupt { key: Key::default(), message }
}

/// Names the key whose entry is damaged.
fn at_key(key: &[u8], error: Error) -> Error {
    match error {
        Error::Corrupt { message, .. } => Error::corrupt(key, message),
        other => other,
    }
}
