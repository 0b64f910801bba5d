//! [`Archive`]: all files of a history, and the questions that they answer.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use storage::{KeyRange, Revision};

use crate::Options;
use crate::change::{Change, Head, Written, by_revision, from_key};
use crate::chunk::{Chunk, ChunkWriter};
use crate::clock::JumpGuard;
use crate::error::{Error, Result};
use crate::journal::{Journal, JournalCursor, Order, sync_directory};
use crate::segment::{FirstChanges, Segment, reaching_back};
use crate::table::TableCache;

/// How many bytes of blocks stay in memory.
const CACHE_BYTES: usize = 8 << 20;
/// The file that is locked while a history is in use.
const LOCK: &str = "lock";
/// The file that says up to which time changes were deleted.
pub(crate) const KEPT_FROM: &str = "kept-from";
/// The journal's index is in memory, so that it has no more changes than this.
const JOURNAL_CHANGES_MAX: usize = 16_384;

/// The files of a history. Reads and writes are for threads that may wait for the disk.
pub struct Archive {
    pub(crate) options: Options,
    pub(crate) cache: Arc<TableCache>,
    pub(crate) files: RwLock<Files>,
    /// Held while the set of files is changed.
    pub(crate) changing: Mutex<()>,
    pub(crate) guard: JumpGuard,
    /// Chunks that could not be merged because they are damaged, by their first revision.
    pub(crate) unmergeable: Mutex<HashSet<Revision>>,
    /// Whether merging should stop where it is.
    pub(crate) is_ending: AtomicBool,
    /// Keeps other processes out.
    _lock: File,
}

#[derive(Default)]
pub(crate) struct Files {
    /// In the order of revisions.
    pub chunks: Vec<Arc<Chunk>>,
    pub journal: Option<Arc<Journal>>,
    /// Changes up to this time were deleted.
    pub kept_from: i64,
    /// Chunks that cannot be opened: from which revision to which, and why.
    damaged: Vec<(Revision, Revision, Error)>,
}

/// A moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The revision of the last change until then.
    pub revision: Revision,
    /// Then, in milliseconds since 1970.
    pub time: i64,
}

/// How large and how old a history is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of the recorded changes before they were compressed.
    pub raw_bytes: u64,
    /// Recorded changes.
    pub changes: u64,
    /// Files.
    pub files: usize,
    /// Every change after this revision is there; None if nothing was recorded yet.
    pub from: Option<Revision>,
    /// When that was, in milliseconds since 1970.
    pub begun: Option<i64>,
    /// The last revision that was recorded.
    pub recorded: Option<Revision>,
}

impl Archive {
    /// Opens or begins a history.
    pub fn open(options: Options) -> Result<Archive> {
        let directory = &options.directory;
        let failed = |error: std::io::Error| Error::io(directory, error);
        files::create_directory(directory).map_err(failed)?;
        let lock = files::open(&directory.join(LOCK)).map_err(failed)?;
        lock.try_lock().map_err(|error| Error::io(directory, error))?;
        let cache = Arc::new(TableCache::of(CACHE_BYTES));
        let files = Files::read(directory, &cache)?;
        let newest = files.segments().iter().rev().find_map(|segment| match segment {
            Segment::Chunk(chunk) => Some(chunk.footer.max_time),
            Segment::Journal(journal) => journal.times().map(|(_, most)| most),
        });
        let guard = JumpGuard::new(options.clock.clone(), newest, options.age);
        let (files, changing) = (RwLock::new(files), Mutex::default());
        let (unmergeable, is_ending) = Default::default();
        Ok(Archive { options, cache, files, changing, guard, unmergeable, is_ending, _lock: lock })
    }

    /// The settings of the recording.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The revision up to which everything is recorded; None if nothing was recorded yet.
    pub fn recorded(&self) -> Option<Revision> {
        let files = self.files.read();
        let journal = files.journal.as_ref().map(|journal| journal.to());
        journal.or_else(|| files.chunks.last().map(|chunk| chunk.footer.to))
    }

    /// Records changes, which are everything after what was recorded up to `to`, in the order of revisions.
    pub fn append(&self, changes: &[Change], to: Revision) -> Result<()> {
        let now = (self.options.clock.now)();
        let journal = match self.files.read().journal.clone() {
            Some(journal) => journal,
            None => return Err(Error::Behind(to)),
        };
        journal.append(changes, to, now)?;
        if journal.bytes() >= self.options.sealed_bytes() || journal.changes() >= JOURNAL_CHANGES_MAX {
            self.seal()?;
        }
        Ok(())
    }

    /// Stops merging chunks, which may take long. What is half done is not used.
    pub fn end_maintenance(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Makes durable what was recorded.
    pub fn sync(&self) -> Result<()> {
        match self.files.read().journal.clone() {
            Some(journal) => journal.sync(),
            None => Ok(()),
        }
    }

    /// Goes on recording after `revision`. If that is not where it stopped, what happened in between is unknown.
    pub fn begin_after(&self, revision: Revision) -> Result<()> {
        let recorded = self.recorded();
        if recorded == Some(revision) && self.files.read().journal.is_some() {
            return Ok(());
        }
        let begun = match (recorded == Some(revision), self.files.read().chunks.last()) {
            (true, Some(last)) => last.footer.begun,
            _ => (self.options.clock.now)(),
        };
        self.seal()?;
        let _changing = self.changing.lock();
        let old = self.files.read().journal.clone();
        let journal = Journal::create(&journal_path(&self.options.directory, revision), revision, begun)?;
        self.files.write().journal = Some(Arc::new(journal));
        if let Some(old) = old.filter(|old| old.from != revision) {
            remove(old.path())?;
        }
        Ok(())
    }

    /// Puts all files where they are not read, in place of those that were put there before.
    pub(crate) fn set_aside(&self) -> Result<()> {
        let _changing = self.changing.lock();
        let directory = &self.options.directory;
        let aside = directory.join("aside");
        if aside.exists() {
            std::fs::remove_dir_all(&aside).map_err(|error| Error::io(&aside, error))?;
        }
        files::create_directory(&aside).map_err(|error| Error::io(&aside, error))?;
        let failed = |error: std::io::Error| Error::io(directory, error);
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let (Some(_), Some(name)) = (FileName::of(&path), path.file_name()) {
                std::fs::rename(&path, aside.join(name)).map_err(failed)?;
            }
        }
        *self.files.write() = Files::default();
        Ok(())
    }

    /// Makes a chunk of the journal, if it has changes, and begins another one.
    pub(crate) fn seal(&self) -> Result<()> {
        let _changing = self.changing.lock();
        let Some(journal) = self.files.read().journal.clone().filter(|journal| journal.changes() > 0) else {
            return Ok(());
        };
        let (from, to) = (journal.from, journal.to());
        let path = chunk_path(&self.options.directory, from, to);
        let temporary = path.with_extension("new");
        let mut writer = ChunkWriter::create(&temporary, from, to, journal.begun)?;
        let mut cursor = JournalCursor::at(&journal, Order::Key, &[]);
        while cursor.key().is_some() {
            let written = cursor.written()?;
            let value = written.value.clone();
            writer.add(written, &value)?;
            cursor.step();
        }
        let mut cursor = JournalCursor::at(&journal, Order::Revision, &[]);
        while cursor.key().is_some() {
            writer.add_by_revision(cursor.written()?)?;
            cursor.step();
        }
        writer.finish()?;
        let chunk = Arc::new(self.publish(&temporary, &path)?);
        {
            let mut files = self.files.write();
            files.chunks.push(chunk);
            files.journal = None;
        }
        remove(journal.path())?;
        // Without a journal the recorder begins another one where this one ended.
        let next = Journal::create(&journal_path(&self.options.directory, to), to, journal.begun)?;
        self.files.write().journal = Some(Arc::new(next));
        Ok(())
    }

    pub(crate) fn publish(&self, temporary: &Path, path: &Path) -> Result<Chunk> {
        std::fs::rename(temporary, path).map_err(|error| Error::io(path, error))?;
        sync_directory(path)?;
        Chunk::open(path, &self.cache)
    }

    /// The first change of a key after a revision; None if it has not changed since, up to what is recorded.
    pub fn first_after(&self, key: &[u8], revision: Revision) -> Result<Option<Change>> {
        let from = crate::change::by_key(key, revision.saturating_add(1));
        let end = from_key(&storage::Key::from(key).successor());
        let (segments, mut covered) = (self.segments(), revision);
        for segment in segments.iter().filter(|segment| segment.to() > revision) {
            if segment.from() > covered {
                return Err(self.not_kept(revision));
            }
            let cursor = segment.cursor(Order::Key, &from)?;
            if cursor.key().is_some_and(|sort| sort < &end[..]) {
                return cursor.change().map(Some);
            }
            covered = segment.to();
        }
        Ok(None)
    }

    /// The first change after a revision of each key of a range.
    pub(crate) fn first_changes(&self, range: &KeyRange, revision: Revision) -> Result<FirstChanges> {
        let segments = reaching_back(&self.segments(), revision).map_err(|_| self.not_kept(revision))?;
        FirstChanges::of(&segments, range, revision)
    }

    /// The last changes of a key up to a revision, newest first; up to `most` of them.
    pub fn changes_of(&self, key: &[u8], until: Revision, most: usize) -> Result<Vec<Head>> {
        let (start, end) = (from_key(key), crate::change::by_key(key, until.saturating_add(1)));
        let mut found: Vec<Head> = Vec::new();
        let mut newer = None;
        for segment in self.segments().iter().rev().filter(|segment| segment.from() < until) {
            // What is before a gap is no answer to what came before this.
            if newer.is_some_and(|from| segment.to() < from) || found.len() >= most {
                break;
            }
            newer = Some(segment.from());
            let mut cursor = segment.cursor(Order::Key, &start)?;
            let mut last = VecDeque::new();
            while cursor.key().is_some_and(|sort| sort < &end[..]) {
                if last.len() + found.len() >= most {
                    last.pop_front();
                }
                last.push_back(cursor.written()?);
                cursor.step()?;
            }
            found.extend(last.iter().rev().map(Written::head));
        }
        Ok(found)
    }

    /// Calls `take` with each change after one revision up to another, in their order, until it returns false and all changes of that
    /// revision are taken. Returns the revision up to which it came.
    pub fn each_change(
        &self,
        after: Revision,
        until: Revision,
        mut take: impl FnMut(Head) -> bool,
    ) -> Result<Revision> {
        let start = by_revision(after.saturating_add(1), &[]);
        let segments = reaching_back(&self.segments(), after).map_err(|_| self.not_kept(after))?;
        let mut last = until;
        for segment in segments {
            let mut cursor = segment.cursor(Order::Revision, &start)?;
            while cursor.key().is_some() {
                let written = cursor.written()?;
                if written.revision > last {
                    return Ok(last);
                }
                if !take(written.head()) {
                    last = written.revision;
                }
                cursor.step()?;
            }
        }
        Ok(last)
    }

    /// The moment of a time of day: what was the state then. Where the clock was set back, the later of the two moments.
    pub fn moment(&self, time: i64) -> Result<Moment> {
        let segments = self.segments();
        let mut newer = None;
        for segment in segments.iter().rev() {
            if newer.is_some_and(|from| segment.to() < from) {
                break;
            }
            newer = Some(segment.from());
            if segment.min_time().is_some_and(|least| least <= time)
                && let Some(revision) = segment.last_until(time)?
            {
                return Ok(Moment { revision, time });
            }
        }
        // Nothing was changed until then; but was anything recorded then?
        let first = newer.and_then(|from| segments.iter().find(|segment| segment.from() == from));
        let kept_from = self.files.read().kept_from;
        let is_known =
            |first: &&Segment| first.begun().max(kept_from) <= time && !self.follows_damage(&segments, first);
        match first.filter(is_known) {
            Some(first) => Ok(Moment { revision: first.from(), time }),
            None => Err(Error::NotKept(newer.unwrap_or(0))),
        }
    }

    /// Whether a file is missing before this one, so that its beginning is not where the history began.
    fn follows_damage(&self, segments: &[Segment], first: &Segment) -> bool {
        let is_older = |older: &Segment| older.to() < first.from() && older.begun() == first.begun();
        segments.iter().any(is_older) || self.files.read().damaged.iter().any(|(_, to, _)| *to <= first.from())
    }

    /// When a change was made, if it is recorded.
    pub fn time_of(&self, revision: Revision) -> Result<Option<i64>> {
        let start = by_revision(revision, &[]);
        for segment in self.segments().iter().filter(|segment| segment.from() < revision && revision <= segment.to()) {
            let cursor = segment.cursor(Order::Revision, &start)?;
            if cursor.key().is_some() {
                let written = cursor.written()?;
                return Ok((written.revision == revision).then_some(written.time));
            }
        }
        Ok(None)
    }

    /// How large and how old it is.
    pub fn status(&self) -> Status {
        let files = self.files.read();
        let mut status = Status { files: files.chunks.len(), recorded: None, ..Status::default() };
        for chunk in &files.chunks {
            status.bytes += chunk.bytes;
            status.raw_bytes += chunk.footer.raw_bytes;
            status.changes += chunk.footer.changes;
        }
        if let Some(journal) = &files.journal {
            status.files += 1;
            status.bytes += journal.bytes();
            status.raw_bytes += journal.bytes();
            status.changes += journal.changes() as u64;
            status.recorded = Some(journal.to());
        }
        let segments = files.segments();
        let mut newer: Option<&Segment> = None;
        for segment in segments.iter().rev() {
            if newer.is_some_and(|newer| segment.to() < newer.from()) {
                break;
            }
            newer = Some(segment);
        }
        status.from = newer.map(Segment::from);
        status.begun = newer.map(|first| first.begun().max(files.kept_from));
        status
    }

    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.files.read().segments()
    }

    fn not_kept(&self, revision: Revision) -> Error {
        let damaged = &self.files.read().damaged;
        let why = damaged.iter().find(|(_, to, _)| *to > revision).map(|(_, _, why)| why.clone());
        why.unwrap_or(Error::NotKept(revision))
    }
}

impl Files {
    pub fn segments(&self) -> Vec<Segment> {
        let chunks = self.chunks.iter().cloned().map(Segment::Chunk);
        chunks.chain(self.journal.clone().map(Segment::Journal)).collect()
    }

    fn read(directory: &Path, cache: &Arc<TableCache>) -> Result<Files> {
        let mut found = Files::default();
        let (mut chunks, mut journals) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(directory).map_err(|error| Error::io(directory, error))? {
            let path = entry.map_err(|error| Error::io(directory, error))?.path();
            match FileName::of(&path) {
                Some(FileName::KeptFrom) => {
                    let text = std::fs::read_to_string(&path).map_err(|error| Error::io(&path, error))?;
                    // If it is damaged, it is not known since when nothing was deleted.
                    found.kept_from = text.trim().parse().unwrap_or(i64::MAX);
                }
                Some(FileName::Chunk(from, to)) => drop(chunks.insert((from, std::cmp::Reverse(to)), path)),
                Some(FileName::Journal(from)) => drop(journals.insert(from, path)),
                // What a crash has left half written.
                Some(FileName::New) => remove(&path)?,
                None => {}
            }
        }
        let mut covered = Revision::MIN;
        for ((from, std::cmp::Reverse(to)), path) in chunks {
            // Others were merged to a chunk that has all of it.
            if to <= covered {
                remove(&path)?;
                continue;
            }
            match Chunk::open(&path, cache) {
                Ok(chunk) => {
                    covered = to;
                    found.chunks.push(Arc::new(chunk));
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "a history file is damaged; what it had cannot be read");
                    found.damaged.push((from, to, error));
                }
            }
        }
        for (from, path) in journals {
            match Journal::open(&path) {
                Ok(journal) if journal.to() > covered || from == covered => {
                    covered = journal.to();
                    // A journal is only replaced by another one when it has no changes.
                    if let Some(replaced) = found.journal.replace(Arc::new(journal)) {
                        remove(replaced.path())?;
                    }
                }
                Ok(_) => remove(&path)?,
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "a history file is damaged; what it had cannot be read");
                    found.damaged.push((from, Revision::MAX, error));
                }
            }
        }
        Ok(found)
    }
}

/// The kind of a file, by its name.
pub(crate) enum FileName {
    Chunk(Revision, Revision),
    Journal(Revision),
    KeptFrom,
    New,
}

impl FileName {
    pub(crate) fn of(path: &Path) -> Option<FileName> {
        let name = path.file_name()?.to_str()?;
        if name.ends_with(".new") {
            return Some(FileName::New);
        }
        if name == KEPT_FROM {
            return Some(FileName::KeptFrom);
        }
        if let Some(from) = name.strip_prefix("journal-") {
            return Some(FileName::Journal(from.parse().ok()?));
        }
        let (from, to) = name.strip_prefix("chunk-")?.split_once('-')?;
        Some(FileName::Chunk(from.parse().ok()?, to.parse().ok()?))
    }
}

pub(crate) fn chunk_path(directory: &Path, from: Revision, to: Revision) -> PathBuf {
    directory.join(format!("chunk-{from:020}-{to:020}"))
}

fn journal_path(directory: &Path, from: Revision) -> PathBuf {
    directory.join(format!("journal-{from:020}"))
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|error| Error::io(path, error))
}
