//! The file: a redb database with the log and a few numbers about it.
//!
//! `log[revision]` is the change of that revision (see `record`). Nothing else holds data: the current state is what
//! the log adds up to. `meta` holds:
//!
//! - `format`: the version of this layout.
//! - `compacted`: history up to here was given up. The entries that were current at that revision stay.
//! - `swept`: up to here compaction has removed what it may remove; after a crash it goes on from there.
//! - `revision`: the log may end below the last revision if compaction removed its end; revisions go on from here.

use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use redb::{
    BackendError, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
    TableHandle, WriteTransaction,
};
use std::sync::Arc;
use storage::{Event, Key, Revision};

use crate::error::OpenError;
use crate::log::LogReader;
use crate::options::{BackendFactory, Options};
use crate::record;

/// The layout written by this version. Raise it with every change that an older version cannot read.
pub(crate) const FORMAT: i64 = 1;
/// As etcd: an empty store is at revision 1, the first change is 2.
pub(crate) const FIRST_REVISION: Revision = 1;

pub(crate) const LOG: TableDefinition<Revision, &[u8]> = TableDefinition::new("log");
pub(crate) const META: TableDefinition<&str, i64> = TableDefinition::new("meta");

pub(crate) struct Disk {
    path: PathBuf,
    cache_bytes: usize,
    backend: Option<BackendFactory>,
    /// None while it could not be opened again after a failure, and after the end.
    database: RwLock<Option<Database>>,
}

/// A commit that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub message: String,
    /// It failed so late that its changes may be on disk all the same.
    pub may_be_durable: bool,
}

/// How far the file goes.
pub(crate) struct Durable {
    pub revision: Revision,
    pub compacted: Revision,
    pub swept: Revision,
}

/// What compaction removed in one go.
#[derive(Default)]
pub(crate) struct Swept {
    pub upto: Revision,
    pub versions: Vec<(Key, Revision)>,
    pub bytes: u64,
}

/// What compaction may do in one commit: look at up to `records` records after `from`.
#[derive(Clone, Copy)]
pub(crate) struct Sweep {
    pub from: Revision,
    pub compacted: Revision,
    pub records: usize,
}

impl Disk {
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

    /// Appends a group, durably and all or nothing, and lets compaction make some progress in the same commit.
    pub fn append(&self, events: &[Arc<Event>], sweep: Option<Sweep>) -> Result<Swept, Failure> {
        self.commit(|transaction| {
            let mut swept = Swept::default();
            {
                let mut log = transaction.open_table(LOG)?;
                let mut buffer = Vec::new();
                for event in events {
                    record::encode(event, &mut buffer);
                    log.insert(event.revision, buffer.as_slice())?;
                }
                if let Some(sweep) = sweep {
                    swept = sweep.run(&mut log)?;
                }
            }
            if sweep.is_some() {
                transaction.open_table(META)?.insert("swept", swept.upto)?;
            }
            Ok(swept)
        })
    }

    pub fn set_compacted(&self, compacted: Revision, current: Revision) -> Result<(), Failure> {
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            meta.insert("compacted", compacted)?;
            meta.insert("revision", current)?;
            Ok(())
        })
    }

    /// Whether a commit works at all.
    pub fn probe(&self, current: Revision) -> Result<(), Failure> {
        self.commit(|transaction| {
            transaction.open_table(META)?.insert("revision", current)?;
            Ok(())
        })
    }

    fn commit<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>) -> Result<T, Failure> {
        let early = |error: redb::Error| Failure { message: describe(&error), may_be_durable: false };
        let guard = self.database.read();
        let closed = || Failure { message: "the file is closed".into(), may_be_durable: false };
        let database = guard.as_ref().ok_or_else(closed)?;
        let mut transaction = database.begin_write().map_err(|error| early(error.into()))?;
        transaction.set_durability(Durability::Immediate).map_err(|error| early(error.into()))?;
        let done = work(&transaction).map_err(early)?;
        transaction.commit().map_err(|error| Failure { message: describe(&error.into()), may_be_durable: true })?;
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
        let durable = LogReader::new(transaction).and_then(|reader| {
            let (compacted, swept) = (reader.number("compacted")?, reader.number("swept")?);
            Ok(Durable { revision: reader.last_revision()?, compacted, swept })
        });
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
            None => builder.create(&self.path),
            Some(factory) => {
                let backend = factory(&self.path).map_err(|error| OpenError::io(&self.path, error))?;
                builder.create_with_backend(AnyBackend(backend))
            }
        };
        opened.map_err(|error| OpenError::of_database(&self.path, error))
    }
}

impl Sweep {
    /// Removes what records after `from` have superseded, and deletions, as far as both are compacted.
    fn run(self, log: &mut redb::Table<'_, Revision, &'static [u8]>) -> Result<Swept, redb::Error> {
        let mut swept = Swept { upto: self.compacted, ..Swept::default() };
        let mut doomed = Vec::new();
        let range = (Bound::Excluded(self.from), Bound::Included(self.compacted));
        for (index, item) in log.range::<Revision>(range)?.enumerate() {
            let (revision, bytes) = item?;
            let revision = revision.value();
            if index == self.records {
                swept.upto = revision - 1;
                break;
            }
            let outline = record::outline(revision, bytes.value()).map_err(redb::Error::Corrupted)?;
            if outline.previous != 0 {
                doomed.push(outline.previous);
                swept.versions.push((outline.key, outline.previous));
            }
            if outline.is_delete {
                doomed.push(revision);
            }
        }
        for revision in doomed {
            // What an earlier compaction removed is not there any more.
            if let Some(bytes) = log.remove(revision)? {
                swept.bytes += bytes.value().len() as u64;
            }
        }
        Ok(swept)
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
                Some(FORMAT) => Ok(()),
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
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("compacted", 0)?;
        meta.insert("swept", 0)?;
        meta.insert("revision", FIRST_REVISION)?;
    }
    transaction.commit()?;
    Ok(())
}

/// A new name is durable only when its directory is.
pub(crate) fn sync_directory(path: &Path) -> Result<(), OpenError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(|error| OpenError::io(parent, error))
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
