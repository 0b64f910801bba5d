//! What happens to chunks: small ones are merged, so that a read looks into few files, and old ones are deleted.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::archive::{Archive, KEPT_FROM, chunk_path, remove};
use crate::chunk::{Chunk, ChunkWriter};
use crate::clock::millis;
use crate::error::{Error, Result};
use crate::table::{TableCache, TableCursor};

/// So many chunks of about one size become one.
const MERGED: usize = 8;

impl Archive {
    /// Deletes what is too old or too much, and merges what is too small. Returns whether there is more to do.
    pub fn maintain(&self) -> Result<bool> {
        self.seal_old_journal()?;
        self.delete_old()?;
        let Some(run) = self.mergeable().filter(|_| !self.is_ending.load(Ordering::Relaxed)) else { return Ok(false) };
        match self.merge(&run) {
            Ok(()) => Ok(true),
            Err(error @ Error::Damaged { .. }) => {
                tracing::error!(%error, "a history file is damaged; what it had cannot be read");
                self.unmergeable.lock().extend(run.iter().map(|chunk| chunk.footer.from));
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// A journal that grows slowly becomes a chunk in time to be deleted when it is old.
    fn seal_old_journal(&self) -> Result<()> {
        let least = self.files.read().journal.as_ref().and_then(|journal| journal.times()).map(|(least, _)| least);
        let age = least.map(|least| (self.options.clock.now)().saturating_sub(least));
        match age.is_some_and(|age| age > millis(self.options.age / 8)) {
            true => self.seal(),
            false => Ok(()),
        }
    }

    fn delete_old(&self) -> Result<()> {
        let _changing = self.changing.lock();
        let horizon = self.guard.trusted_now().map(|now| now.saturating_sub(millis(self.options.age)));
        loop {
            let bytes: u64 = self.segments().iter().map(|segment| segment.bytes()).sum();
            let Some(oldest) = self.files.read().chunks.first().cloned() else { return Ok(()) };
            let is_old = horizon.is_some_and(|horizon| oldest.footer.max_time < horizon);
            if !is_old && bytes <= self.options.bytes {
                return Ok(());
            }
            let kept_from = self.files.read().kept_from.max(oldest.footer.max_time);
            let path = self.options.directory.join(KEPT_FROM);
            files::replace(&path, kept_from.to_string().as_bytes()).map_err(|error| Error::io(&path, error))?;
            {
                let mut files = self.files.write();
                files.kept_from = kept_from;
                files.chunks.remove(0);
            }
            remove(oldest.path())?;
        }
    }

    /// The oldest chunks of one size that follow each other and are worth merging.
    fn mergeable(&self) -> Option<Vec<Arc<Chunk>>> {
        let chunks = self.files.read().chunks.clone();
        let unmergeable = self.unmergeable.lock();
        let mut run: Vec<Arc<Chunk>> = Vec::new();
        for chunk in chunks {
            let goes_on = run
                .last()
                .is_some_and(|last| last.footer.to == chunk.footer.from && self.level(last) == self.level(&chunk));
            if !goes_on || unmergeable.contains(&chunk.footer.from) {
                run.clear();
            }
            if !unmergeable.contains(&chunk.footer.from) {
                run.push(chunk);
            }
            if run.len() == MERGED && self.may_be_one(&run) {
                return Some(run);
            }
            if run.len() == MERGED {
                run.remove(0);
            }
        }
        None
    }

    /// Chunks of one level have about one size.
    fn level(&self, chunk: &Chunk) -> u32 {
        let small = (self.options.sealed_bytes() * 4).max(1);
        (chunk.footer.raw_bytes / small).checked_ilog(MERGED as u64).map_or(0, |level| level + 1)
    }

    /// Whether what they are merged to can be deleted in time.
    fn may_be_one(&self, run: &[Arc<Chunk>]) -> bool {
        let bytes: u64 = run.iter().map(|chunk| chunk.footer.raw_bytes).sum();
        let (first, last) = (run.first(), run.last());
        let span = first.zip(last).map_or(0, |(first, last)| last.footer.max_time - first.footer.min_time);
        bytes <= self.options.chunk_bytes() && span <= millis(self.options.age / 4)
    }

    fn merge(&self, run: &[Arc<Chunk>]) -> Result<()> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let path = chunk_path(&self.options.directory, first.footer.from, last.footer.to);
        let temporary = path.with_extension("new");
        let mut writer = ChunkWriter::create(&temporary, first.footer.from, last.footer.to, first.footer.begun)?;
        let now = self.guard.trusted_now();
        // Resources that are kept for a shorter time leave when chunks are merged.
        let is_kept = |key: &[u8], time: i64| {
            let age = self.options.age_of(key);
            now.is_none_or(|now| age == self.options.age || time >= now.saturating_sub(millis(age)))
        };
        let cursors: Result<Vec<TableCursor>> = run.iter().map(|chunk| chunk.cursor(&chunk.by_key, &[])).collect();
        let (mut cursors, mut values) = (cursors?, vec![None; run.len()]);
        loop {
            let least = cursors.iter().enumerate().filter_map(|(at, cursor)| Some((cursor.key()?, at))).min();
            let Some((_, at)) = least else { break };
            if self.is_ending.load(Ordering::Relaxed) {
                return remove(&temporary);
            }
            let written = run[at].read_head(&cursors[at])?;
            let value = run[at].value_in_order(&written, &mut values[at])?;
            if is_kept(&written.key, written.time) {
                writer.add(written, &value)?;
            }
            cursors[at].step()?;
        }
        for chunk in run {
            let mut cursor = chunk.cursor(&chunk.by_revision, &[])?;
            while cursor.key().is_some() {
                let written = chunk.read_head(&cursor)?;
                if is_kept(&written.key, written.time) {
                    writer.add_by_revision(written)?;
                }
                cursor.step()?;
            }
        }
        writer.finish()?;
        self.replace(run, &temporary, &path)
    }

    fn replace(&self, run: &[Arc<Chunk>], temporary: &Path, path: &Path) -> Result<()> {
        let _changing = self.changing.lock();
        let is_merged = |chunk: &Arc<Chunk>| run.iter().any(|merged| Arc::ptr_eq(merged, chunk));
        // Some may have been deleted meanwhile because there is too much; then so is what they became.
        if self.files.read().chunks.iter().filter(|chunk| is_merged(chunk)).count() < run.len() {
            return remove(temporary);
        }
        let merged = Arc::new(self.publish(temporary, path)?);
        {
            let mut files = self.files.write();
            let at = files.chunks.iter().position(is_merged).unwrap_or(0);
            files.chunks.retain(|chunk| !is_merged(chunk));
            files.chunks.insert(at, merged);
        }
        run.iter().try_for_each(|chunk| remove(chunk.path()))
    }
}

/// Reads every file of a history that is not in use; says of each damaged one what is wrong. Returns how many changes there are.
pub fn check(directory: &Path) -> Result<(u64, Vec<Error>)> {
    let (mut changes, mut wrong) = (0, Vec::new());
    let cache = Arc::new(TableCache::of(0));
    let failed = |error: std::io::Error| Error::io(directory, error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let is_chunk = |path: &&std::path::PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("chunk-") && !name.ends_with(".new")
    };
    for path in paths.iter().filter(is_chunk) {
        match Chunk::open(path, &cache).and_then(|chunk| chunk.check().map(|()| chunk.footer.changes)) {
            Ok(count) => changes += count,
            Err(error) => wrong.push(error),
        }
    }
    Ok((changes, wrong))
}
