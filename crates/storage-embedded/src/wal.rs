//! The write-ahead log: where a commit becomes durable.
//!
//! Two files take turns. A group of writes is one frame, appended with one write and one fsync to the active file, over
//! blocks that are allocated already, which is as little as a disk can be asked to do. When a file is full, the other one
//! is begun anew, provided that everything in it has reached the database meanwhile (see `checkpoint`).
//!
//! The generation in a file's header tells which file is younger. The frames of a file continue at the revision `after`:
//! whatever an older file has beyond it did not happen. That is how a group whose fsync failed is made undone: the next
//! attempt begins another file after the last good revision. How files look is in `frames`; how they are read, and how a
//! write that a crash interrupted is told from damage, is in `scan`. `plain` reads the files of earlier versions.
//!
//! Files can also be missing, be cut off, be overwritten, or come from another time or store. So the database knows its log
//! by an identity and a generation, every file has both in its header, and `mark` says how far the log must reach.

mod follow;
mod frames;
mod mark;
mod plain;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;
use storage::{Event, Revision};

use crate::disk::sync_directory;
use crate::error::OpenError;
use crate::options::EmbeddedOptions;
use crate::record;
use crate::space::{Reserve, Reserved};
use frames::{FRAME_HEAD_BYTES, Header, SECTOR_BYTES, bytes_on_disk};
pub(crate) use mark::Mark;
use mark::MarkFile;
use scan::Found;
pub(crate) use scan::{Damage, Frame};

/// A file grows by this much, filled with zeros, so that later writes find their blocks allocated.
const GROW_BYTES: u64 = 1 << 20;

pub(crate) struct Wal {
    files: [Segment; 2],
    mark: MarkFile,
    /// The store's identity, which headers and the mark carry.
    id: u64,
    active: usize,
    generation: u64,
    nonce: u64,
    /// Where the next frame goes; 0 if a file has to be begun first.
    offset: u64,
    bytes_max: u64,
    reserve: Option<Arc<Reserve>>,
    /// The frame being written: its head and records, and the same as it goes to the file.
    frame: Vec<u8>,
    buffer: Vec<u8>,
}

struct Segment {
    file: Box<dyn StorageBackend>,
    /// Blocks up to here have been written before.
    allocated: u64,
    /// The last revision in it that happened; 0 if there is none.
    last: Revision,
    is_damaged: bool,
}

#[derive(Debug)]
pub(crate) enum WalError {
    /// Both files have what is not in the database yet.
    Full,
    /// The group may be in a file or not, until the next one is begun.
    Io(String),
}

/// What the files have, in order.
#[derive(Default)]
pub(crate) struct Replay {
    pub frames: Vec<Frame>,
    /// What was there and cannot be read any more.
    pub damage: Vec<Damage>,
    /// Everything up to this revision was acknowledged.
    pub reaches: Revision,
    /// The headers of the files that were begun.
    pub begun: Vec<Begun>,
    pub mark: Option<Mark>,
}

/// A file of the log that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub path: PathBuf,
    pub id: u64,
    pub generation: u64,
    pub nonce: u64,
}

pub(crate) fn paths(path: &Path) -> [PathBuf; 2] {
    [".wal-0", ".wal-1"].map(|suffix| files::with_suffix(path, suffix))
}

/// The file that says how far the log reaches.
pub(crate) fn mark_path(path: &Path) -> PathBuf {
    files::with_suffix(path, ".wal-mark")
}

/// All files of a store's write-ahead log.
pub(crate) fn files(path: &Path) -> [PathBuf; 3] {
    let [first, second] = paths(path);
    [first, second, mark_path(path)]
}

/// Whether there is anything of a store's write-ahead log.
pub(crate) fn exists(path: &Path) -> bool {
    files(path).iter().any(|file| file.exists())
}

impl Wal {
    /// Opens or creates the files, and reads them.
    pub fn open(options: &EmbeddedOptions) -> Result<(Self, Replay), OpenError> {
        let [first, second] = paths(&options.path);
        let mut files = [Segment::open(&first, options)?, Segment::open(&second, options)?];
        let found = [files[0].read(&first)?, files[1].read(&second)?];
        let (mark_file, mark) = MarkFile::open(&mark_path(&options.path), options)?;
        for (segment, found) in files.iter_mut().zip(&found) {
            segment.last = found.frames.last().map_or(0, |frame| frame.last);
            segment.is_damaged = !found.damage.is_empty();
        }
        let active = usize::from(found[1].header.generation > found[0].header.generation);
        let begun = [(first, found[0].header), (second, found[1].header)].into_iter();
        let begun = begun.filter(|(_, header)| header.generation > 0).map(|(path, header)| Begun {
            path,
            id: header.id,
            generation: header.generation,
            nonce: header.nonce,
        });
        let wal = Wal {
            files,
            mark: mark_file,
            id: 0,
            active,
            generation: found[active].header.generation,
            nonce: found[active].header.nonce,
            offset: found[active].end,
            bytes_max: options.wal_bytes,
            reserve: options.reserve.clone(),
            frame: Vec::new(),
            buffer: Vec::new(),
        };
        let [zero, one] = found;
        let replay = if active == 0 { join(one, zero) } else { join(zero, one) };
        Ok((wal, Replay { begun: begun.collect(), mark, ..replay }))
    }

    /// The generation of the file that is written.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the log that of a store which is at this revision, durably: from now on it must reach as far. `is_continued`
    /// says that the files end there already; otherwise one is begun.
    pub fn adopt(&mut self, id: u64, revision: Revision, is_continued: bool) -> std::io::Result<()> {
        self.id = id;
        if !is_continued {
            // Whatever the files have is in the database.
            self.restart(revision, Revision::MAX).map_err(|error| match error {
                WalError::Io(message) => std::io::Error::other(message),
                WalError::Full => std::io::ErrorKind::StorageFull.into(),
            })?;
        }
        let mark = Mark { id, generation: self.generation, nonce: self.nonce, revision };
        self.mark.reset(mark)
    }

    /// Makes a group durable. `after` is the revision before it, `checkpointed` the last one in the database.
    pub fn append(&mut self, events: &[Arc<Event>], after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        let Some(last) = events.last().map(|event| event.revision) else { return Ok(()) };
        let frame_bytes = bytes_on_disk(events.iter().map(|event| record::encoded_len(event)).sum());
        let has_room = self.offset + frame_bytes <= self.room() || self.offset == SECTOR_BYTES as u64;
        let mut failure = None;
        if self.offset > 0 && has_room {
            match self.write(events, last) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "cannot write to one file of the write-ahead log, trying the other");
                    failure = Some(error);
                }
            }
        }
        // A file is full, or it failed; another one may still do.
        self.begin_next(after, checkpointed).map_err(|error| match (error, failure) {
            (WalError::Full, Some(message)) => WalError::Io(message),
            (error, _) => error,
        })?;
        self.write(events, last).map_err(WalError::Io)
    }

    /// How long the active file may become. While the disk has no room, what it has must do.
    fn room(&self) -> u64 {
        match self.reserve.as_ref().is_some_and(|reserve| reserve.is_short()) {
            true => self.bytes_max.min(self.files[self.active].allocated),
            false => self.bytes_max,
        }
    }

    /// Begins a file at this revision, durably: nothing after it has happened.
    pub fn restart(&mut self, after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        self.begin_next(after, checkpointed)?;
        let failed = |error: std::io::Error| WalError::Io(error.to_string());
        self.files[self.active].write(0, &self.buffer).map_err(failed)?;
        self.offset = SECTOR_BYTES as u64;
        Ok(())
    }

    /// Makes the header of a file that is no longer needed. It is written with the first frame.
    fn begin_next(&mut self, after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        self.offset = 0;
        let is_free = |index: &usize| self.files[*index].last <= checkpointed;
        let next = [1 - self.active, self.active].into_iter().find(is_free).ok_or(WalError::Full)?;
        self.active = next;
        self.generation += 1;
        self.nonce = random().map_err(|error| WalError::Io(error.to_string()))?;
        self.files[next].last = 0;
        self.buffer.clear();
        Header { generation: self.generation, nonce: self.nonce, after, id: self.id }.encode(&mut self.buffer);
        Ok(())
    }

    /// Writes the group, behind a new header if there is one in the buffer.
    fn write(&mut self, events: &[Arc<Event>], last: Revision) -> Result<(), String> {
        if self.offset > 0 {
            self.buffer.clear();
        }
        self.frame.clear();
        self.frame.resize(FRAME_HEAD_BYTES, 0);
        for event in events {
            record::encode(event, &mut self.frame);
        }
        let first = events.first().map_or(last, |event| event.revision);
        frames::seal(&mut self.frame, first, last, self.nonce);
        frames::push_sectors(&self.frame, self.nonce, &mut self.buffer);

        self.files[self.active].write(self.offset, &self.buffer).map_err(|error| error.to_string())?;
        self.note_end(last)?;
        self.files[self.active].last = last;
        self.offset += self.buffer.len() as u64;
        Ok(())
    }

    /// Sets the mark. The first group of a file counts only when the mark is on disk, so that the file is missed if it
    /// gets lost.
    fn note_end(&mut self, revision: Revision) -> Result<(), String> {
        let mark = Mark { id: self.id, generation: self.generation, nonce: self.nonce, revision };
        let is_first = self.mark.synced.generation != self.generation;
        let noted = self.mark.write(mark).and_then(|()| if is_first { self.mark.sync(mark) } else { Ok(()) });
        match noted {
            Err(error) if is_first => Err(error.to_string()),
            Err(error) => {
                tracing::warn!(%error, "cannot note how far the write-ahead log reaches");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Forgets files that are damaged, when everything in them is in the database. Answers whether there were any.
    pub fn forget_damaged(&mut self) -> std::io::Result<bool> {
        let has_damaged = self.files.iter().any(|segment| segment.is_damaged);
        for segment in self.files.iter_mut().filter(|segment| segment.is_damaged) {
            segment.write(0, &[0; SECTOR_BYTES])?;
            (segment.last, segment.is_damaged) = (0, false);
        }
        Ok(has_damaged)
    }

    pub fn size(&self) -> u64 {
        self.files.iter().map(|segment| segment.allocated).sum()
    }
}

/// Opens or creates a file of the log; its name is durable then.
fn open_file(path: &Path, options: &EmbeddedOptions) -> Result<Box<dyn StorageBackend>, OpenError> {
    let failed = |error: std::io::Error| OpenError::io(path, error);
    let file: Box<dyn StorageBackend> = match &options.backend {
        Some(factory) => factory(path).map_err(failed)?,
        None => {
            let is_new = !path.exists();
            let file = files::open(path).map_err(failed)?;
            if is_new {
                sync_directory(path)?;
            }
            Box::new(FileBackend::new(file).map_err(|error| OpenError::io(path, error))?)
        }
    };
    Ok(Box::new(Reserved { file, path: path.into(), reserve: options.reserve.clone(), meter: None }))
}

impl Segment {
    fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let file = open_file(path, options)?;
        let allocated = file.len().map_err(|error| OpenError::io(path, error))?;
        Ok(Segment { file, allocated, last: 0, is_damaged: false })
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let end = offset + bytes.len() as u64;
        self.file.write(offset, bytes)?;
        if end > self.allocated {
            let grown = end.next_multiple_of(GROW_BYTES);
            self.file.write(end, &vec![0; (grown - end) as usize])?;
            self.file.sync_data()?;
            self.allocated = grown;
            return Ok(());
        }
        self.file.sync_data()
    }

    fn read(&self, path: &Path) -> Result<Found, OpenError> {
        let mut bytes = vec![0; self.allocated as usize];
        self.file.read(0, &mut bytes).map_err(|error| OpenError::io(path, error))?;
        let mut found = scan::scan(&bytes);
        for damage in &mut found.damage {
            damage.file = path.to_owned();
        }
        Ok(found)
    }
}

/// What both files have together.
fn join(mut older: Found, mut younger: Found) -> Replay {
    if younger.header.generation > 0 {
        // Beyond this the older file has only groups that were made undone.
        let after = younger.header.after;
        older.frames.retain(|frame| frame.last <= after);
        older.damage.retain_mut(|damage| {
            damage.last = Some(damage.last.unwrap_or(after).min(after));
            damage.is_header || damage.first <= after
        });
    }
    older.frames.append(&mut younger.frames);
    older.damage.append(&mut younger.damage);
    let last = older.frames.last().map_or(0, |frame| frame.last);
    let reaches = last.max(younger.header.after);
    Replay { frames: older.frames, damage: older.damage, reaches, ..Replay::default() }
}

/// An identity for a store: never 0.
pub(crate) fn random_id() -> std::io::Result<u64> {
    Ok(random()? | 1)
}

fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests;
