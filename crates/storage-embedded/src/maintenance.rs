//! Backup, restore and check.

use std::fs::File;
use std::path::{Path, PathBuf};

use redb::{Database, Durability};
use storage::{Error, Result, Revision};

use crate::disk::{BASE, Disk, FORMAT, LOG, META, catching, sync_directory};
use crate::error::OpenError;
use crate::log::{Loaded, LogReader};
use crate::options::Options;
use crate::wal::paths;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub format: i64,
    pub revision: Revision,
    pub compacted: Revision,
    pub keys: u64,
    /// Current entries and the changes that are history.
    pub records: u64,
    pub record_bytes: u64,
}

/// Checks a file that is not in use: every page against its checksum, and that the log fits together.
pub fn check(path: &Path) -> Result<Report, OpenError> {
    // Opening creates what is not there, and a check must not.
    File::open(path).map_err(|error| OpenError::io(path, error))?;
    let check = || {
        let mut database = Database::builder().set_cache_size(COPY_CACHE_BYTES).open(path)?;
        database.check_integrity()
    };
    let intact = catching(check)
        .map_err(|panic| OpenError::corrupt(path, panic))?
        .map_err(|error| OpenError::of_database(path, error))?;
    if !intact {
        return Err(OpenError::corrupt(path, "pages did not match their checksums and were rolled back"));
    }
    let options = Options::at(path);
    let disk = Disk::open(&options)?;
    let (loaded, ..) = crate::load(&disk, &options)?;
    let reader = disk.reader().map_err(|error| OpenError::io(path, error))?;
    report(&reader, loaded, path)
}

/// Makes a store of a backup. With `skip_revisions` above zero the new store goes on that many revisions later and
/// without history, so that clients who saw revisions after the backup find out that theirs is gone.
pub fn restore(backup: &Path, target: &Path, skip_revisions: Revision) -> Result<Report, OpenError> {
    check(backup)?;
    if paths(backup).iter().any(|path| path.exists()) {
        // It is a store rather than a backup. Closing it in order brings all of it into the one file.
        drop(crate::EmbeddedStore::open(Options::at(backup))?);
    }
    let disk = Disk::open(&Options::at(backup))?;
    let reader = disk.reader().map_err(|error| OpenError::io(backup, error))?;
    copy(&reader, target, skip_revisions)?;
    check(target)
}

pub(crate) fn backup(disk: &Disk, target: &Path) -> Result<Report> {
    let reader = disk.reader()?;
    let unavailable =
        |error: OpenError| Error::unavailable(format!("cannot back up {}: {error}", disk.path().display()));
    copy(&reader, target, 0).map_err(unavailable)?;
    let loaded = reader.load(target).map_err(unavailable)?;
    report(&reader, loaded, target).map_err(unavailable)
}

fn report(reader: &LogReader, loaded: Loaded, path: &Path) -> Result<Report, OpenError> {
    let format = reader.number("format").map_err(|error| OpenError::corrupt(path, error))?;
    Ok(Report {
        format,
        revision: loaded.state.revision,
        compacted: loaded.state.compacted,
        keys: loaded.state.current.len() as u64,
        records: loaded.records,
        record_bytes: loaded.bytes,
    })
}

/// Writes everything the reader sees into a new file. It appears under its name only when it is whole and on disk.
fn copy(reader: &LogReader, target: &Path, skip_revisions: Revision) -> Result<(), OpenError> {
    if target.exists() {
        return Err(OpenError::Exists { path: target.into() });
    }
    let mut partial = target.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let copied = copy_into(reader, &partial, skip_revisions).and_then(|()| {
        // A link fails if the name was taken meanwhile; a rename would overwrite it.
        std::fs::hard_link(&partial, target).map_err(|error| OpenError::io(target, error))?;
        sync_directory(target)
    });
    if let Err(error) = std::fs::remove_file(&partial)
        && copied.is_ok()
    {
        return Err(OpenError::io(&partial, error));
    }
    copied
}

fn copy_into(reader: &LogReader, path: &Path, skip_revisions: Revision) -> Result<(), OpenError> {
    // What an interrupted copy left behind.
    if path.exists() {
        std::fs::remove_file(path).map_err(|error| OpenError::io(path, error))?;
    }
    let file = files::open(path).map_err(|error| OpenError::io(path, error))?;
    let database = Database::builder()
        .set_cache_size(COPY_CACHE_BYTES)
        .create_file(file)
        .map_err(|error| OpenError::of_database(path, error))?;
    let source = |error: Error| OpenError::corrupt(path, format!("cannot read the source: {error}"));
    copy_tables(reader, &database).map_err(source)?;
    let number = |name| reader.number(name).map_err(source);
    let mut revision = reader.last_revision().map_err(source)?;
    let mut compacted = number("compacted")?;
    if skip_revisions > 0 {
        revision += skip_revisions;
        compacted = revision;
    }
    write_meta(&database, revision, compacted, number("folded")?).map_err(|error| OpenError::of_redb(path, error))
}

fn copy_tables(reader: &LogReader, database: &Database) -> Result<()> {
    let mut pending = Pending { database, log: Vec::new(), base: Vec::new(), bytes: 0 };
    reader.each_chunk(|first, chunk| pending.add(|pending| pending.log.push((first, chunk.to_vec())), chunk.len()))?;
    reader.each_base(|key, record| {
        pending.add(|pending| pending.base.push((key.to_vec(), record.to_vec())), record.len())
    })?;
    pending.write().map_err(Error::unavailable)
}

/// A commit of a copy carries about this much.
const COPY_COMMIT_BYTES: usize = 4 << 20;
const COPY_CACHE_BYTES: usize = 16 << 20;

/// What will be written in the copy's next commit.
struct Pending<'a> {
    database: &'a Database,
    log: Vec<(Revision, Vec<u8>)>,
    base: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Pending<'_> {
    fn add(&mut self, push: impl FnOnce(&mut Self), bytes: usize) -> Result<()> {
        push(self);
        self.bytes += bytes;
        if self.bytes < COPY_COMMIT_BYTES {
            return Ok(());
        }
        self.write().map_err(Error::unavailable)
    }

    fn write(&mut self) -> Result<(), redb::Error> {
        self.bytes = 0;
        let mut transaction = self.database.begin_write()?;
        // The last commit, of the meta table, makes all of them durable.
        transaction.set_durability(Durability::None)?;
        {
            let mut log = transaction.open_table(LOG)?;
            for (first, chunk) in self.log.drain(..) {
                log.insert(first, chunk.as_slice())?;
            }
            let mut base = transaction.open_table(BASE)?;
            for (key, record) in self.base.drain(..) {
                base.insert(key.as_slice(), record.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

fn write_meta(
    database: &Database,
    revision: Revision,
    compacted: Revision,
    folded: Revision,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("revision", revision)?;
        meta.insert("compacted", compacted)?;
        meta.insert("folded", folded)?;
        meta.insert("clean", 1)?;
    }
    transaction.commit()?;
    Ok(())
}
