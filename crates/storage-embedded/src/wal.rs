//! The write-ahead log: where a commit becomes durable.
//!
//! Two files take turns. A group of writes is one frame, appended with one write and one fsync to the active file, over
//! blocks that are allocated already, which is as little as a disk can be asked to do. When a file is full, the other one
//! is begun anew, provided that everything in it has reached the database meanwhile (see `checkpoint`).
//!
//! ```text
//! file   magic 8 | generation u64 | nonce u64 | after i64 | checksum u64 | zeros up to 64 | frames
//! frame  checksum u64 | payload length u32 | first revision i64 | payload: records, see `record`
//! ```
//!
//! The generation tells which file is younger. The frames of a file continue at the revision `after`: whatever an older
//! file has beyond it did not happen. That is how a group whose fsync failed is made undone: the next attempt begins
//! another file after the last good revision. Checksums of frames are seeded with the file's nonce, so that remains of
//! earlier use, or anything a client makes us store, cannot look like a frame. Reading stops at the first frame that is
//! not whole or does not follow on, which is where the last crash was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;
use storage::{Event, Revision};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::disk::sync_directory;
use crate::error::OpenError;
use crate::options::Options;
use crate::record;

const MAGIC: [u8; 8] = *b"fk-wal\x00\x01";
const HEADER_BYTES: usize = 64;
const FRAME_HEAD_BYTES: usize = 8 + 4 + 8;
/// A file grows by this much, filled with zeros, so that later writes find their blocks allocated.
const GROW_BYTES: u64 = 1 << 20;

pub(crate) struct Wal {
    files: [Segment; 2],
    active: usize,
    generation: u64,
    nonce: u64,
    /// Where the next frame goes; 0 if a file has to be begun first.
    offset: u64,
    bytes_max: u64,
    buffer: Vec<u8>,
}

struct Segment {
    file: Box<dyn StorageBackend>,
    /// Blocks up to here have been written before.
    allocated: u64,
    /// The last revision in it that happened; 0 if there is none.
    last: Revision,
}

#[derive(Debug)]
pub(crate) enum WalError {
    /// Both files have what is not in the database yet.
    Full,
    /// The group may be in a file or not, until the next one is begun.
    Io(String),
}

/// What was found in a file.
#[derive(Default)]
struct Found {
    generation: u64,
    nonce: u64,
    after: Revision,
    frames: Vec<Frame>,
    end: u64,
}

/// The records of one group.
pub(crate) struct Frame {
    pub first: Revision,
    pub last: Revision,
    pub payload: Vec<u8>,
}

pub(crate) fn paths(path: &Path) -> [PathBuf; 2] {
    ["wal-0", "wal-1"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    })
}

impl Wal {
    /// Opens or creates the files, and returns the groups in them that happened, in order.
    pub fn open(options: &Options) -> Result<(Self, Vec<Frame>), OpenError> {
        let [first, second] = paths(&options.path);
        let files = [Segment::open(&first, options)?, Segment::open(&second, options)?];
        let found = [files[0].read(&first)?, files[1].read(&second)?];
        let active = usize::from(found[1].generation > found[0].generation);
        let mut wal = Wal {
            files,
            active,
            generation: found[active].generation,
            nonce: found[active].nonce,
            offset: found[active].end,
            bytes_max: options.wal_bytes,
            buffer: Vec::new(),
        };
        let [older, younger] = if active == 0 { [1, 0] } else { [0, 1] };
        for index in [older, younger] {
            wal.files[index].last = found[index].frames.last().map_or(0, |frame| frame.last);
        }
        let after = found[younger].after;
        let is_begun = found[younger].generation > 0;
        let mut frames = Vec::new();
        let [zero, one] = found;
        let (older, younger) = if active == 0 { (one, zero) } else { (zero, one) };
        frames.extend(older.frames.into_iter().filter(|frame| !is_begun || frame.last <= after));
        frames.extend(younger.frames);
        Ok((wal, frames))
    }

    /// Makes a group durable. `after` is the revision before it, `checkpointed` the last one in the database.
    pub fn append(&mut self, events: &[Arc<Event>], after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        let Some(last) = events.last().map(|event| event.revision) else { return Ok(()) };
        let frame_bytes: usize =
            FRAME_HEAD_BYTES + events.iter().map(|event| record::encoded_len(event)).sum::<usize>();
        let has_room = self.offset + frame_bytes as u64 <= self.bytes_max || self.offset == HEADER_BYTES as u64;
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

    /// Begins a file at this revision, durably: nothing after it has happened.
    pub fn restart(&mut self, after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        self.begin_next(after, checkpointed)?;
        let failed = |error: std::io::Error| WalError::Io(error.to_string());
        self.files[self.active].write(0, &self.buffer).map_err(failed)?;
        self.offset = HEADER_BYTES as u64;
        Ok(())
    }

    /// Makes the header of a file that is no longer needed. It is written with the first frame.
    fn begin_next(&mut self, after: Revision, checkpointed: Revision) -> Result<(), WalError> {
        self.offset = 0;
        let is_free = |index: &usize| self.files[*index].last <= checkpointed;
        let next = [1 - self.active, self.active].into_iter().find(is_free).ok_or(WalError::Full)?;
        self.active = next;
        self.generation += 1;
        self.nonce = random()?;
        self.files[next].last = 0;
        self.buffer.clear();
        self.buffer.extend_from_slice(&MAGIC);
        self.buffer.extend_from_slice(&self.generation.to_le_bytes());
        self.buffer.extend_from_slice(&self.nonce.to_le_bytes());
        self.buffer.extend_from_slice(&after.to_le_bytes());
        let checksum = xxh3_64(&self.buffer);
        self.buffer.extend_from_slice(&checksum.to_le_bytes());
        self.buffer.resize(HEADER_BYTES, 0);
        Ok(())
    }

    /// Writes the group, behind a new header if there is one in the buffer.
    fn write(&mut self, events: &[Arc<Event>], last: Revision) -> Result<(), String> {
        if self.offset > 0 {
            self.buffer.clear();
        }
        let start = self.buffer.len();
        self.buffer.resize(start + FRAME_HEAD_BYTES, 0);
        for event in events {
            record::encode(event, &mut self.buffer);
        }
        let length = (self.buffer.len() - start - FRAME_HEAD_BYTES) as u32;
        let first = events.first().map_or(last, |event| event.revision);
        self.buffer[start + 8..start + 12].copy_from_slice(&length.to_le_bytes());
        self.buffer[start + 12..start + 20].copy_from_slice(&first.to_le_bytes());
        let checksum = xxh3_64_with_seed(&self.buffer[start + 8..], self.nonce);
        self.buffer[start..start + 8].copy_from_slice(&checksum.to_le_bytes());

        let segment = &mut self.files[self.active];
        segment.write(self.offset, &self.buffer).map_err(|error| error.to_string())?;
        segment.last = last;
        self.offset += self.buffer.len() as u64;
        Ok(())
    }

    pub fn size(&self) -> u64 {
        self.files.iter().map(|segment| segment.allocated).sum()
    }
}

impl Segment {
    fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| OpenError::io(path, error);
        let file = match &options.backend {
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
        let allocated = file.len().map_err(failed)?;
        Ok(Segment { file, allocated, last: 0 })
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
        Ok(parse(&bytes).unwrap_or_default())
    }
}

/// None if the file has no valid header, as it was when it was being begun at the moment of a crash.
fn parse(bytes: &[u8]) -> Option<Found> {
    let header = bytes.get(..HEADER_BYTES)?;
    let number = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    if header[..8] != MAGIC || number(32)? != xxh3_64(&header[..32]) {
        return None;
    }
    let mut found = Found {
        generation: number(8)?,
        nonce: number(16)?,
        after: number(24)? as Revision,
        frames: Vec::new(),
        end: HEADER_BYTES as u64,
    };
    let mut last = found.after;
    while let Some(frame) = parse_frame(&bytes[found.end as usize..], found.nonce, last) {
        found.end += (FRAME_HEAD_BYTES + frame.payload.len()) as u64;
        last = frame.last;
        found.frames.push(frame);
    }
    Some(found)
}

/// The frame that begins here and continues after `last`, if there is one.
fn parse_frame(bytes: &[u8], nonce: u64, last: Revision) -> Option<Frame> {
    let (head, rest) = bytes.split_at_checked(FRAME_HEAD_BYTES)?;
    let checksum = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
    let first = Revision::from_le_bytes(head[12..20].try_into().ok()?);
    let payload = rest.get(..length)?;
    if first != last + 1 || checksum != xxh3_64_with_seed(&bytes[8..FRAME_HEAD_BYTES + length], nonce) {
        return None;
    }
    let mut end = last;
    for record in record::records(payload) {
        let revision = record.ok()?.revision;
        if revision != end + 1 {
            return None;
        }
        end = revision;
    }
    Some(Frame { first, last: end, payload: payload.to_vec() })
}

fn random() -> Result<u64, WalError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| WalError::Io(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
