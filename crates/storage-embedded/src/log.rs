//! Reading the log from the file: all of it at the start, and pieces of history later.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};
use storage::{Batch, Entry, Error, Event, KeyRange, Result, Revision};

use crate::disk::{LOG, META};
use crate::error::OpenError;
use crate::expiry::Deadlines;
use crate::options::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, SCAN_EVENTS_MAX};
use crate::record::{self, Record};
use crate::state::{State, Version};

/// One consistent view of the file.
pub(crate) struct LogReader {
    log: ReadOnlyTable<Revision, &'static [u8]>,
    meta: ReadOnlyTable<&'static str, i64>,
}

/// What the log adds up to.
#[derive(Default)]
pub(crate) struct Loaded {
    pub state: State,
    pub deadlines: Deadlines,
    pub swept: Revision,
    /// Bytes of all records, and of those after the compacted revision.
    pub bytes: u64,
    pub history_bytes: u64,
    pub records: u64,
}

impl LogReader {
    pub fn new(transaction: ReadTransaction) -> Result<Self> {
        let log = transaction.open_table(LOG).map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        Ok(LogReader { log, meta })
    }

    pub fn number(&self, name: &str) -> Result<i64> {
        let found = self.meta.get(name).map_err(failed)?;
        found.map(|number| number.value()).ok_or_else(|| damaged(format!("it has no {name}")))
    }

    /// The last revision that was given to a change.
    pub fn last_revision(&self) -> Result<Revision> {
        let floor = self.number("revision")?;
        let last = self.log.last().map_err(failed)?.map_or(0, |(revision, _)| revision.value());
        Ok(last.max(floor))
    }

    /// Every record in order, as it is in the file.
    pub fn each(&self, mut visit: impl FnMut(Revision, &[u8]) -> Result<()>) -> Result<()> {
        for item in self.log.iter().map_err(failed)? {
            let (revision, bytes) = item.map_err(failed)?;
            visit(revision.value(), bytes.value())?;
        }
        Ok(())
    }

    /// What the change of this revision wrote; none if it is not in the log.
    pub fn entry(&self, revision: Revision) -> Result<Option<Arc<Entry>>> {
        let Some(bytes) = self.log.get(revision).map_err(failed)? else { return Ok(None) };
        Ok(record::decode(revision, bytes.value()).map_err(damaged)?.entry)
    }

    /// The events of a range after a revision, up to `last`, as many as one batch takes.
    pub fn events(&self, range: &KeyRange, after: Revision, last: Revision) -> Result<Batch> {
        let compacted = self.number("compacted")?;
        if after < compacted {
            return Err(Error::Compacted { requested: after, compacted });
        }
        let mut batch = Batch { events: Vec::new(), revision: last };
        let mut bytes = 0;
        let records = self.log.range::<Revision>((Bound::Excluded(after), Bound::Included(last))).map_err(failed)?;
        for (passed, item) in records.enumerate() {
            let (revision, data) = item.map_err(failed)?;
            let revision = revision.value();
            if passed == SCAN_EVENTS_MAX || batch.events.len() == BATCH_EVENTS_MAX || bytes > BATCH_BYTES_MAX {
                batch.revision = revision - 1;
                break;
            }
            let outline = record::outline(revision, data.value()).map_err(damaged)?;
            if range.contains(&outline.key) {
                bytes += data.value().len();
                batch.events.push(self.event(revision, record::decode(revision, data.value()).map_err(damaged)?)?);
            }
        }
        Ok(batch)
    }

    fn event(&self, revision: Revision, record: Record) -> Result<Arc<Event>> {
        let Record { key, entry, previous } = record;
        let previous = match previous {
            0 => None,
            before => Some(self.entry(before)?.ok_or_else(|| {
                Error::corrupt(key.clone(), format!("the log has lost revision {before}, which {revision} replaced"))
            })?),
        };
        Ok(Arc::new(Event { revision, key, entry, previous }))
    }

    /// Adds up the whole log, and checks on the way that it fits together.
    pub fn load(&self, path: &Path) -> Result<Loaded, OpenError> {
        self.add_up().map_err(|error| match error {
            Error::Corrupt { message, .. } => OpenError::corrupt(path, message),
            other => OpenError::io(path, other),
        })
    }

    fn add_up(&self) -> Result<Loaded> {
        let mut loaded = Loaded { swept: self.number("swept")?, ..Loaded::default() };
        let compacted = self.number("compacted")?;
        let revision = self.last_revision()?;
        if loaded.swept > compacted || compacted > revision {
            let message = format!("swept {}, compacted {compacted}, revision {revision}", loaded.swept);
            return Err(damaged(format!("its numbers contradict each other: {message}")));
        }
        self.each(|revision, bytes| {
            loaded.records += 1;
            loaded.bytes += bytes.len() as u64;
            if revision > compacted {
                loaded.history_bytes += bytes.len() as u64;
            }
            loaded.add(revision, record::decode(revision, bytes).map_err(damaged)?, compacted)
        })?;
        loaded.state.revision = revision;
        loaded.state.compacted = compacted;
        for entry in loaded.state.current.iter() {
            loaded.deadlines.add(Some(entry));
        }
        Ok(loaded)
    }
}

impl Loaded {
    fn add(&mut self, revision: Revision, record: Record, compacted: Revision) -> Result<()> {
        let state = &mut self.state;
        let before = state.current.get(&record.key).map_or(0, |entry| entry.mod_revision);
        // Compaction may have removed the predecessor of a record that is compacted itself, or only the record of a
        // deletion before it; never anything that a later record needs.
        if before != record.previous && (revision > compacted || before != 0) {
            let what = format!("revision {revision} replaces revision {}, but the log has {before}", record.previous);
            return Err(Error::corrupt(record.key, what));
        }
        if before != 0 {
            state.versions.insert(Version { key: record.key.clone(), revision: before, until: revision });
        }
        match record.entry {
            Some(entry) => {
                let life_is_right = match before {
                    0 => entry.version >= 1 && entry.create_revision <= revision,
                    _ => state.current.get(&record.key).is_some_and(|old| {
                        old.create_revision == entry.create_revision && old.version + 1 == entry.version
                    }),
                };
                if !life_is_right {
                    return Err(Error::corrupt(record.key, format!("revision {revision} does not continue its key")));
                }
                state.current.insert(entry);
            }
            None => drop(state.current.remove(&record.key)),
        }
        Ok(())
    }
}

/// Reads several entries in one view.
pub(crate) fn entries(reader: &LogReader, revisions: &[Revision]) -> Result<HashMap<Revision, Arc<Entry>>> {
    let mut found = HashMap::with_capacity(revisions.len());
    for revision in revisions {
        if let Some(entry) = reader.entry(*revision)? {
            found.insert(*revision, entry);
        }
    }
    Ok(found)
}

fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(message) => damaged(message),
        other => Error::unavailable(other),
    }
}

fn damaged(message: String) -> Error {
    Error::Corrupt { key: Default::default(), message }
}
