//! How far the log reaches, in a small file beside it.
//!
//! After every group the mark says which file the group is in, by generation and nonce, and the group's last revision. It is
//! on disk when the first group of a file is acknowledged; later groups only write it, which costs no sync and survives
//! everything but a loss of power. A log that does not reach as far as the mark has lost what was acknowledged, whatever
//! its files look like.
//!
//! ```text
//! file   two slots, 4096 bytes apart, that are written in turns; the later one that is whole counts
//! slot   magic 8 | id u64 | generation u64 | nonce u64 | revision i64 | checksum u64 | zeros up to 512
//! ```

use std::io;
use std::path::Path;

use redb::StorageBackend;
use storage::Revision;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::OpenError;
use crate::options::EmbeddedOptions;

const MAGIC: [u8; 8] = *b"fk-mark\x01";
const SLOT_BYTES: usize = 512;
const SLOTS: [u64; 2] = [0, 4096];
const MARK_BYTES: usize = 48;

/// The end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The store's, as in `Numbers`.
    pub id: u64,
    /// The file that has the last group; 0 if no file was begun.
    pub generation: u64,
    pub nonce: u64,
    /// The last revision that was acknowledged.
    pub revision: Revision,
}

impl Mark {
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&MAGIC);
        let numbers = [self.id, self.generation, self.nonce, self.revision as u64];
        for (at, number) in numbers.into_iter().enumerate() {
            slot[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = xxh3_64(&slot[..MARK_BYTES - 8]);
        slot[MARK_BYTES - 8..MARK_BYTES].copy_from_slice(&checksum.to_le_bytes());
        slot
    }

    fn parse(slot: &[u8]) -> Option<Mark> {
        let slot = slot.get(..MARK_BYTES)?;
        let number = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
        let is_whole = slot[..8] == MAGIC && number(MARK_BYTES - 8)? == xxh3_64(&slot[..MARK_BYTES - 8]);
        let mark = Mark { id: number(8)?, generation: number(16)?, nonce: number(24)?, revision: number(32)? as i64 };
        is_whole.then_some(mark)
    }
}

pub(super) struct MarkFile {
    file: Box<dyn StorageBackend>,
    /// The slot that is written next.
    slot: usize,
    /// What is certainly on disk.
    pub synced: Mark,
}

impl MarkFile {
    /// Opens or creates the file; the mark is none if there is none that can be read.
    pub fn open(path: &Path, options: &EmbeddedOptions) -> Result<(Self, Option<Mark>), OpenError> {
        let file = super::open_file(path, options)?;
        let failed = |error: io::Error| OpenError::io(path, error);
        let length = file.len().map_err(failed)?;
        let mut found = Vec::new();
        for (slot, offset) in SLOTS.into_iter().enumerate() {
            if length < offset + SLOT_BYTES as u64 {
                continue;
            }
            let mut bytes = [0; SLOT_BYTES];
            file.read(offset, &mut bytes).map_err(failed)?;
            found.extend(Mark::parse(&bytes).map(|mark| (mark, slot)));
        }
        let latest = found.into_iter().max_by_key(|(mark, _)| (mark.generation, mark.revision));
        let slot = latest.map_or(0, |(_, slot)| 1 - slot);
        Ok((MarkFile { file, slot, synced: Mark::default() }, latest.map(|(mark, _)| mark)))
    }

    /// Puts the mark into both slots, durably.
    pub fn reset(&mut self, mark: Mark) -> io::Result<()> {
        self.write(mark)?;
        self.write(mark)?;
        self.sync(mark)
    }

    pub fn write(&mut self, mark: Mark) -> io::Result<()> {
        self.file.write(SLOTS[self.slot], &mark.encode())?;
        self.slot = 1 - self.slot;
        Ok(())
    }

    pub fn sync(&mut self, mark: Mark) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = mark;
        Ok(())
    }
}
