//! What can be saved of a damaged store, and what is lost.
//!
//! Every record that matches its checksum is good. The base, the log and the write-ahead log are read past what is
//! damaged; the newest good change of a key is its value. What is lost is named by key where a record still tells the
//! key, and by revision otherwise. The result is a new store without history that goes on at later revisions, so that
//! no client takes it for the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{AccessGuard, ReadableTable, ReadableTableMetadata, StorageBackend};
use storage::meter::{Meter, Step};
use storage::{Entry, Key, Revision};

use crate::disk::{BASE, Disk, FIRST_REVISION, LOG, META, catching};
use crate::error::OpenError;
use crate::log::failed;
use crate::maintenance::{Report, create, write_current};
use crate::numbers::{Log, Numbers};
use crate::options::EmbeddedOptions;
use crate::record::{Layout, Record, Remains, records, salvage};
use crate::wal::{self, Replay};

/// What is left of a damaged store.
#[derive(Debug)]
pub struct Salvage {
    current: BTreeMap<Key, Arc<Entry>>,
    /// The last revision that the store is known to have given to a change.
    revision: Revision,
    /// The store's clock; 0 if it is not known.
    time: i64,
    losses: Vec<Loss>,
    meter: Arc<Meter>,
}

/// Something that was in the store and cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The key's value.
    Value(Key),
    /// So many keys with their values; damage hides which.
    Keys(u64),
    /// The changes with these revisions. The keys they changed, where known, have earlier values or none.
    Changes { first: Revision, last: Revision, keys: Vec<Key> },
    /// The database's own numbers, so that there may be more that nothing is known of.
    Numbers,
    /// The end of the write-ahead log, so that there may be changes after this revision that nothing is known of.
    End(Revision),
}

impl Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Value(key) => write!(f, "the value of {key}"),
            Loss::Keys(count) => write!(f, "{count} keys whose names cannot be read"),
            Loss::Numbers => write!(f, "the database's own numbers; there may be losses that nothing tells of"),
            Loss::End(after) => {
                write!(f, "the end of the write-ahead log; there may be changes after revision {after}")
            }
            Loss::Changes { first, last, keys } => {
                match first == last {
                    true => write!(f, "the change of revision {first}")?,
                    false => write!(f, "the changes of revisions {first} to {last}")?,
                }
                match keys.as_slice() {
                    [] => write!(f, ", of keys whose names cannot be read"),
                    keys => {
                        let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
                        write!(f, ", of {}", names.join(", "))
                    }
                }
            }
        }
    }
}

impl Salvage {
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    pub fn keys(&self) -> usize {
        self.current.len()
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Makes a new store of what is left, which goes on so many revisions later.
    pub fn write(&self, target: &Path, skip_revisions: Revision) -> Result<Report, OpenError> {
        let revision = self.revision + skip_revisions;
        let meter = &self.meter;
        meter.begin(Step::Copying, self.current.len() as u64);
        let entries = self.current.values();
        create(target, target, meter, |database| write_current(database, entries, revision, self.time, meter))
    }
}

/// Fails if another process uses the store. It cannot while the result is kept.
pub fn lock(path: &Path) -> Result<Box<dyn Send>, OpenError> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| OpenError::io(path, error))?;
    let backend = FileBackend::new(file).map_err(|error| OpenError::of_database(path, error))?;
    match backend.try_lock_range(Bound::Unbounded, Bound::Unbounded) {
        Ok(true) => Ok(Box::new(backend)),
        Ok(false) => Err(OpenError::Locked { path: path.into() }),
        Err(error) => Err(OpenError::io(path, error)),
    }
}

/// Reads what is left of a store that is not in use. Works on a copy, because opening a database may change it.
pub fn examine(path: &Path) -> Result<Salvage, OpenError> {
    examine_with(path, &Arc::default())
}

/// The same, counted.
pub fn examine_with(path: &Path, meter: &Arc<Meter>) -> Result<Salvage, OpenError> {
    if !path.exists() && wal::exists(path) {
        // The log may have all of a young store.
        let mut findings = Findings::default();
        findings.add_write_ahead_log(wal::Wal::open(&EmbeddedOptions::at(path))?.1);
        return Ok(findings.finish(meter));
    }
    let lock = lock(path)?;
    let copy = files::with_suffix(path, ".examined");
    let failed = |error| OpenError::io(&copy, error);
    drop(files::open(&copy).map_err(failed)?);
    std::fs::copy(path, &copy).map_err(failed)?;
    let found = Findings::read_database(&copy, meter);
    std::fs::remove_file(&copy).map_err(failed)?;
    let mut findings = found.map_err(|error| error.at(path))?;
    // A store that was closed in order does not need its write-ahead log.
    let replay = match wal::exists(path) {
        true => wal::Wal::open(&EmbeddedOptions::at(path))?.1,
        false => Replay::default(),
    };
    findings.add_write_ahead_log(replay);
    drop(lock);
    Ok(findings.finish(meter))
}

/// What was read, before it is put together.
#[derive(Default)]
struct Findings {
    numbers: Option<Numbers>,
    /// The records of the base.
    base: BTreeMap<Key, Arc<Entry>>,
    /// Keys of the base whose records are damaged.
    damaged: BTreeSet<Key>,
    /// Changes after the base, in order: the entry, or none for a deletion; and the revision that was replaced.
    changes: BTreeMap<Revision, Found>,
    /// The keys of changes that are damaged, as far as they can be read.
    suspects: BTreeMap<Revision, Key>,
    /// The revision up to which the write-ahead log proves changes.
    reaches: Revision,
    /// Whether there may have been more than that.
    is_end_lost: bool,
}

struct Found {
    key: Key,
    entry: Option<Arc<Entry>>,
    previous: Revision,
}

impl Findings {
    fn read_database(path: &Path, meter: &Meter) -> Result<Findings, OpenError> {
        let disk = Disk::open_damaged(&EmbeddedOptions::at(path))?;
        let mut findings = Findings::default();
        let read = disk.read_raw(|transaction| {
            findings.numbers = transaction.open_table(META).ok().and_then(|meta| Numbers::read(&meta).ok());
            let layout = findings.numbers.map_or(Layout::Checked, |numbers| numbers.layout());
            let base = transaction.open_table(BASE).map_err(failed)?;
            let log = transaction.open_table(LOG).map_err(failed)?;
            meter.begin(Step::Records, base.len().unwrap_or(0) + log.len().unwrap_or(0));
            let add = |key: AccessGuard<'_, &[u8]>, record: AccessGuard<'_, &[u8]>| {
                meter.add(record.value().len());
                findings.add_base(key.value(), record.value(), layout);
            };
            read_around(|| base.iter(), add);
            let add = |_: AccessGuard<'_, Revision>, chunk: AccessGuard<'_, &[u8]>| {
                meter.add(chunk.value().len());
                findings.add_chunk(chunk.value(), layout);
            };
            read_around(|| log.iter(), add);
            Ok(())
        });
        read.map_err(|error| OpenError::of_store(path, error))?;
        Ok(findings)
    }

    fn add_base(&mut self, key: &[u8], bytes: &[u8], layout: Layout) {
        match records(bytes, layout).next() {
            // A record that matches its checksum is right even if the tree has it under a damaged key.
            Some(Ok(record)) if record.key == key || layout == Layout::Checked => {
                self.base.extend(record.entry().map(|entry| (entry.key.clone(), entry)));
            }
            _ => drop(self.damaged.insert(Key::from(key))),
        }
    }

    fn add_chunk(&mut self, chunk: &[u8], layout: Layout) {
        match layout {
            Layout::Checked => salvage(chunk).for_each(|remains| self.add_remains(remains, |_| true)),
            Layout::Plain => records(chunk, layout).flatten().for_each(|record| self.add_change(&record)),
        }
    }

    fn add_remains(&mut self, remains: Remains, is_wanted: impl Fn(&Record) -> bool) {
        match remains {
            Remains::Whole(record) if is_wanted(&record) => self.add_change(&record),
            Remains::Damaged(record) if is_wanted(&record) => {
                self.suspects.insert(record.revision, Key::from(record.key));
            }
            _ => {}
        }
    }

    fn add_change(&mut self, record: &Record) {
        let found = Found { key: Key::from(record.key), entry: record.entry(), previous: record.previous };
        self.changes.entry(record.revision).or_insert(found);
    }

    /// Where the log begins.
    fn folded(&self) -> Revision {
        let before_first = || self.changes.first_key_value().map_or(FIRST_REVISION, |(first, _)| first - 1);
        self.numbers.map_or_else(before_first, |numbers| numbers.folded.max(FIRST_REVISION))
    }

    /// Adds what the database does not have. Changes that were folded already do not count: later ones may have
    /// replaced them.
    fn add_write_ahead_log(&mut self, mut replay: Replay) {
        let folded = self.folded();
        // The database's identity tells which log is its own, or what is left of the log itself.
        let log = match self.numbers {
            Some(numbers) => numbers.log,
            None => Log { id: replay.begun.iter().map(|file| file.id).max().unwrap_or(0), generation: 0 },
        };
        replay.forget_foreign(log);
        self.is_end_lost = self.numbers.is_some_and(|numbers| !numbers.is_clean) && !replay.has_latest(log);
        for frame in &replay.frames {
            let found = records(&frame.payload, frame.layout).flatten();
            found.filter(|record| record.revision > folded).for_each(|record| self.add_change(&record));
        }
        for damage in &replay.damage {
            let is_there = |record: &Record| {
                record.revision > folded
                    && record.revision >= damage.first
                    && damage.last.is_none_or(|last| record.revision <= last)
            };
            salvage(&damage.remains).for_each(|remains| self.add_remains(remains, is_there));
        }
        let damaged = replay.damage.iter().filter_map(|damage| damage.last.or(Some(damage.first))).max();
        self.reaches = replay.must_reach(log).max(damaged.unwrap_or(0));
    }

    fn finish(mut self, meter: &Arc<Meter>) -> Salvage {
        let folded = self.folded();
        let last = self.changes.last_key_value().map_or(folded, |(last, _)| *last);
        let revision = last.max(self.reaches).max(self.numbers.map_or(0, |numbers| numbers.revision));
        let mut losses = Vec::new();
        if let Some(numbers) = self.numbers.filter(|numbers| numbers.layout() == Layout::Checked) {
            let hidden = numbers.base.records.saturating_sub((self.base.len() + self.damaged.len()) as u64);
            losses.extend((hidden > 0).then_some(Loss::Keys(hidden)));
        } else if self.numbers.is_none() {
            losses.push(Loss::Numbers);
        }
        let missing = self.missing(folded, revision);
        let mut current = std::mem::take(&mut self.base);
        for (_, found) in self.changes {
            self.damaged.remove(&found.key);
            match found.entry {
                Some(entry) => drop(current.insert(found.key, entry)),
                None => drop(current.remove(&found.key)),
            }
        }
        losses.extend(self.damaged.into_iter().map(Loss::Value));
        losses.extend(missing);
        losses.extend(self.is_end_lost.then_some(Loss::End(revision)));
        let time = self.numbers.map_or(0, |numbers| numbers.time);
        Salvage { current, revision, time, losses, meter: meter.clone() }
    }

    /// Revisions between the base and the end whose changes are lost. A later change names the key of one that it
    /// replaced; then only history is lost, which is given up anyway.
    fn missing(&self, folded: Revision, revision: Revision) -> Vec<Loss> {
        let replaced: BTreeSet<Revision> = self.changes.values().map(|found| found.previous).collect();
        let mut losses: Vec<Loss> = Vec::new();
        let mut next = folded + 1;
        let ends = self.changes.keys().copied().chain([revision + 1]);
        for end in ends.filter(|end| *end > folded) {
            for lost in next..end.min(next.saturating_add(LOSSES_MAX)) {
                if replaced.contains(&lost) {
                    continue;
                }
                let key = self.suspects.get(&lost).cloned();
                match losses.last_mut() {
                    Some(Loss::Changes { last, keys, .. }) if *last + 1 == lost && keys.is_empty() == key.is_none() => {
                        *last = lost;
                        keys.extend(key);
                    }
                    _ => losses.push(Loss::Changes { first: lost, last: lost, keys: key.into_iter().collect() }),
                }
            }
            next = end + 1;
        }
        losses
    }
}

/// Lost revisions that are looked at one by one between two changes.
const LOSSES_MAX: Revision = 10_000_000;

/// Reads a table from the front and, if that ends at damage, from the back.
fn read_around<I, K, V>(iterate: impl Fn() -> Result<I, redb::StorageError>, mut visit: impl FnMut(K, V))
where
    I: DoubleEndedIterator<Item = Result<(K, V), redb::StorageError>>,
{
    let mut read = |is_forward: bool| {
        let walk = || {
            let Ok(mut items) = iterate() else { return false };
            loop {
                match if is_forward { items.next() } else { items.next_back() } {
                    Some(Ok((key, value))) => visit(key, value),
                    Some(Err(_)) => return false,
                    None => return true,
                }
            }
        };
        catching(walk).unwrap_or(false)
    };
    if !read(true) {
        read(false);
    }
}
