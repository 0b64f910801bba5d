//! Backup, restore and check.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, WriteTransaction};
use storage::meter::{Meter, Step};
use storage::{Entry, Error, Result, Revision};

use crate::disk::{BASE, Disk, FORMAT, LOG, META, MISSING, catching, sync_directory};
use crate::error::OpenError;
use crate::log::{Loaded, LogReader};
use crate::numbers::{Content, Log, Numbers};
use crate::options::EmbeddedOptions;
use crate::record::{self, Layout};
use crate::wal;

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

impl Report {
    fn of(loaded: &Loaded, format: i64) -> Self {
        Report {
            format,
            revision: loaded.state.revision,
            compacted: loaded.state.compacted,
            keys: loaded.state.current.len() as u64,
            records: loaded.records,
            record_bytes: loaded.bytes,
        }
    }
}

/// Whether there is a store, or anything of one.
pub fn exists(path: &Path) -> bool {
    path.exists() || wal::exists(path)
}

/// Checks a file that is not in use: every page and record against its checksum, and that nothing is missing.
pub fn check(path: &Path) -> Result<Report, OpenError> {
    check_with(path, &Arc::default())
}

/// The same, counted.
pub fn check_with(path: &Path, meter: &Arc<Meter>) -> Result<Report, OpenError> {
    verify(path, meter).map(|(_, report, _)| report)
}

fn metered(path: &Path, meter: &Arc<Meter>) -> EmbeddedOptions {
    EmbeddedOptions { meter: Some(meter.clone()), ..EmbeddedOptions::at(path) }
}

fn verify(path: &Path, meter: &Arc<Meter>) -> Result<(Loaded, Report, Layout), OpenError> {
    // Opening creates what is not there, and a check must not.
    File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if wal::exists(path) => OpenError::corrupt(path, MISSING),
        _ => OpenError::io(path, error),
    })?;
    let options = metered(path, meter);
    let disk = Disk::open_existing(&options)?;
    let (loaded, ..) = crate::load(&disk, &options, None)?;
    let numbers = disk.read(|reader| Ok(reader.numbers)).map_err(|error| OpenError::of_store(path, error))?;
    if !disk.had_intact_pages() {
        return Err(OpenError::corrupt(path, "pages did not match their checksums and were rolled back"));
    }
    let report = Report::of(&loaded, numbers.format);
    Ok((loaded, report, numbers.layout()))
}

/// Makes a store of a backup. With `skip_revisions` above zero the new store goes on that many revisions later and
/// without history, so that clients who saw revisions after the backup find out that theirs is gone.
pub fn restore(backup: &Path, target: &Path, skip_revisions: Revision) -> Result<Report, OpenError> {
    restore_with(backup, target, skip_revisions, &Arc::default())
}

/// The same, counted.
pub fn restore_with(
    backup: &Path,
    target: &Path,
    skip_revisions: Revision,
    meter: &Arc<Meter>,
) -> Result<Report, OpenError> {
    let (loaded, _, layout) = verify(backup, meter)?;
    // What could not be written is not restored either.
    let limit = EmbeddedOptions::at(target).value_bytes_max;
    let size = |entry: &Entry| entry.key.as_bytes().len() + entry.value.len();
    if let Some(entry) = loaded.state.current.iter().find(|entry| size(entry) > limit) {
        let message = format!("{} has {} bytes, more than the {limit} that a write may have", entry.key, size(entry));
        return Err(OpenError::corrupt(backup, message));
    }
    if skip_revisions > 0 || layout == Layout::Plain {
        let (revision, time) = (loaded.state.revision + skip_revisions, loaded.time);
        let entries = loaded.state.current.iter();
        meter.begin(Step::Copying, loaded.state.current.len() as u64);
        return create(backup, target, meter, |database| write_current(database, entries, revision, time, meter));
    }
    if wal::exists(backup) {
        // It is a store rather than a backup. Closing it in order brings all of it into the one file.
        drop(crate::EmbeddedStore::open(EmbeddedOptions::at(backup))?);
    }
    let disk = Disk::open_existing(&EmbeddedOptions::at(backup))?;
    create(backup, target, meter, |database| read_into(&disk, database, meter))
}

pub(crate) fn backup(disk: &Disk, target: &Path, meter: &Arc<Meter>) -> Result<Report> {
    let failed = |error: OpenError| match error {
        OpenError::Corrupt { message, .. } => Error::Corrupt { key: storage::Key::default(), message },
        other => Error::unavailable(format!("cannot back up {}: {other}", disk.path().display())),
    };
    create(disk.path(), target, meter, |database| read_into(disk, database, meter)).map_err(failed)
}

/// Why a copy was not made.
pub(crate) enum CopyError {
    /// What was to be copied cannot be read.
    Source(Error),
    /// The copy cannot be written.
    Target(redb::Error),
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        CopyError::Source(error)
    }
}

impl From<redb::Error> for CopyError {
    fn from(error: redb::Error) -> Self {
        CopyError::Target(error)
    }
}

fn read_into(disk: &Disk, database: &Database, meter: &Arc<Meter>) -> Result<(), CopyError> {
    let mut target = None;
    let read = disk.read_metered(Some(meter), |reader| match copy(reader, database) {
        Err(CopyError::Source(error)) => Err(error),
        Err(CopyError::Target(error)) => {
            target = Some(error);
            Ok(())
        }
        Ok(()) => Ok(()),
    });
    target.map_or(Ok(()), |error| Err(CopyError::Target(error)))?;
    read.map_err(CopyError::Source)
}

/// Makes a new file of what `source` has. It appears under its name only when it is on disk and was read and found whole.
pub(crate) fn create(
    source: &Path,
    target: &Path,
    meter: &Arc<Meter>,
    fill: impl FnOnce(&Database) -> Result<(), CopyError>,
) -> Result<Report, OpenError> {
    if target.exists() {
        return Err(OpenError::Exists { path: target.into() });
    }
    let partial = files::with_suffix(target, ".partial");
    let created = create_partial(source, &partial, meter, fill).and_then(|report| {
        // A link fails if the name was taken meanwhile; a rename would overwrite it.
        std::fs::hard_link(&partial, target).map_err(|error| OpenError::io(target, error))?;
        sync_directory(target)?;
        Ok(report)
    });
    if let Err(error) = std::fs::remove_file(&partial)
        && created.is_ok()
    {
        return Err(OpenError::io(&partial, error));
    }
    created
}

fn create_partial(
    source: &Path,
    path: &Path,
    meter: &Arc<Meter>,
    fill: impl FnOnce(&Database) -> Result<(), CopyError>,
) -> Result<Report, OpenError> {
    // What an interrupted copy left behind.
    if path.exists() {
        std::fs::remove_file(path).map_err(|error| OpenError::io(path, error))?;
    }
    let file = files::open(path).map_err(|error| OpenError::write(path, error))?;
    let mut builder = Database::builder();
    let database = builder.set_cache_size(COPY_CACHE_BYTES).create_file(file);
    let database = database.map_err(|error| OpenError::write(path, crate::disk::describe(&error.into())))?;
    let filled = catching(|| fill(&database)).map_err(|panic| OpenError::corrupt(source, panic))?;
    filled.map_err(|error| match error {
        CopyError::Source(error) => OpenError::of_store(source, error),
        CopyError::Target(error) => OpenError::write(path, crate::disk::describe(&error)),
    })?;
    drop(database);
    // Damage that was copied is damage of the source.
    let disk = Disk::open_existing(&metered(path, meter))?;
    let read = disk.read(|reader| Ok(Report::of(&reader.load()?, reader.numbers.format)));
    read.map_err(|error| OpenError::of_store(source, error))
}

/// Writes everything the reader sees into a new database.
fn copy(reader: &LogReader, database: &Database) -> Result<(), CopyError> {
    let mut copy = Copy { database, log: Vec::new(), base: Vec::new(), bytes: 0 };
    reader.begin(Step::Copying)?;
    reader.each_chunk(|first, chunk| copy.add(|copy| copy.log.push((first, chunk.to_vec())), chunk.len()))?;
    reader.each_base(|key, record| copy.add(|copy| copy.base.push((key.to_vec(), record.to_vec())), record.len()))?;
    // The copy is a store of its own, which has no log yet.
    Ok(copy.finish(Numbers { is_clean: true, log: Log::default(), ..reader.numbers })?)
}

/// Writes entries into a new database that has nothing else: no history, and this revision and time.
pub(crate) fn write_current<'a>(
    database: &Database,
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    revision: Revision,
    time: i64,
    meter: &Meter,
) -> Result<(), CopyError> {
    let mut copy = Copy { database, log: Vec::new(), base: Vec::new(), bytes: 0 };
    let mut base = Content::default();
    for entry in entries {
        let mut bytes = Vec::new();
        record::encode_entry(entry, 0, &mut bytes);
        base.add(crate::log::only_record(&bytes, Layout::Checked)?.checksum);
        let length = bytes.len();
        copy.add(|copy| copy.base.push((entry.key.to_vec(), bytes)), length)?;
        meter.add(length);
    }
    let numbers = Numbers {
        format: FORMAT,
        revision,
        compacted: revision,
        folded: revision,
        is_clean: true,
        base,
        log: Log::default(),
        time,
    };
    Ok(copy.finish(numbers)?)
}

/// A commit of a copy carries about this much.
const COPY_COMMIT_BYTES: usize = 4 << 20;
const COPY_CACHE_BYTES: usize = 16 << 20;

/// What will be written in the copy's next commit.
struct Copy<'a> {
    database: &'a Database,
    log: Vec<(Revision, Vec<u8>)>,
    base: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Copy<'_> {
    fn add(&mut self, push: impl FnOnce(&mut Self), bytes: usize) -> Result<(), CopyError> {
        push(self);
        self.bytes += bytes;
        if self.bytes < COPY_COMMIT_BYTES {
            return Ok(());
        }
        Ok(self.flush()?)
    }

    fn flush(&mut self) -> Result<(), redb::Error> {
        self.bytes = 0;
        let mut transaction = self.database.begin_write()?;
        // The last commit, of the numbers, makes all of them durable.
        transaction.set_durability(Durability::None)?;
        self.write(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    fn finish(mut self, numbers: Numbers) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        self.write(&transaction)?;
        numbers.write(&mut transaction.open_table(META)?)?;
        transaction.commit()?;
        Ok(())
    }

    fn write(&mut self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut log = transaction.open_table(LOG)?;
        for (first, chunk) in self.log.drain(..) {
            log.insert(first, chunk.as_slice())?;
        }
        let mut base = transaction.open_table(BASE)?;
        for (key, record) in self.base.drain(..) {
            base.insert(key.as_slice(), record.as_slice())?;
        }
        Ok(())
    }
}
