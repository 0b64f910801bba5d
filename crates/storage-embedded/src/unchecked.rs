//! Reading the file while its pages are checked.
//!
//! At a start redb reads the whole file to check its pages, and we read it to bring it into memory. Both take about as long, and
//! redb lets nothing else happen to a database while it checks it. So a second database is opened on the same file, whose
//! writes stay in memory. What it reads counts only if the check finds all pages intact.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, StorageBackend};

use crate::disk::catching;
use crate::log::{Loaded, LogReader};
use crate::options::EmbeddedOptions;

/// A smaller file is checked and read so quickly that a second database is not worth its memory.
const WORTH_IT_BYTES: u64 = 32 << 20;

/// A file that was closed in order, before anything was checked.
pub(crate) struct Unchecked(Database);

impl Unchecked {
    /// None if there is little to read, or if redb has to repair the file first.
    pub fn open(options: &EmbeddedOptions) -> Option<Unchecked> {
        Unchecked::open_from(options, WORTH_IT_BYTES)
    }

    fn open_from(options: &EmbeddedOptions, bytes_min: u64) -> Option<Unchecked> {
        let file = File::open(&options.path).ok().filter(|_| options.backend.is_none())?;
        let file = FileBackend::new(file).ok()?;
        let file_bytes = file.len().ok().filter(|bytes| *bytes >= bytes_min)?;
        let mut builder = Database::builder();
        builder.set_cache_size(options.cache_bytes).set_repair_callback(|session| session.abort());
        let copy = Copy { file, file_bytes, length: file_bytes.into(), written: Mutex::default() };
        catching(|| builder.create_with_backend(copy)).ok()?.ok().map(Unchecked)
    }

    /// Reads everything. Whatever goes wrong is found again by reading the file after the check.
    pub fn load(self) -> Option<Loaded> {
        catching(|| LogReader::new(&self.0.begin_read().ok()?).and_then(|reader| reader.load()).ok()).ok()?
    }
}

/// A file that can be written without changing it: what is written is kept in memory. That is a few pages, by which redb notes that
/// the file is in use, and that it is not.
#[derive(Debug)]
struct Copy {
    file: FileBackend,
    file_bytes: u64,
    length: AtomicU64,
    written: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl StorageBackend for Copy {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let in_file = self.file_bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_file, beyond) = out.split_at_mut(in_file);
        self.file.read(offset, from_file)?;
        beyond.fill(0);
        for (start, bytes) in self.written.lock().iter() {
            overlay(offset, out, *start, bytes);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.length.store(length, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.lock().push((offset, bytes.to_vec()));
        Ok(())
    }
}

/// Puts what was written at `start` over what was read from `offset` on.
fn overlay(offset: u64, out: &mut [u8], start: u64, written: &[u8]) {
    let first = start.max(offset);
    let end = (start + written.len() as u64).min(offset + out.len() as u64);
    if first < end {
        let length = (end - first) as usize;
        let (to, from) = ((first - offset) as usize, (first - start) as usize);
        out[to..to + length].copy_from_slice(&written[from..from + length]);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage::{Change, Expect, Store, Write};

    use super::*;
    use crate::EmbeddedStore;

    #[tokio::test]
    async fn what_is_read_before_the_check_is_what_is_read_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions::at(directory.path().join("store"));
        let store = EmbeddedStore::open(options.clone()).unwrap();
        for number in 0..300u64 {
            let change = Change::Put { value: Bytes::from(vec![number as u8; 3000]), ttl: None };
            let write = Write { key: format!("/{}", number % 200).into(), change, expect: Expect::Any };
            store.write(write).await.unwrap();
        }
        assert!(Unchecked::open_from(&options, 0).is_none(), "it is in use and was not closed");
        drop(store);
        let before = std::fs::read(&options.path).unwrap();
        let early = Unchecked::open_from(&options, 0).unwrap().load().unwrap();
        assert!(std::fs::read(&options.path).unwrap() == before, "the file does not change");
        assert!(Unchecked::open(&options).is_none(), "it is small");
        let disk = crate::disk::Disk::open(&options).unwrap();
        let late = disk.read(LogReader::load).unwrap();
        let seen = |loaded: &Loaded| {
            let entries: Vec<_> = loaded.state.current.iter().cloned().collect();
            (entries, loaded.state.revision, loaded.is_clean, loaded.bytes, loaded.history_bytes, loaded.records)
        };
        assert_eq!(seen(&early), seen(&late));
        assert_eq!(early.state.current.len(), 200);
    }

    #[test]
    fn nothing_is_read_from_what_is_no_database() {
        let directory = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions::at(directory.path().join("store"));
        assert!(Unchecked::open_from(&options, 0).is_none());
        std::fs::write(&options.path, vec![7; 100_000]).unwrap();
        assert!(Unchecked::open_from(&options, 0).is_none());
    }

    #[test]
    fn writes_are_seen_where_they_overlap() {
        let cases = [
            (5, "......"),
            (6, "z....."),
            (7, "yz...."),
            (8, "xyz..."),
            (11, "...xyz"),
            (12, "....xy"),
            (14, "......"),
        ];
        for (start, expected) in cases {
            let mut out = b"......".to_vec();
            overlay(8, &mut out, start, b"xyz");
            assert_eq!(String::from_utf8_lossy(&out), expected, "from {start}");
        }
        let mut inside = b"..".to_vec();
        overlay(9, &mut inside, 8, b"wxyz");
        assert_eq!(inside, b"xy");
    }
}
