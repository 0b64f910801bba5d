//! Copies of a history: made for a backup while it is recorded, and continued by the store that is restored from the backup.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use storage::Revision;

use crate::Options;
use crate::archive::{Archive, FileName, Status, chunk_path, remove};
use crate::chunk::{Chunk, ChunkWriter};
use crate::error::{Error, Result};

/// Copies a history, which may be in use, into a directory: every change up to a revision, and none after it. None if files were changed
/// meanwhile, or if not everything was recorded yet: then it can be tried again.
pub fn copy(from: &Path, to: &Path, until: Revision) -> Result<Option<Status>> {
    files::create_directory(to).map_err(|error| Error::io(to, error))?;
    if !copy_files(from, to)? {
        return Ok(None);
    }
    let archive = Archive::open(Options::at(to))?;
    if archive.recorded().is_none_or(|recorded| recorded < until) {
        return Ok(None);
    }
    archive.seal()?;
    archive.cut(until)?;
    Ok(Some(archive.status()))
}

/// Lets a copy go on at a later revision of a store, between which and its end nothing has happened.
pub fn continue_at(directory: &Path, revision: Revision) -> Result<()> {
    let archive = Archive::open(Options::at(directory))?;
    let Some(end) = archive.recorded() else { return Ok(()) };
    archive.begin_after(end)?;
    archive.append(&[], revision)?;
    archive.sync()
}

/// Makes the files of one directory those of another. False if they changed meanwhile.
fn copy_files(from: &Path, to: &Path) -> Result<bool> {
    for name in names(to)? {
        remove(&to.join(name))?;
    }
    let copied = names(from)?;
    for name in &copied {
        let (source, target) = (from.join(name), to.join(name));
        // Chunks never change, so that a second name is as good as a copy, where the file system has room for one.
        let linked = match FileName::of(&source) {
            Some(FileName::Chunk(..)) => std::fs::hard_link(&source, &target).is_ok(),
            _ => false,
        };
        if linked {
            continue;
        }
        match std::fs::copy(&source, &target) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::io(&source, error)),
        }
    }
    Ok(names(from)? == copied)
}

/// The names of a history's files but half written ones.
fn names(directory: &Path) -> Result<BTreeSet<OsString>> {
    let failed = |error: std::io::Error| Error::io(directory, error);
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_file =
            matches!(FileName::of(&path), Some(FileName::Chunk(..) | FileName::Journal(_) | FileName::KeptFrom));
        names.extend(path.file_name().filter(|_| is_file).map(OsString::from));
    }
    Ok(names)
}

impl Archive {
    /// Forgets every change after a revision; all changes are in chunks.
    fn cut(&self, until: Revision) -> Result<()> {
        let later: Vec<Arc<Chunk>> =
            self.files.read().chunks.iter().filter(|chunk| chunk.footer.to > until).cloned().collect();
        if later.is_empty() {
            return Ok(());
        }
        let journal = self.files.write().journal.take();
        for chunk in &later {
            let shorter = if chunk.footer.from < until { Some(self.cut_chunk(chunk, until)?) } else { None };
            let mut files = self.files.write();
            let at = files.chunks.iter().position(|known| Arc::ptr_eq(known, chunk)).unwrap_or(0);
            files.chunks.splice(at..=at, shorter);
            drop(files);
            remove(chunk.path())?;
        }
        journal.map_or(Ok(()), |journal| remove(journal.path()))?;
        let end = self.files.read().chunks.last().map_or(until, |last| last.footer.to);
        self.begin_after(end)?;
        self.append(&[], until)?;
        self.sync()
    }

    /// A chunk with the changes of another one up to a revision.
    fn cut_chunk(&self, chunk: &Chunk, until: Revision) -> Result<Arc<Chunk>> {
        let path = chunk_path(&self.options.directory, chunk.footer.from, until);
        let temporary = path.with_extension("new");
        let mut writer = ChunkWriter::create(&temporary, chunk.footer.from, until, chunk.footer.begun)?;
        let mut values = None;
        let mut cursor = chunk.cursor(&chunk.by_key, &[])?;
        while cursor.key().is_some() {
            let written = chunk.read_head(&cursor)?;
            if written.revision <= until {
                let value = chunk.value_in_order(&written, &mut values)?;
                writer.add(written, &value)?;
            }
            cursor.step()?;
        }
        let mut cursor = chunk.cursor(&chunk.by_revision, &[])?;
        while cursor.key().is_some() {
            let written = chunk.read_head(&cursor)?;
            if written.revision <= until {
                writer.add_by_revision(written)?;
            }
            cursor.step()?;
        }
        writer.finish()?;
        Ok(Arc::new(self.publish(&temporary, &path)?))
    }
}
