//! The file: a redb database with three tables.
//!
//! - `log[first revision]` is a chunk of changes in a row (see `record`): everything after the revision `folded`, without a
//!   gap. A group of writes is one chunk, or a few if it is large. Appending in chunks instead of single records is what
//!   makes a commit of many writes nearly as cheap as one of a single write.
//! - `base[key]` is the record that was current at the revision `folded`. Compaction folds the oldest chunks into it,
//!   in the background: most of their records have been superseded by then and are simply dropped.
//! - `meta` holds the numbers in `numbers`.
//!
//! redb verifies its pages only when it opens a file that was not closed, so every record has a checksum of its own, the
//! log's revisions are counted, and `meta` has a checksum over the records of the base: bytes that changed on the disk are
//! noticed when they are read, and so are records that are missing.
//!
//! Format 1 had no write-ahead log, format 2 no checksums, format 3 no identity of its log. Files of all are read, and become
//! format 4 when they are opened for writing.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use redb::backends::FileBackend;
use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle,
    WriteTransaction,
};
use storage::meter::{Meter, Step};
use storage::{Event, Revision};

use crate::error::OpenError;
use crate::log::{self, LogReader};
use crate::numbers::{Content, Log, Numbers};
use crate::options::{BackendFactory, EmbeddedOptions};
use crate::record::{self, Layout, Record};
use crate::space::{Reserve, Reserved};
use crate::wal;

/// The layout written by this version. Raise it with every change that an older version cannot read.
pub(crate) const FORMAT: i64 = 4;
/// As etcd: an empty store is at revision 1, the first change is 2.
pub(crate) const FIRST_REVISION: Revision = 1;

/// Just below what fits into one page of 64 KiB, as redb rounds large values up to a power of two.
const CHUNK_BYTES: usize = 65_000;

pub(crate) const LOG: TableDefinition<Revision, &[u8]> = TableDefinition::new("log");
pub(crate) const BASE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("base");
pub(crate) const META: TableDefinition<&str, i64> = TableDefinition::new("meta");

/// Why a database is not made anew.
pub(crate) const MISSING: &str = "it is missing, but files of its write-ahead log are there";

pub(crate) struct Disk {
    path: PathBuf,
    cache_bytes: usize,
    backend: Option<BackendFactory>,
    reserve: Option<Arc<Reserve>>,
    meter: Option<Arc<Meter>>,
    /// None while it could not be opened again after a failure, and after the end.
    database: RwLock<Option<Database>>,
    /// Whether all pages matched redb's checksums when the file was opened.
    had_intact_pages: bool,
}

/// A commit that did not succeed. It may be on disk all the same.
#[derive(Debug)]
pub(crate) struct Failure {
    pub message: String,
}

/// How far the file goes.
pub(crate) struct Durable {
    pub revision: Revision,
    pub folded: Revision,
}

/// What compaction may do in one commit: fold about `bytes` bytes of chunks that are no longer history.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub folded: Revision,
    pub compacted: Revision,
    pub bytes: usize,
}

/// What compaction did in one commit.
#[derive(Default)]
pub(crate) struct Folded {
    pub upto: Revision,
    /// The next chunk is still history, at least in part: nothing to do before the next compaction.
    pub is_done: bool,
    /// By how much the log shrank and the base grew.
    pub log_bytes: u64,
    pub base_bytes: i64,
}

impl Disk {
    /// Opens the file, or creates it.
    pub fn open(options: &EmbeddedOptions) -> Result<Self, OpenError> {
        if options.backend.is_none() && !options.path.exists() {
            if wal::exists(&options.path) {
                return Err(OpenError::corrupt(&options.path, MISSING));
            }
            create_file(&options.path)?;
        }
        Disk::open_existing(options)
    }

    /// Opens the file to look at it; nothing in it changes, unless it was not closed in order.
    pub fn open_existing(options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let mut disk = Disk::new(options);
        let database = match disk.open_verified() {
            // Damage to redb's lists of free pages is mended by closing and opening the file, which makes them anew.
            Err(error) if error.is_damage() => match disk.open_verified() {
                Ok((database, _)) => database,
                Err(_) => return Err(disk.with_name(error)),
            },
            verified => {
                let (database, is_intact) = verified?;
                disk.had_intact_pages = is_intact;
                database
            }
        };
        disk.prepare(&database)?;
        *disk.database.write() = Some(database);
        Ok(disk)
    }

    /// Opens a file that is known to be damaged.
    pub fn open_damaged(options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let disk = Disk::new(options);
        *disk.database.write() = Some(disk.open_database()?);
        Ok(disk)
    }

    /// Pages have no names that mean anything to a user. If a record on the damaged page can be named, the error does so.
    /// Reads only: opening a damaged file for writing could overwrite more of it.
    fn with_name(&self, error: OpenError) -> OpenError {
        let load = || {
            let mut builder = Database::builder();
            let database = builder.set_cache_size(self.cache_bytes).open_read_only(&self.path).ok()?;
            LogReader::new(&database.begin_read().ok()?).and_then(|reader| reader.load()).err()
        };
        match catching(load) {
            Ok(Some(named @ storage::Error::Corrupt { .. })) => OpenError::corrupt(&self.path, named),
            _ => error,
        }
    }

    fn new(options: &EmbeddedOptions) -> Self {
        Disk {
            path: options.path.clone(),
            cache_bytes: options.cache_bytes,
            backend: options.backend.clone(),
            reserve: options.reserve.clone(),
            meter: options.meter.clone(),
            database: RwLock::new(None),
            had_intact_pages: false,
        }
    }

    pub fn had_intact_pages(&self) -> bool {
        self.had_intact_pages
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }

    /// Reads a view of the file as of the last commit, which later commits do not disturb.
    pub fn read<T>(&self, read: impl FnOnce(&LogReader) -> storage::Result<T>) -> storage::Result<T> {
        self.read_metered(self.meter.as_ref(), read)
    }

    /// The same, counted.
    pub fn read_metered<T>(
        &self,
        meter: Option<&Arc<Meter>>,
        read: impl FnOnce(&LogReader) -> storage::Result<T>,
    ) -> storage::Result<T> {
        self.read_raw(|transaction| read(&LogReader::new(transaction)?.metered(meter)))
    }

    /// The same, below the checks that a reader makes.
    pub fn read_raw<T>(&self, read: impl FnOnce(&ReadTransaction) -> storage::Result<T>) -> storage::Result<T> {
        let work = || {
            let guard = self.database.read();
            let database = guard.as_ref().ok_or_else(|| storage::Error::unavailable("the file is closed"))?;
            let transaction = database.begin_read().map_err(storage::Error::unavailable)?;
            drop(guard);
            read(&transaction)
        };
        catching(work).unwrap_or_else(|panic| Err(log::damaged(panic)))
    }

    /// Appends events, durably and all or nothing, and lets compaction make some progress in the same commit.
    /// A file of the write-ahead log with this generation is in use, and the store's clock shows `time`.
    pub fn append(
        &self,
        events: &[Arc<Event>],
        last: Revision,
        fold: Fold,
        (log_generation, time): (u64, i64),
    ) -> Result<Folded, Failure> {
        self.commit(|transaction| {
            write_chunks(transaction, events)?;
            let mut meta = transaction.open_table(META)?;
            let mut numbers = Numbers::read(&meta)?;
            (numbers.revision, numbers.compacted) = (last, fold.compacted);
            (numbers.log.generation, numbers.time) = (log_generation, time);
            let folded = fold.run(transaction, &mut numbers.base)?;
            numbers.folded = folded.upto;
            numbers.write(&mut meta)?;
            Ok(folded)
        })
    }

    /// Notes that the write-ahead log has nothing more than the database.
    pub fn set_clean(&self, time: i64) -> Result<(), Failure> {
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            Numbers { is_clean: true, time, ..Numbers::read(&meta)? }.write(&mut meta)
        })
    }

    /// Notes that this write-ahead log may have more than the database.
    pub fn set_log(&self, log: Log, time: i64) -> Result<(), Failure> {
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            Numbers { is_clean: false, log, time, ..Numbers::read(&meta)? }.write(&mut meta)
        })
    }

    /// Brings a file of an earlier format to the current one, and returns the revision up to which it is folded then.
    pub fn upgrade(&self) -> Result<Revision, Failure> {
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            let mut numbers = Numbers::read(&meta)?;
            if numbers.format == FORMAT {
                return Ok(numbers.folded);
            }
            if numbers.layout() == Layout::Plain {
                numbers.base = add_checksums(transaction, numbers.layout())?;
                // A store that was restored has skipped revisions; folding brings the gap out of the log.
                let fold = Fold { folded: numbers.folded, compacted: numbers.compacted, bytes: usize::MAX };
                numbers.folded = fold.run(transaction, &mut numbers.base)?.upto;
            }
            numbers.format = FORMAT;
            numbers.write(&mut meta)?;
            Ok(numbers.folded)
        })
    }

    fn commit<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>) -> Result<T, Failure> {
        let message = |panic| format!("the file is damaged: {panic}");
        catching(|| self.commit_unguarded(work)).unwrap_or_else(|panic| Err(Failure { message: message(panic) }))
    }

    fn commit_unguarded<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, Failure> {
        let failed = |error: redb::Error| Failure { message: describe(&error) };
        let guard = self.database.read();
        let database = guard.as_ref().ok_or_else(|| Failure { message: "the file is closed".into() })?;
        let mut transaction = database.begin_write().map_err(|error| failed(error.into()))?;
        transaction.set_durability(Durability::Immediate).map_err(|error| failed(error.into()))?;
        let done = work(&transaction).map_err(failed)?;
        transaction.commit().map_err(|error| failed(error.into()))?;
        Ok(done)
    }

    /// Opens the file anew after a failed commit, which redb does not survive, and tells what is in it.
    pub fn reopen(&self) -> Result<Durable, String> {
        let mut guard = self.database.write();
        drop(guard.take());
        forget_cached_pages(&self.path);
        let database = self.open_database().map_err(|error| error.to_string())?;
        self.prepare(&database).map_err(|error| error.to_string())?;
        *guard = Some(database);
        drop(guard);
        let durable =
            |reader: &LogReader| Ok(Durable { revision: reader.last_revision()?, folded: reader.numbers.folded });
        self.read(durable).map_err(|error| error.to_string())
    }

    pub fn close(&self) {
        drop(self.database.write().take());
    }

    fn open_database(&self) -> Result<Database, OpenError> {
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let path = self.path.clone();
        builder.set_repair_callback(move |session| {
            tracing::info!(file = %path.display(), progress = session.progress(), "checking a file that was not closed");
        });
        let file = match &self.backend {
            None => {
                let file = files::open(&self.path).map_err(|error| OpenError::io(&self.path, error))?;
                let file = FileBackend::new(file).map_err(|error| OpenError::of_database(&self.path, error))?;
                Box::new(file)
            }
            Some(factory) => factory(&self.path).map_err(|error| OpenError::io(&self.path, error))?,
        };
        let file = Reserved { file, path: self.path.clone(), reserve: self.reserve.clone(), meter: self.meter.clone() };
        catching(|| builder.create_with_backend(file))
            .map_err(|panic| OpenError::corrupt(&self.path, panic))?
            .map_err(|error| OpenError::of_database(&self.path, error))
    }

    /// Opens the file and checks every page against redb's checksums, which also cover what our own do not: where free pages are. Damage
    /// there would let later commits overwrite pages that are in use.
    fn open_verified(&self) -> Result<(Database, bool), OpenError> {
        let mut database = self.open_database()?;
        if let Some(meter) = &self.meter {
            meter.begin(Step::Pages, self.size());
        }
        let is_intact = catching(|| database.check_integrity())
            .map_err(|panic| OpenError::corrupt(&self.path, panic))?
            .map_err(|error| OpenError::of_database(&self.path, error))?;
        if !is_intact {
            // Whether the commit before the damaged one and the write-ahead log have everything is found out when they
            // are read.
            tracing::warn!(file = %self.path.display(), "pages of the database did not match their checksums");
        }
        Ok((database, is_intact))
    }

    /// Refuses files that are not ours or too new, and makes the tables of a new one.
    fn prepare(&self, database: &Database) -> Result<(), OpenError> {
        let fail = |error: redb::Error| OpenError::of_redb(&self.path, error);
        let work = || {
            let reader = database.begin_read().map_err(|error| fail(error.into()))?;
            let meta = match reader.open_table(META) {
                Ok(meta) => meta,
                Err(TableError::TableDoesNotExist(_)) => return self.prepare_empty(database, &reader),
                Err(error) => return Err(fail(error.into())),
            };
            let found = meta.get("format").map_err(|error| fail(error.into()))?.map(|format| format.value());
            match found.filter(|found| *found > FORMAT) {
                Some(found) => Err(OpenError::NewerFormat { path: self.path.clone(), found, known: FORMAT }),
                None => Numbers::read(&meta).map(drop).map_err(fail),
            }
        };
        catching(work).unwrap_or_else(|panic| Err(OpenError::corrupt(&self.path, panic)))
    }

    /// A database without our tables. Files get theirs before they get their name; backends of tests have no names.
    fn prepare_empty(&self, database: &Database, reader: &ReadTransaction) -> Result<(), OpenError> {
        let fail = |error: redb::Error| OpenError::of_redb(&self.path, error);
        let others: Vec<_> =
            reader.list_tables().map_err(|error| fail(error.into()))?.map(|table| table.name().to_string()).collect();
        if !others.is_empty() {
            let message = format!("it belongs to another program, with tables {others:?}");
            return Err(OpenError::corrupt(&self.path, message));
        }
        if self.backend.is_none() {
            return Err(OpenError::corrupt(&self.path, "it has no tables"));
        }
        create_tables(database).map_err(fail)
    }
}

/// Creates a database with its tables. It appears under its name only when it is whole and on disk.
fn create_file(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::io(path, error);
    let unfinished = files::with_suffix(path, ".new");
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(failed)?;
    }
    let file = files::open(&unfinished).map_err(failed)?;
    let database = Database::builder().create_file(file).map_err(|error| OpenError::of_database(path, error))?;
    create_tables(&database).map_err(|error| OpenError::of_redb(path, error))?;
    drop(database);
    std::fs::rename(&unfinished, path).map_err(failed)?;
    sync_directory(path)
}

/// Gives every record its checksum, and returns what the base holds.
fn add_checksums(transaction: &WriteTransaction, layout: Layout) -> Result<Content, redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    let chunks = log.iter()?.map(|item| Ok(item?.0.value())).collect::<Result<Vec<Revision>, redb::Error>>()?;
    for first in chunks {
        let chunk = log.get(first)?.map(|chunk| chunk.value().to_vec()).unwrap_or_default();
        let checked = record::checked(&chunk, layout).map_err(redb::Error::Corrupted)?;
        log.insert(first, checked.as_ref())?;
    }
    let mut base = transaction.open_table(BASE)?;
    let mut content = Content::default();
    let keys = base.iter()?.map(|item| Ok(item?.0.value().to_vec())).collect::<Result<Vec<_>, redb::Error>>()?;
    for key in keys {
        let bytes = base.get(key.as_slice())?.map(|bytes| bytes.value().to_vec()).unwrap_or_default();
        let checked = record::checked(&bytes, layout).map_err(redb::Error::Corrupted)?;
        content.add(log::only_record(&checked, Layout::Checked).map_err(corrupted)?.checksum);
        base.insert(key.as_slice(), checked.as_ref())?;
    }
    Ok(content)
}

fn corrupted(error: storage::Error) -> redb::Error {
    redb::Error::Corrupted(error.to_string())
}

fn write_chunks(transaction: &WriteTransaction, events: &[Arc<Event>]) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    let mut chunk = Vec::new();
    let mut events = events.iter().peekable();
    while let Some(first) = events.next() {
        chunk.clear();
        record::encode(first, &mut chunk);
        while let Some(event) = events.next_if(|event| chunk.len() + record::encoded_len(event) <= CHUNK_BYTES) {
            record::encode(event, &mut chunk);
        }
        log.insert(first.revision, chunk.as_slice())?;
    }
    Ok(())
}

impl Fold {
    fn run(self, transaction: &WriteTransaction, content: &mut Content) -> Result<Folded, redb::Error> {
        let mut log = transaction.open_table(LOG)?;
        let mut base = transaction.open_table(BASE)?;
        let mut folded = Folded { upto: self.folded, ..Folded::default() };
        while (folded.log_bytes as usize) < self.bytes {
            let Some(chunk) = log.first()?.map(|(first, chunk)| (first.value(), chunk.value().to_vec())) else {
                folded.upto = self.compacted;
                folded.is_done = true;
                break;
            };
            if !self.fold_chunk(&chunk.1, &mut base, &mut folded, content)? {
                // Nothing is left before it, even if revisions were skipped.
                folded.upto = folded.upto.max(self.compacted.min(chunk.0 - 1));
                folded.is_done = true;
                break;
            }
            log.remove(chunk.0)?;
            folded.log_bytes += chunk.1.len() as u64;
        }
        Ok(folded)
    }

    /// Applies the chunk to the base; does nothing and says so if it is still history.
    fn fold_chunk(
        &self,
        chunk: &[u8],
        base: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
        folded: &mut Folded,
        content: &mut Content,
    ) -> Result<bool, redb::Error> {
        let records = record::records(chunk, Layout::Checked);
        let records = records.collect::<Result<Vec<_>, _>>().map_err(redb::Error::Corrupted)?;
        let Some(last) = records.last().filter(|last| last.revision <= self.compacted) else { return Ok(false) };
        // Of several records of a key only the last one counts.
        let mut latest: HashMap<&[u8], &Record> = HashMap::with_capacity(records.len());
        for record in &records {
            latest.insert(record.key, record);
        }
        for (key, record) in latest {
            let replaced = if record.is_delete {
                base.remove(key)?
            } else {
                folded.base_bytes += record.bytes.len() as i64;
                content.add(record.checksum);
                base.insert(key, record.bytes)?
            };
            if let Some(old) = replaced {
                let old = log::only_record(old.value(), Layout::Checked).map_err(corrupted)?;
                folded.base_bytes -= old.bytes.len() as i64;
                content.remove(old.checksum);
            }
        }
        folded.upto = last.revision;
        Ok(true)
    }
}

fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(LOG)?;
        transaction.open_table(BASE)?;
        let numbers = Numbers {
            format: FORMAT,
            revision: FIRST_REVISION,
            compacted: 0,
            folded: 0,
            is_clean: true,
            base: Content::default(),
            log: Log::default(),
            time: 0,
        };
        numbers.write(&mut transaction.open_table(META)?)?;
    }
    transaction.commit()?;
    Ok(())
}

/// A new name is durable only when its directory is.
pub(crate) fn sync_directory(path: &Path) -> Result<(), OpenError> {
    files::sync_directory(path).map_err(|error| OpenError::io(path, error))
}

/// redb panics on some damage. For us that is an error like any other.
pub(crate) fn catching<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "damaged".into())
    })
}

/// For people: what the operating system said, without redb's words around it.
pub(crate) fn describe(error: &redb::Error) -> String {
    match error {
        redb::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// After a failed fsync the kernel may keep pages that it could not write and call them clean. Dropping them makes us
/// read what is really on the disk.
fn forget_cached_pages(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed) {
        tracing::warn!(%error, "cannot drop cached pages of the store's file");
    }
    drop(file);
}
