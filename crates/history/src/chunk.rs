//! A chunk: an immutable file with every change of some revisions, sorted by key and by revision.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prost::Message;
use storage::Revision;
use xxhash_rust::xxh3::xxh3_64;

use crate::change::{ValuePlace, Written, by_key, by_revision};
use crate::error::{Error, Result};
use crate::table::{Blocks, IndexEntry, Output, TableCache, TableCursor, TableWriter};

const MAGIC: &[u8; 8] = b"fkhist01";
/// Offset and checksum of the footer, and the magic.
const TRAILER_BYTES: u64 = 24;
/// Values that are next to each other are compressed together: versions of one object.
const VALUES_BYTES: usize = 128 << 10;

/// The facts about a chunk that are known without reading its blocks.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Footer {
    /// Every change after this revision is in the chunk …
    #[prost(int64, tag = "1")]
    pub from: i64,
    /// … up to this one.
    #[prost(int64, tag = "2")]
    pub to: i64,
    /// When it began to be written.
    #[prost(sint64, tag = "3")]
    pub begun: i64,
    #[prost(sint64, tag = "4")]
    pub min_time: i64,
    #[prost(sint64, tag = "5")]
    pub max_time: i64,
    #[prost(uint64, tag = "6")]
    pub changes: u64,
    /// The bytes of the changes before they were compressed.
    #[prost(uint64, tag = "7")]
    pub raw_bytes: u64,
    #[prost(message, repeated, tag = "8")]
    by_key: Vec<IndexEntry>,
    #[prost(message, repeated, tag = "9")]
    by_revision: Vec<IndexEntry>,
}

/// An open chunk.
pub(crate) struct Chunk {
    pub blocks: Arc<Blocks>,
    pub footer: Footer,
    pub bytes: u64,
    pub by_key: Arc<[IndexEntry]>,
    pub by_revision: Arc<[IndexEntry]>,
}

impl Chunk {
    pub fn open(path: &Path, cache: &Arc<TableCache>) -> Result<Chunk> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let failed = |error: std::io::Error| Error::io(path, error);
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let short = || Error::damaged(path, "it is too short");
        let at = bytes.checked_sub(TRAILER_BYTES).ok_or_else(short)?;
        let mut trailer = [0; TRAILER_BYTES as usize];
        file.read_exact_at(&mut trailer, at).map_err(failed)?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&trailer[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        if &trailer[16..] != MAGIC {
            return Err(Error::damaged(path, "it is no chunk"));
        }
        let length = at.checked_sub(number(0)).and_then(|length| usize::try_from(length).ok()).ok_or_else(short)?;
        let mut footer = vec![0; length];
        file.read_exact_at(&mut footer, number(0)).map_err(failed)?;
        if xxh3_64(&footer) != number(8) {
            return Err(Error::damaged(path, "its footer has another checksum"));
        }
        let mut footer = Footer::decode(&footer[..]).map_err(|error| Error::damaged(path, error))?;
        let (by_key, by_revision) =
            (std::mem::take(&mut footer.by_key).into(), std::mem::take(&mut footer.by_revision).into());
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let blocks = Arc::new(Blocks { file, path: path.into(), id, cache: cache.clone() });
        Ok(Chunk { blocks, footer, bytes, by_key, by_revision })
    }

    pub fn path(&self) -> &Path {
        &self.blocks.path
    }

    pub fn cursor(&self, root: &Arc<[IndexEntry]>, from: &[u8]) -> Result<TableCursor> {
        TableCursor::at(&self.blocks, root, from)
    }

    /// The value that a change has replaced.
    pub fn value(&self, written: &Written) -> Result<Bytes> {
        match place_of(written) {
            None => Ok(Bytes::new()),
            Some(place) => slice(&self.blocks, &self.blocks.read(place.block)?, place),
        }
    }

    pub fn read_head(&self, cursor: &TableCursor) -> Result<Written> {
        Written::decode(cursor.value()).map_err(|error| Error::damaged(self.path(), error))
    }

    /// Reads every block and checks it. Nothing else is noticed before it is needed.
    pub fn check(&self) -> Result<()> {
        let mut values = None;
        let mut cursor = self.cursor(&self.by_key, &[])?;
        while cursor.key().is_some() {
            let written = self.read_head(&cursor)?;
            self.value_in_order(&written, &mut values)?;
            cursor.step()?;
        }
        let (mut cursor, mut changes) = (self.cursor(&self.by_revision, &[])?, 0);
        while cursor.key().is_some() {
            self.read_head(&cursor)?;
            changes += 1;
            cursor.step()?;
        }
        match changes == self.footer.changes {
            true => Ok(()),
            false => Err(Error::damaged(self.path(), "it has not as many changes as it says")),
        }
    }

    /// As `value`, for a reader that takes all of them in their order and leaves the cache to others.
    pub fn value_in_order(&self, written: &Written, last: &mut Option<(u64, Bytes)>) -> Result<Bytes> {
        let Some(place) = place_of(written) else { return Ok(Bytes::new()) };
        let block = match last {
            Some((at, block)) if *at == place.block => block.clone(),
            _ => {
                let block = self.blocks.read_from_file(place.block)?;
                *last = Some((place.block, block.clone()));
                block
            }
        };
        slice(&self.blocks, &block, place)
    }
}

/// Where the value is, unless it is empty and nowhere.
fn place_of(written: &Written) -> Option<ValuePlace> {
    written.place.filter(|place| place.length > 0)
}

fn slice(blocks: &Blocks, block: &Bytes, place: ValuePlace) -> Result<Bytes> {
    let (start, end) = (place.start as usize, (place.start as usize).saturating_add(place.length as usize));
    if end > block.len() {
        return Err(Error::damaged(&blocks.path, "a value is not where it should be"));
    }
    // A copy, so that one small value does not keep a whole block in memory.
    Ok(Bytes::copy_from_slice(&block[start..end]))
}

/// Writes a chunk: first all changes by key, then all of them by revision.
pub(crate) struct ChunkWriter {
    output: Output,
    path: PathBuf,
    footer: Footer,
    values: Vec<u8>,
    by_key: TableWriter,
    by_revision: TableWriter,
}

impl ChunkWriter {
    /// For the changes after `from` up to `to`, of a history that goes back to the time `begun`.
    pub fn create(path: &Path, from: Revision, to: Revision, begun: i64) -> Result<ChunkWriter> {
        let footer = Footer { from, to, begun, min_time: i64::MAX, max_time: i64::MIN, ..Footer::default() };
        Ok(ChunkWriter {
            output: Output::create(path, MAGIC)?,
            path: path.into(),
            footer,
            values: Vec::new(),
            by_key: TableWriter::default(),
            by_revision: TableWriter::default(),
        })
    }

    /// The next change by key, with the value it replaced.
    pub fn add(&mut self, mut written: Written, value: &[u8]) -> Result<()> {
        let too_large = || Error::io(&self.path, "a value is too large");
        self.footer.raw_bytes += (written.encoded_len() + value.len()) as u64;
        written.value = Bytes::new();
        written.place = None;
        if written.replaced.is_some() {
            written.place = Some(ValuePlace {
                // Nothing else is written while values are collected, so this is where their block will be.
                block: self.output.position,
                start: u32::try_from(self.values.len()).map_err(|_| too_large())?,
                length: u32::try_from(value.len()).map_err(|_| too_large())?,
            });
            self.values.extend_from_slice(value);
        }
        let key = by_key(&written.key, written.revision);
        self.by_key.add(&key, &written.encode_to_vec(), written.time);
        if self.values.len() >= VALUES_BYTES || self.by_key.is_full() {
            self.flush_values()?;
            if self.by_key.is_full() {
                self.by_key.flush(&mut self.output)?;
            }
        }
        Ok(())
    }

    fn flush_values(&mut self) -> Result<()> {
        if !self.values.is_empty() {
            self.output.block(&self.values)?;
            self.values.clear();
        }
        Ok(())
    }

    /// The next change by revision, once all of them were added by key.
    pub fn add_by_revision(&mut self, written: Written) -> Result<()> {
        self.flush_values()?;
        self.by_key.flush(&mut self.output)?;
        let key = by_revision(written.revision, &written.key);
        let time = written.time;
        self.by_revision.add(&key, &written.head_only().encode_to_vec(), time);
        self.footer.changes += 1;
        self.footer.min_time = self.footer.min_time.min(time);
        self.footer.max_time = self.footer.max_time.max(time);
        if self.by_revision.is_full() {
            self.by_revision.flush(&mut self.output)?;
        }
        Ok(())
    }

    /// Makes the file durable.
    pub fn finish(mut self) -> Result<()> {
        self.flush_values()?;
        if self.footer.changes == 0 {
            (self.footer.min_time, self.footer.max_time) = (self.footer.begun, self.footer.begun);
        }
        self.footer.by_key = self.by_key.finish(&mut self.output)?;
        self.footer.by_revision = self.by_revision.finish(&mut self.output)?;
        let mut end = self.footer.encode_to_vec();
        let checksum = xxh3_64(&end);
        let offset = self.output.position;
        end.extend_from_slice(&offset.to_le_bytes());
        end.extend_from_slice(&checksum.to_le_bytes());
        end.extend_from_slice(MAGIC);
        self.output.finish(&end).map(drop)
    }
}
