//! Sorted entries in a file: compressed, checksummed blocks, found by an index of two levels of which only the upper one is in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

/// A block of a table is written when it has so many bytes.
const BLOCK_BYTES: usize = 32 << 10;
/// So many blocks share a block of the index.
const INDEX_ENTRIES: usize = 128;
/// Length of the compressed bytes, length of the bytes, checksum of the compressed bytes.
const BLOCK_HEAD_BYTES: usize = 16;
/// No block is larger: a value has a few MiB at most.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// How hard zstd tries; more costs much more time for little room.
const LEVEL: i32 = 3;

/// Where a block is, and what it begins with.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IndexEntry {
    #[prost(bytes = "bytes", tag = "1")]
    pub first: Bytes,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// The earliest time of a change in it.
    #[prost(sint64, tag = "3")]
    pub min_time: i64,
}

#[derive(Clone, PartialEq, Message)]
struct IndexBlock {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<IndexEntry>,
}

/// A file that blocks are appended to.
pub(crate) struct Output {
    file: std::io::BufWriter<File>,
    path: PathBuf,
    /// Where the next block will be.
    pub position: u64,
    compressor: zstd::bulk::Compressor<'static>,
}

impl Output {
    /// A new file that begins with these bytes.
    pub fn create(path: &Path, beginning: &[u8]) -> Result<Output> {
        let failed = |error: std::io::Error| Error::io(path, error);
        let file = files::open(path).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        let mut file = std::io::BufWriter::with_capacity(256 << 10, file);
        file.write_all(beginning).map_err(failed)?;
        let compressor = zstd::bulk::Compressor::new(LEVEL).map_err(failed)?;
        Ok(Output { file, path: path.into(), position: beginning.len() as u64, compressor })
    }

    /// Appends a block; returns where it is.
    pub fn block(&mut self, raw: &[u8]) -> Result<u64> {
        let failed = |error: std::io::Error| Error::io(&self.path, error);
        let compressed = self.compressor.compress(raw).map_err(failed)?;
        let mut head = Vec::with_capacity(BLOCK_HEAD_BYTES);
        for length in [compressed.len(), raw.len()] {
            let length = u32::try_from(length).map_err(|_| Error::io(&self.path, "a block is too large"))?;
            head.extend_from_slice(&length.to_le_bytes());
        }
        head.extend_from_slice(&xxh3_64(&compressed).to_le_bytes());
        self.file.write_all(&head).and_then(|()| self.file.write_all(&compressed)).map_err(failed)?;
        let offset = self.position;
        self.position += (BLOCK_HEAD_BYTES + compressed.len()) as u64;
        Ok(offset)
    }

    /// Appends these bytes and makes everything durable.
    pub fn finish(mut self, end: &[u8]) -> Result<File> {
        let failed = |error: std::io::Error| Error::io(&self.path, error);
        self.file.write_all(end).and_then(|()| self.file.flush()).map_err(failed)?;
        let file = self.file.into_inner().map_err(|error| Error::io(&self.path, error.error()))?;
        file.sync_all().map_err(failed)?;
        Ok(file)
    }
}

/// Blocks of one file, the latest of which are in memory.
pub(crate) struct Blocks {
    pub file: File,
    pub path: PathBuf,
    /// Tells files apart in the cache.
    pub id: u64,
    pub cache: Arc<TableCache>,
}

impl Blocks {
    /// Reads a block, from memory if it was read before.
    pub fn read(&self, offset: u64) -> Result<Bytes> {
        if let Some(known) = self.cache.get((self.id, offset)) {
            return Ok(known);
        }
        let raw = self.read_from_file(offset)?;
        self.cache.put((self.id, offset), raw.clone());
        Ok(raw)
    }

    /// Reads a block that will not be read again soon.
    pub fn read_from_file(&self, offset: u64) -> Result<Bytes> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "it is too short"),
            _ => Error::io(&self.path, error),
        };
        let damaged = |what: &str| Error::damaged(&self.path, format!("the block at byte {offset} {what}"));
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.file.read_exact_at(&mut head, offset).map_err(failed)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (compressed, raw) = (number(0), number(4));
        if compressed > BLOCK_BYTES_MAX || raw > BLOCK_BYTES_MAX {
            return Err(damaged("has an impossible length"));
        }
        let mut bytes = vec![0; compressed];
        self.file.read_exact_at(&mut bytes, offset.saturating_add(BLOCK_HEAD_BYTES as u64)).map_err(failed)?;
        if xxh3_64(&bytes).to_le_bytes() != head[8..] {
            return Err(damaged("has another checksum"));
        }
        let raw = zstd::bulk::decompress(&bytes, raw).map_err(|error| damaged(&error.to_string()))?;
        Ok(raw.into())
    }
}

/// The blocks that were read last. Two generations: when the newer one is full it becomes the older one, which is forgotten.
pub(crate) struct TableCache {
    generations: Mutex<Generations>,
    generation_bytes_max: usize,
}

#[derive(Default)]
struct Generations {
    newer: HashMap<(u64, u64), Bytes>,
    older: HashMap<(u64, u64), Bytes>,
    newer_bytes: usize,
}

impl TableCache {
    pub fn of(bytes_max: usize) -> TableCache {
        TableCache { generations: Mutex::default(), generation_bytes_max: bytes_max / 2 }
    }

    fn get(&self, at: (u64, u64)) -> Option<Bytes> {
        let found = {
            let generations = self.generations.lock();
            if let Some(block) = generations.newer.get(&at) {
                return Some(block.clone());
            }
            generations.older.get(&at).cloned()
        };
        if let Some(block) = &found {
            self.put(at, block.clone());
        }
        found
    }

    fn put(&self, at: (u64, u64), block: Bytes) {
        if block.len() > self.generation_bytes_max {
            return;
        }
        let mut generations = self.generations.lock();
        if generations.newer_bytes + block.len() > self.generation_bytes_max {
            generations.older = std::mem::take(&mut generations.newer);
            generations.newer_bytes = 0;
        }
        generations.newer_bytes += block.len();
        if let Some(before) = generations.newer.insert(at, block) {
            generations.newer_bytes -= before.len();
        }
    }
}

/// Collects entries in their order and writes them as blocks.
#[derive(Default)]
pub(crate) struct TableWriter {
    raw: Vec<u8>,
    first: Vec<u8>,
    min_time: Option<i64>,
    index: Vec<IndexEntry>,
    root: Vec<IndexEntry>,
}

impl TableWriter {
    pub fn add(&mut self, key: &[u8], value: &[u8], time: i64) {
        if self.raw.is_empty() {
            self.first = key.to_vec();
        }
        self.raw.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.raw.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(value);
        self.min_time = Some(self.min_time.map_or(time, |least| least.min(time)));
    }

    pub fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES
    }

    /// Writes what was collected as a block.
    pub fn flush(&mut self, output: &mut Output) -> Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let offset = output.block(&self.raw)?;
        self.raw.clear();
        let first = std::mem::take(&mut self.first).into();
        self.index.push(IndexEntry { first, offset, min_time: self.min_time.take().unwrap_or(0) });
        if self.index.len() == INDEX_ENTRIES {
            self.flush_index(output)?;
        }
        Ok(())
    }

    fn flush_index(&mut self, output: &mut Output) -> Result<()> {
        let block = IndexBlock { entries: std::mem::take(&mut self.index) };
        let Some(first) = block.entries.first().map(|entry| entry.first.clone()) else { return Ok(()) };
        let min_time = block.entries.iter().map(|entry| entry.min_time).min().unwrap_or(0);
        let offset = output.block(&block.encode_to_vec())?;
        self.root.push(IndexEntry { first, offset, min_time });
        Ok(())
    }

    /// Writes the rest; returns the upper level of the index.
    pub fn finish(mut self, output: &mut Output) -> Result<Vec<IndexEntry>> {
        self.flush(output)?;
        self.flush_index(output)?;
        Ok(self.root)
    }
}

/// A place in a table, which moves forward.
pub(crate) struct TableCursor {
    blocks: Arc<Blocks>,
    root: Arc<[IndexEntry]>,
    root_at: usize,
    index: Vec<IndexEntry>,
    index_at: usize,
    block: Bytes,
    /// The current entry: its key and value in the block. None at the end.
    entry: Option<(std::ops::Range<usize>, std::ops::Range<usize>)>,
}

impl TableCursor {
    /// At the first entry that is not below `key`.
    pub fn at(blocks: &Arc<Blocks>, root: &Arc<[IndexEntry]>, key: &[u8]) -> Result<TableCursor> {
        let (blocks, root) = (blocks.clone(), root.clone());
        let mut cursor =
            TableCursor { blocks, root, root_at: 0, index: Vec::new(), index_at: 0, block: Bytes::new(), entry: None };
        cursor.jump(key)?;
        Ok(cursor)
    }

    /// At the first entry of a block, after whose last one is the end.
    pub fn within(blocks: &Arc<Blocks>, block: IndexEntry) -> Result<TableCursor> {
        let (blocks, root, index) = (blocks.clone(), Arc::new([]), vec![block]);
        let mut cursor = TableCursor { blocks, root, root_at: 0, index, index_at: 0, block: Bytes::new(), entry: None };
        cursor.load_block()?;
        Ok(cursor)
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.entry.as_ref().map(|(key, _)| &self.block[key.clone()])
    }

    pub fn value(&self) -> Bytes {
        self.entry.as_ref().map(|(_, value)| self.block.slice(value.clone())).unwrap_or_default()
    }

    /// To the next entry.
    pub fn step(&mut self) -> Result<()> {
        let Some((_, value)) = &self.entry else { return Ok(()) };
        let next = value.end;
        if next < self.block.len() {
            return self.read_entry(next);
        }
        self.index_at += 1;
        if self.index_at >= self.index.len() {
            self.root_at += 1;
            self.index_at = 0;
            if !self.load_index()? {
                self.entry = None;
                return Ok(());
            }
        }
        self.load_block()
    }

    /// To the first entry that is not below `key`. Does nothing if that is behind.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let is_elsewhere = match self.index.get(self.index_at + 1) {
            Some(next) => &next.first[..] <= key,
            None => self.root.get(self.root_at + 1).is_some_and(|next| &next.first[..] <= key),
        };
        if self.entry.is_some() && is_elsewhere {
            return self.jump(key);
        }
        while self.key().is_some_and(|at| at < key) {
            self.step()?;
        }
        Ok(())
    }

    fn jump(&mut self, key: &[u8]) -> Result<()> {
        self.root_at = self.root.partition_point(|entry| &entry.first[..] <= key).saturating_sub(1);
        if !self.load_index()? {
            self.entry = None;
            return Ok(());
        }
        self.index_at = self.index.partition_point(|entry| &entry.first[..] <= key).saturating_sub(1);
        self.load_block()?;
        while self.key().is_some_and(|at| at < key) {
            self.step()?;
        }
        Ok(())
    }

    fn load_index(&mut self) -> Result<bool> {
        let Some(entry) = self.root.get(self.root_at) else { return Ok(false) };
        self.index = read_index(&self.blocks, entry.offset)?;
        Ok(true)
    }

    fn load_block(&mut self) -> Result<()> {
        let Some(entry) = self.index.get(self.index_at) else { return Err(self.damaged()) };
        self.block = self.blocks.read(entry.offset)?;
        self.read_entry(0)
    }

    fn read_entry(&mut self, at: usize) -> Result<()> {
        let number = |at: usize| -> Option<usize> {
            let bytes: [u8; 4] = self.block.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        let lengths = number(at).zip(number(at + 4));
        let entry = lengths.map(|(key, value)| (at + 8..at + 8 + key, at + 8 + key..at + 8 + key + value));
        match entry.filter(|(_, value)| value.end <= self.block.len()) {
            Some(entry) => self.entry = Some(entry),
            None => return Err(self.damaged()),
        }
        Ok(())
    }

    fn damaged(&self) -> Error {
        Error::damaged(&self.blocks.path, "a block has no whole entries")
    }
}

fn read_index(blocks: &Blocks, offset: u64) -> Result<Vec<IndexEntry>> {
    let block = IndexBlock::decode(&blocks.read(offset)?[..]);
    Ok(block.map_err(|error| Error::damaged(&blocks.path, error))?.entries)
}

/// The last block that has an entry of this time or an earlier one.
pub(crate) fn last_block_until(blocks: &Blocks, root: &[IndexEntry], time: i64) -> Result<Option<IndexEntry>> {
    let Some(upper) = root.iter().rev().find(|entry| entry.min_time <= time) else { return Ok(None) };
    let index = read_index(blocks, upper.offset)?;
    Ok(index.iter().rev().find(|entry| entry.min_time <= time).cloned())
}
