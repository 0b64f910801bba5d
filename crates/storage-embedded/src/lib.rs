//! The default engine: one writer, one durable commit a group, redb behind it.
//!
//! Start reading at `writer`, which is where everything happens, and `alone`, then `state` (what is in memory) with `versions` (where the
//! past is), `wal` (what makes a commit durable), `checkpoint` and `disk` (how it gets into the database, where history is
//! read). Readers look at the state of the last commit and never wait for the disk, except for history. Watchers are
//! positions in a shared ring. `outage` says what happens when the disk fails.

mod alone;
mod attached;
mod checkpoint;
mod disk;
mod error;
mod expiry;
mod log;
mod maintenance;
mod notifier;
mod numbers;
mod options;
mod outage;
mod queue;
mod record;
mod repair;
mod replace;
mod ring;
mod shared;
mod space;
mod state;
mod subscribers;
mod unchecked;
mod versions;
mod wal;
mod watcher;
mod writer;

pub use attached::{attach, attached};
pub use error::OpenError;
pub use maintenance::{Report, check, check_with, exists, restore, restore_with};
pub use options::{BackendFactory, Clock, EmbeddedOptions};
pub use repair::{Loss, Salvage, examine, examine_with, lock};
pub use replace::{last_revision, replace};
pub use space::Reserve;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use storage::meter::Meter;
use storage::{
    Error, Event, KeyRange, Page, Progress, RangeQuery, RefusedWrites, Result, Revision, Status, Store, Subscriber,
    Subscription, WatchRequest, WatchStream, Write, WriteLimits, Written,
};

use crate::alone::{StallGuard, WriterPlace};
use crate::checkpoint::{Checkpoint, Checkpointer};
use crate::disk::{Disk, Failure};
use crate::expiry::StoreClock;
use crate::log::{Loaded, LogReader};
use crate::notifier::Notifier;
use crate::numbers::Log;
use crate::options::{GROUP_BYTES_MAX, QUEUE_WRITES_MAX};
use crate::queue::{Job, Queue};
use crate::ring::Ring;
use crate::shared::{CommitTimes, Shared};
use crate::unchecked::Unchecked;
use crate::wal::Wal;
use crate::writer::Writer;

/// A store in one file. Dropping it finishes what was asked and closes the file.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writer: Arc<WriterPlace>,
    /// Empty once the store was closed.
    threads: Mutex<Vec<JoinHandle<()>>>,
    closed: AtomicBool,
}

impl EmbeddedStore {
    /// Opens or creates the file and reads it into memory. This takes as long as reading the file; call it from a thread
    /// that may block.
    pub fn open(options: EmbeddedOptions) -> Result<Self, OpenError> {
        if let Some(reserve) = &options.reserve {
            reserve.open().map_err(|error| OpenError::io(&options.path, error))?;
        }
        let (disk, early) = open_disk(&options)?;
        let (mut loaded, found) = load(&disk, &options, early)?;
        let found = match found {
            Some(found) => found,
            None => LogFound { wal: Wal::open(&options)?.0, events: Vec::new(), reaches: 0 },
        };
        let failed = |failure: Failure| OpenError::io(&options.path, failure.message);
        let folded = disk.upgrade().map_err(failed)?;
        let clock = StoreClock::from(options.clock.clone(), loaded.time);
        let (wal, events) = found.begin(&disk, &loaded, &options, clock.now())?;
        let (revision, checkpointed) = (loaded.state.revision, loaded.checkpointed);
        let mut ring = Ring::new(checkpointed, options.ring_events_max, options.ring_bytes_max);
        ring.push(&events);
        let checkpoint = Checkpoint::new(checkpointed);
        if !events.is_empty() {
            checkpoint.note(0);
        }
        let shared = Arc::new(Shared {
            clock,
            queue: Queue::new(),
            disk,
            state: RwLock::new(std::mem::take(&mut loaded.state)),
            ring: RwLock::new(ring),
            checkpoint,
            stalls: StallGuard::default(),
            notifier: Notifier::new(revision),
            told: Progress::at(revision),
            outage: Mutex::new(None),
            shortage: Mutex::new(None),
            wal_size: wal.size().into(),
            commits: CommitTimes::default(),
            wal_generation: wal.generation().into(),
            file_bytes: (std::mem::take(&mut loaded.bytes) as i64).into(),
            options,
        });
        let checkpointer = Checkpointer { shared: shared.clone(), written: checkpointed, folded, failures: 0 };
        let writer = Arc::new(Mutex::new(Some(Writer::new(shared.clone(), loaded, wal))));
        let own = writer.clone();
        let threads = vec![
            spawn("store-writer", &shared, move |shared| {
                let _end = End(shared.clone());
                writer::run(&shared.queue, &own);
            })?,
            spawn("store-checkpoint", &shared, move |_| checkpointer.run())?,
            spawn("store-notifier", &shared, |shared| shared.notifier.run())?,
            spawn("store-stalls", &shared, |shared| shared.stalls.run())?,
        ];
        Ok(EmbeddedStore { shared, writer, threads: Mutex::new(threads), closed: AtomicBool::new(false) })
    }

    /// Copies the store as it is now into a new file, while it goes on serving.
    pub async fn backup(&self, target: &Path) -> Result<Report> {
        self.backup_with(target, Arc::default()).await
    }

    /// The same, counted.
    pub async fn backup_with(&self, target: &Path, meter: Arc<Meter>) -> Result<Report> {
        let target = target.to_owned();
        let revision = self.shared.revision();
        self.shared
            .blocking(move |shared| {
                shared.checkpoint.reach(revision)?;
                maintenance::backup(&shared.disk, &target, &meter)
            })
            .await
    }
}

impl EmbeddedStore {
    fn check_size(&self, write: &Write) -> Result<()> {
        let (size, limit) = (write.size(), self.shared.options.value_bytes_max);
        if size > limit { Err(Error::TooLarge { size, limit }) } else { Ok(()) }
    }
}

/// The write-ahead log that was found, and what it has beyond the database.
pub(crate) struct LogFound {
    wal: Wal,
    events: Vec<Arc<Event>>,
    /// The last revision in the log.
    reaches: Revision,
}

impl LogFound {
    /// Makes the log ready to be written, and the database know it. Each step leaves a store that can be opened.
    fn begin(
        mut self,
        disk: &Disk,
        loaded: &Loaded,
        options: &EmbeddedOptions,
        time: i64,
    ) -> Result<(Wal, Vec<Arc<Event>>), OpenError> {
        let failed = |error: std::io::Error| OpenError::io(&options.path, error);
        let has_forgotten = loaded.is_clean && self.wal.forget_damaged().map_err(failed)?;
        let id = match loaded.log.id {
            0 => wal::random_id().map_err(failed)?,
            id => id,
        };
        let is_empty = self.wal.generation() == 0;
        let is_continued = is_empty || (self.reaches == loaded.state.revision && !has_forgotten);
        self.wal.adopt(id, loaded.state.revision, is_continued).map_err(failed)?;
        let log = Log { id, generation: self.wal.generation() };
        disk.set_log(log, time).map_err(|failure| OpenError::io(&options.path, failure.message))?;
        Ok((self.wal, self.events))
    }
}

/// Opens the file, which checks all of it, and reads it meanwhile if that is possible.
fn open_disk(options: &EmbeddedOptions) -> Result<(Disk, Option<Loaded>), OpenError> {
    let Some(unchecked) = Unchecked::open(options) else { return Ok((Disk::open(options)?, None)) };
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| unchecked.load());
        let opened = Disk::open(options);
        // Whatever went wrong while it was unchecked, it is read again.
        let loaded = reading.join().unwrap_or_default();
        let disk = opened?;
        let loaded = loaded.filter(|_| disk.had_intact_pages());
        Ok((disk, loaded))
    })
}

/// Reads everything: the database, unless that was done already, and what the write-ahead log has beyond it.
pub(crate) fn load(
    disk: &Disk,
    options: &EmbeddedOptions,
    early: Option<Loaded>,
) -> Result<(Loaded, Option<LogFound>), OpenError> {
    let read = || match early {
        Some(loaded) => Ok(loaded),
        None => disk.read(LogReader::load).map_err(|error| OpenError::of_store(&options.path, error)),
    };
    // A store that was closed in order may have no log.
    if options.backend.is_none() && !wal::exists(&options.path) {
        let loaded = read()?;
        return match loaded.is_clean {
            true => Ok((loaded, None)),
            false => {
                let [first, second] = wal::paths(&options.path);
                let why = "it was not closed in order and its write-ahead log is missing";
                let mark = wal::mark_path(&options.path);
                let files = format!("{}, {} and {}", first.display(), second.display(), mark.display());
                Err(OpenError::corrupt(&options.path, format!("{why} ({files})")))
            }
        };
    }
    let (loaded, opened) = match options.backend {
        // Disks of tests fail at a certain operation, so these come in order.
        Some(_) => (read(), Wal::open(options)),
        None => std::thread::scope(|scope| {
            let wal = scope.spawn(|| Wal::open(options));
            (read(), wal.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        }),
    };
    let mut loaded = loaded?;
    let (wal, replay) = opened?;
    let events = loaded.replay(&replay, &options.path)?;
    Ok((loaded, Some(LogFound { wal, events, reaches: replay.reaches })))
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        end(&self.shared, std::mem::take(self.threads.get_mut()));
    }
}

/// Lets the threads finish what was asked; the last one closes the file.
fn end(shared: &Shared, threads: Vec<JoinHandle<()>>) {
    shared.queue.close();
    for thread in threads {
        // A panic in it was reported when it happened.
        drop(thread.join());
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let (shared, threads) = (self.shared.clone(), std::mem::take(&mut *self.threads.lock()));
        if tokio::task::spawn_blocking(move || end(&shared, threads)).await.is_err() {
            tracing::error!("the store's threads did not end in order");
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<storage::Found> {
        self.shared.get(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.shared.range(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.check_size(&write)?;
        match alone::commit(&self.shared, &self.writer, write) {
            Ok(written) => written,
            Err(write) => self.shared.queue.write(write).await,
        }
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        for (at, write) in writes.iter().enumerate() {
            self.check_size(write).map_err(|error| RefusedWrites { at, error })?;
        }
        self.write_limits().check(&writes)?;
        self.shared.queue.write_all(writes).await
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { keys: QUEUE_WRITES_MAX / 4, bytes: GROUP_BYTES_MAX }
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        watcher::watch(self.shared.clone(), request)
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        let unsubscribe = self.shared.queue.ask(|reply| Job::Subscribe(request, subscriber, reply)).await?;
        Ok(Subscription::new(self.shared.told.clone(), unsubscribe))
    }

    fn delivers_in_commit(&self) -> bool {
        true
    }

    async fn progress(&self) -> Result<Revision> {
        Ok(self.shared.revision())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.shared.queue.ask(|reply| Job::Compact(revision, reply)).await
    }

    fn compacted(&self, _: &KeyRange) -> Revision {
        self.shared.state.read().compacted
    }

    async fn status(&self) -> Result<Status> {
        Ok(self.shared.status())
    }
}

/// Closes the queue when the writer thread ends, also by a panic, so that no caller waits for it.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.abandon();
        self.0.checkpoint.close();
        self.0.notifier.close();
        self.0.stalls.close();
    }
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let own = shared.clone();
    let builder = std::thread::Builder::new().name(name.into());
    builder.spawn(move || work(&own)).map_err(|error| OpenError::io(&shared.options.path, error))
}
