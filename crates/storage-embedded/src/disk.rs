//! The file: a redb database with three tables.
//!
//! - `log[first revision]` is a chunk of changes in a row (see `record`): everything after the revision `folded`. A group
//!   of writes is one chunk, or a few if it is large. Appending in chunks instead of single records is what makes a commit
//!   of many writes nearly as cheap as one of a single write.
//! - `base[key]` is the record that was current at the revision `folded`. Compaction folds the oldest chunks into it,
//!   in the background: most of their records have been superseded by then and are simply dropped.
//! - `meta` holds numbers: `format`, the version of this layout; `compacted`, up to which history was given up; `folded`,
//!   at most that; `revision`, because the log may be empty; and `clean`, which is 0 while the write-ahead log may have
//!   more than the database.
//!
//! Format 1 had no write-ahead log. Its files are read, and become format 2.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use redb::{
    BackendError, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
    TableHandle, WriteTransaction,
};
use storage::{Event, Revision};

use crate::error::OpenError;
use crate::log::LogReader;
use crate::options::{BackendFactory, Options};
use crate::record::{self, Record};

/// The layout written by this version. Raise it with every change that an older version cannot read.
pub(crate) const FORMAT: i64 = 2;
const FORMAT_WITHOUT_WAL: i64 = 1;
/// As etcd: an empty store is at revision 1, the first change is 2.
pub(crate) const FIRST_REVISION: Revision = 1;

/// Just below what fits into one page of 64 KiB, as redb rounds large values up to a power of two.
const CHUNK_BYTES: usize = 65_000;

pub(crate) const LOG: TableDefinition<Revision, &[u8]> = TableDefinition::new("log");
pub(crate) const BASE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("base");
pub(crate) const META: TableDefinition<&str, i64> = TableDefinition::new("meta");

pub(crate) struct Disk {
    path: PathBuf,
    cache_bytes: usize,
    backend: Option<BackendFactory>,
    /// None while it could not be opened again after a failure, and after the end.
    database: RwLock<Option<Database>>,
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
    /// Opens the file to look at it; nothing changes, unless it is a new one.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let disk = Disk {
            path: options.path.clone(),
            cache_bytes: options.cache_bytes,
            backend: options.backend.clone(),
            database: RwLock::new(None),
        };
        let is_new = !disk.path.exists();
        let database = disk.open_database()?;
        prepare(&disk.path, &database)?;
        if is_new && disk.backend.is_none() {
            sync_directory(&disk.path)?;
        }
        *disk.database.write() = Some(database);
        Ok(disk)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }

    /// A view of the log as of the last commit, which later commits do not disturb.
    pub fn reader(&self) -> storage::Result<LogReader> {
        let guard = self.database.read();
        let database = guard.as_ref().ok_or_else(|| storage::Error::unavailable("the file is closed"))?;
        LogReader::new(database.begin_read().map_err(storage::Error::unavailable)?)
    }

    /// Appends events, durably and all or nothing, and lets compaction make some progress in the same commit.
    pub fn append(&self, events: &[Arc<Event>], last: Revision, fold: Fold) -> Result<Folded, Failure> {
        self.commit(|transaction| {
            write_chunks(transaction, events)?;
            {
                let mut meta = transaction.open_table(META)?;
                meta.insert("revision", last)?;
                meta.insert("compacted", fold.compacted)?;
            }
            fold.run(transaction)
        })
    }

    /// Notes that the write-ahead log matters, or that it does not.
    pub fn set_clean(&self, is_clean: bool) -> Result<(), Failure> {
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("clean", i64::from(is_clean))?;
            Ok(())
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
        prepare(&self.path, &database).map_err(|error| error.to_string())?;
        let transaction = database.begin_read().map_err(|error| error.to_string())?;
        let durable = LogReader::new(transaction)
            .and_then(|reader| Ok(Durable { revision: reader.last_revision()?, folded: reader.number("folded")? }));
        *guard = Some(database);
        durable.map_err(|error| error.to_string())
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
        let opened = match &self.backend {
            None => {
                let file = files::open(&self.path).map_err(|error| OpenError::io(&self.path, error))?;
                catching(|| builder.create_file(file))
            }
            Some(factory) => {
                let backend = factory(&self.path).map_err(|error| OpenError::io(&self.path, error))?;
                catching(|| builder.create_with_backend(AnyBackend(backend)))
            }
        };
        opened
            .map_err(|panic| OpenError::corrupt(&self.path, panic))?
            .map_err(|error| OpenError::of_database(&self.path, error))
    }
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
    fn run(self, transaction: &WriteTransaction) -> Result<Folded, redb::Error> {
        let mut log = transaction.open_table(LOG)?;
        let mut base = transaction.open_table(BASE)?;
        let mut folded = Folded { upto: self.folded, ..Folded::default() };
        while (folded.log_bytes as usize) < self.bytes {
            let Some(chunk) = log.first()?.map(|(first, chunk)| (first.value(), chunk.value().to_vec())) else {
                folded.upto = self.compacted;
                folded.is_done = true;
                break;
            };
            if !self.fold_chunk(&chunk.1, &mut base, &mut folded)? {
                folded.is_done = true;
                break;
            }
            log.remove(chunk.0)?;
            folded.log_bytes += chunk.1.len() as u64;
        }
        transaction.open_table(META)?.insert("folded", folded.upto)?;
        Ok(folded)
    }

    /// Applies the chunk to the base; does nothing and says so if it is still history.
    fn fold_chunk(
        &self,
        chunk: &[u8],
        base: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
        folded: &mut Folded,
    ) -> Result<bool, redb::Error> {
        let records = record::records(chunk).collect::<Result<Vec<_>, _>>().map_err(redb::Error::Corrupted)?;
        let Some(last) = records.last().filter(|last| last.revision <= self.compacted) else { return Ok(false) };
        // Of several records of a key only the last one counts.
        let mut latest: HashMap<&[u8], &Record> = HashMap::with_capacity(records.len());
        for record in &records {
            latest.insert(record.key, record);
        }
        for (key, record) in latest {
            let replaced = if record.is_delete {
                base.remove(key)?.map(|old| old.value().len())
            } else {
                folded.base_bytes += record.bytes.len() as i64;
                base.insert(key, record.bytes)?.map(|old| old.value().len())
            };
            folded.base_bytes -= replaced.unwrap_or(0) as i64;
        }
        folded.upto = last.revision;
        Ok(true)
    }
}

/// Makes the tables of a new file, and refuses files that are not ours or too new.
fn prepare(path: &Path, database: &Database) -> Result<(), OpenError> {
    let fail = |error: redb::Error| OpenError::of_redb(path, error);
    let reader = database.begin_read().map_err(|error| fail(error.into()))?;
    match reader.open_table(META) {
        Ok(meta) => {
            let found = meta.get("format").map_err(|error| fail(error.into()))?.map(|format| format.value());
            return match found {
                Some(FORMAT | FORMAT_WITHOUT_WAL) => Ok(()),
                Some(found) if found > FORMAT => {
                    Err(OpenError::NewerFormat { path: path.into(), found, known: FORMAT })
                }
                other => Err(OpenError::corrupt(path, format!("its format is {other:?}"))),
            };
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let others: Vec<_> =
        reader.list_tables().map_err(|error| fail(error.into()))?.map(|table| table.name().to_string()).collect();
    if !others.is_empty() {
        return Err(OpenError::corrupt(path, format!("it belongs to another program, with tables {others:?}")));
    }
    create_tables(database).map_err(fail)
}

fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(LOG)?;
        transaction.open_table(BASE)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("compacted", 0)?;
        meta.insert("folded", 0)?;
        meta.insert("revision", FIRST_REVISION)?;
        meta.insert("clean", 1)?;
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
fn describe(error: &redb::Error) -> String {
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

/// redb takes a backend by its type; ours is chosen at run time.
#[derive(Debug)]
struct AnyBackend(Box<dyn StorageBackend>);

impl StorageBackend for AnyBackend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }
    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }
    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
