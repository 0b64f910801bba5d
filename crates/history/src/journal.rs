//! The journal: where changes are appended. Its index is in memory, so it becomes a chunk before it is large.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use prost::Message;
use storage::{Key, Revision};
use xxhash_rust::xxh3::xxh3_64;

use crate::change::{Change, Written, by_key, by_revision};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"fkhisj01";
/// Length and checksum of what follows.
const FRAME_HEAD_BYTES: usize = 12;
/// No change is larger.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// In place of what a change did: nothing happened up to the frame's revision.
const MARK: u32 = 9;

/// An open journal.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// It has every change after this revision.
    pub from: Revision,
    /// When the history began that has no gap since.
    pub begun: i64,
    state: RwLock<State>,
}

struct State {
    by_key: BTreeMap<Vec<u8>, JournalSlot>,
    by_revision: BTreeMap<Vec<u8>, JournalSlot>,
    /// Where the next frame goes.
    end: u64,
    /// It has every change up to here.
    to: Revision,
    times: Option<(i64, i64)>,
    is_synced: bool,
}

/// Where a change is in the file.
#[derive(Clone, Copy)]
struct JournalSlot {
    offset: u64,
    length: u32,
    time: i64,
}

/// By which of its two orders a journal or a chunk is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Key,
    Revision,
}

impl Journal {
    /// A new one for the changes after `from`.
    pub fn create(path: &Path, from: Revision, begun: i64) -> Result<Journal> {
        let failed = |error: std::io::Error| Error::io(path, error);
        let file = files::open(path).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        let mut bytes = MAGIC.to_vec();
        frame(&Written { revision: from, time: begun, what: MARK, ..Written::default() }, &mut bytes)?;
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_directory(path)?;
        let state = State::empty(bytes.len() as u64, from);
        Ok(Journal { file, path: path.into(), from, begun, state: RwLock::new(state) })
    }

    /// Reads one that is there, up to the first frame that is not whole; the rest is cut off.
    pub fn open(path: &Path) -> Result<Journal> {
        let failed = |error: std::io::Error| Error::io(path, error);
        let bytes = std::fs::read(path).map_err(failed)?;
        if !bytes.starts_with(MAGIC) {
            return Err(Error::damaged(path, "it is no journal"));
        }
        let (head, mut at) =
            read_frame(&bytes, MAGIC.len()).ok_or_else(|| Error::damaged(path, "its first frame is not whole"))?;
        let mut state = State::empty(at as u64, head.revision);
        while let Some((written, end)) = read_frame(&bytes, at) {
            let length = u32::try_from(end - at).map_err(|_| Error::damaged(path, "a frame is too large"))?;
            state.note(&written, JournalSlot { offset: at as u64, length, time: written.time });
            at = end;
        }
        state.end = at as u64;
        let file = files::open(path).map_err(failed)?;
        if at < bytes.len() {
            // Half of a frame is what a crash leaves. More than that was written and cannot be read any more.
            tracing::warn!(
                path = %path.display(), bytes = bytes.len() - at, revision = state.to,
                "the end of a history journal cannot be read and is cut off; the store delivers again what it still has"
            );
            file.set_len(at as u64).map_err(failed)?;
        }
        Ok(Journal { file, path: path.into(), from: head.revision, begun: head.time, state: RwLock::new(state) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends changes that are everything up to `to`. Either all of them are in the journal afterwards or none.
    pub fn append(&self, changes: &[Change], to: Revision, now: i64) -> Result<()> {
        let mut bytes = Vec::new();
        let mut frames = Vec::with_capacity(changes.len() + 1);
        let start = self.state.read().end;
        let mark = Written { revision: to, time: now, what: MARK, ..Written::default() };
        let written = changes.iter().map(Written::of).chain(std::iter::once(mark));
        for written in written {
            let offset = start + bytes.len() as u64;
            let length = frame(&written, &mut bytes)?;
            frames.push((written, JournalSlot { offset, length, time: 0 }));
        }
        if let Err(error) = self.file.write_all_at(&bytes, start) {
            // Best effort: what is left there is overwritten by the next attempt and cut off when the file is opened.
            let _ = self.file.set_len(start);
            return Err(Error::io(&self.path, error));
        }
        let mut state = self.state.write();
        for (written, slot) in frames {
            state.note(&written, JournalSlot { time: written.time, ..slot });
        }
        state.end = start + bytes.len() as u64;
        state.is_synced = false;
        Ok(())
    }

    /// Makes durable what was appended.
    pub fn sync(&self) -> Result<()> {
        if std::mem::replace(&mut self.state.write().is_synced, true) {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| Error::io(&self.path, error))
    }

    pub fn to(&self) -> Revision {
        self.state.read().to
    }

    pub fn changes(&self) -> usize {
        self.state.read().by_key.len()
    }

    pub fn bytes(&self) -> u64 {
        self.state.read().end
    }

    /// The earliest and the latest time of a change in it.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.state.read().times
    }

    /// The last change that was made until then, in the order of revisions.
    pub fn last_until(&self, time: i64) -> Option<Revision> {
        let state = self.state.read();
        let last = state.by_revision.iter().rev().find(|(_, slot)| slot.time <= time);
        last.map(|(sort, _)| revision_of(sort))
    }

    fn next(&self, order: Order, after: Bound<&[u8]>) -> Option<(Vec<u8>, JournalSlot)> {
        let state = self.state.read();
        let tree = match order {
            Order::Key => &state.by_key,
            Order::Revision => &state.by_revision,
        };
        tree.range::<[u8], _>((after, Bound::Unbounded)).next().map(|(sort, slot)| (sort.clone(), *slot))
    }

    fn read(&self, slot: JournalSlot) -> Result<Written> {
        let mut bytes = vec![0; slot.length as usize];
        self.file.read_exact_at(&mut bytes, slot.offset).map_err(|error| Error::io(&self.path, error))?;
        let read = read_frame(&bytes, 0).map(|(written, _)| written);
        read.ok_or_else(|| Error::damaged(&self.path, format!("the frame at byte {} is not whole", slot.offset)))
    }
}

impl State {
    fn empty(end: u64, from: Revision) -> State {
        let (by_key, by_revision) = Default::default();
        State { by_key, by_revision, end, to: from, times: None, is_synced: true }
    }

    fn note(&mut self, written: &Written, slot: JournalSlot) {
        if written.what == MARK {
            self.to = self.to.max(written.revision);
            return;
        }
        self.by_key.insert(by_key(&written.key, written.revision), slot);
        self.by_revision.insert(by_revision(written.revision, &written.key), slot);
        let (least, most) = self.times.unwrap_or((slot.time, slot.time));
        self.times = Some((least.min(slot.time), most.max(slot.time)));
    }
}

fn revision_of(sort: &[u8]) -> Revision {
    sort.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

fn frame(written: &Written, out: &mut Vec<u8>) -> Result<u32> {
    let payload = written.encode_to_vec();
    let too_large = || Error::Store(storage::Error::Unavailable("a change is too large to be recorded".into()));
    if payload.len() > FRAME_BYTES_MAX {
        return Err(too_large());
    }
    let length = u32::try_from(payload.len()).map_err(|_| too_large())?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&xxh3_64(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
    Ok(length + FRAME_HEAD_BYTES as u32)
}

/// The frame at a place, if it is whole, and where the next one begins.
fn read_frame(bytes: &[u8], at: usize) -> Option<(Written, usize)> {
    let head = bytes.get(at..at.checked_add(FRAME_HEAD_BYTES)?)?;
    let length = u32::from_le_bytes(*head.first_chunk()?) as usize;
    let start = at + FRAME_HEAD_BYTES;
    let payload = bytes.get(start..start.checked_add(length)?)?;
    if xxh3_64(payload).to_le_bytes() != head[4..] {
        return None;
    }
    Some((Written::decode(payload).ok()?, start + length))
}

/// Makes the names of a directory's files durable.
pub(crate) fn sync_directory(file: &Path) -> Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| Error::io(directory, error))
}

/// A place in a journal. Changes that are appended behind it are found.
pub(crate) struct JournalCursor {
    journal: std::sync::Arc<Journal>,
    order: Order,
    at: Option<(Vec<u8>, JournalSlot)>,
}

impl JournalCursor {
    pub fn at(journal: &std::sync::Arc<Journal>, order: Order, from: &[u8]) -> JournalCursor {
        let at = journal.next(order, Bound::Included(from));
        JournalCursor { journal: journal.clone(), order, at }
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.at.as_ref().map(|(sort, _)| &sort[..])
    }

    pub fn step(&mut self) {
        if let Some((sort, _)) = self.at.take() {
            self.at = self.journal.next(self.order, Bound::Excluded(&sort));
        }
    }

    pub fn seek(&mut self, key: &[u8]) {
        if self.key().is_some_and(|at| at < key) {
            self.at = self.journal.next(self.order, Bound::Included(key));
        }
    }

    pub fn written(&self) -> Result<Written> {
        match &self.at {
            Some((_, slot)) => self.journal.read(*slot),
            None => Ok(Written::default()),
        }
    }
}

/// The key of a change as it is written.
pub(crate) fn key_of(written: &Written) -> Key {
    written.key.clone().into()
}
