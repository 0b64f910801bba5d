//! [`Recorder`]: follows a store and records what happens in it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use parking_lot::Mutex;
use storage::{Batch, Error as StoreError, Event, KeyRange, Revision, Store, WatchRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::archive::Archive;
use crate::change::{Change, Head, Replaced, What};
use crate::error::{Error, Result};
use crate::origin::Origins;
use crate::store::RecordedStore;

/// How often what was recorded is made durable. A change is not lost by a power failure in between, because the store delivers it
/// again; who made it is.
const SYNC_INTERVAL: Duration = Duration::from_secs(2);
/// How often chunks are looked after.
const MAINTAIN_INTERVAL: Duration = Duration::from_secs(30);
/// After a failure recording waits this long, then twice as long, up to the maximum.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How many restores can be made at the same time, shared by all users: each holds many objects in memory.
const RESTORES_MAX: usize = 2;
/// How long a restore waits for others.
const RESTORE_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a read waits until the newest changes are recorded.
const REACH_MAX: Duration = Duration::from_secs(5);

/// Records what happens in a store. Recording ends when this is dropped; [`Recorder::close`] records what is left first.
pub struct Recorder {
    shared: Arc<RecorderState>,
    below: Arc<dyn Store>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    restores: Arc<Semaphore>,
}

struct RecorderState {
    archive: Arc<Archive>,
    origins: Arc<Origins>,
    /// Everything up to here is recorded.
    recorded: watch::Sender<Revision>,
    closing: watch::Sender<bool>,
    failing: Mutex<Option<String>>,
    failures: AtomicU64,
    gaps: AtomicU64,
    /// How long recording and looking after the files took, in microseconds.
    busy: AtomicU64,
    /// Whether the store has said that it has forgotten what comes next.
    is_forgotten: AtomicBool,
}

impl Recorder {
    /// Begins to record; returns the store to use in place of the given one.
    pub fn start(below: Arc<dyn Store>, archive: Archive) -> (Arc<Recorder>, Arc<RecordedStore>) {
        let origins = Arc::new(Origins::default());
        let shared = Arc::new(RecorderState {
            archive: Arc::new(archive),
            origins: origins.clone(),
            recorded: watch::Sender::new(Revision::MIN),
            closing: watch::Sender::new(false),
            failing: Mutex::default(),
            failures: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            is_forgotten: AtomicBool::new(false),
        });
        let tasks = vec![tokio::spawn(shared.clone().follow(below.clone())), tokio::spawn(shared.clone().maintain())];
        let restores = Arc::new(Semaphore::new(RESTORES_MAX));
        let recorder = Arc::new(Recorder { shared, below: below.clone(), tasks: Mutex::new(tasks), restores });
        let store = Arc::new(RecordedStore::of(below, recorder.clone(), origins));
        (recorder, store)
    }

    /// The recorded changes.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.shared.archive
    }

    /// Why nothing can be recorded, if so.
    pub fn failing(&self) -> Option<String> {
        self.shared.failing.lock().clone()
    }

    /// How often recording has failed, and how often changes were missed.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.failures.load(Ordering::Relaxed), self.shared.gaps.load(Ordering::Relaxed))
    }

    /// A place for a restore, until it is dropped; None if there is none for a while.
    pub async fn begin_restore(&self) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(RESTORE_WAIT_MAX, self.restores.clone().acquire_owned()).await.ok()?.ok()
    }

    /// How long recording and looking after the files took until now.
    pub fn busy(&self) -> Duration {
        Duration::from_micros(self.shared.busy.load(Ordering::Relaxed))
    }

    /// Returns when everything that was acknowledged before this call is recorded.
    pub async fn caught_up(&self) -> Result<Revision> {
        let now = self.below.progress().await?;
        self.reached(now).await?;
        Ok(now)
    }

    /// Returns when everything up to a revision is recorded.
    pub(crate) async fn reached(&self, revision: Revision) -> Result<()> {
        let mut recorded = self.shared.recorded.subscribe();
        let reached = recorded.wait_for(|recorded| *recorded >= revision);
        match tokio::time::timeout(REACH_MAX, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Behind(revision)),
        }
    }

    /// Refuses a revision that is older than what is kept of a key's resource.
    pub(crate) async fn check_kept(&self, key: &[u8], at: Revision) -> Result<()> {
        let options = self.archive().options();
        let age = options.age_of(key);
        if age == options.age {
            return Ok(());
        }
        if age.is_zero() {
            return Err(Error::NotKept(at));
        }
        let horizon = (options.clock.now)().saturating_sub(crate::clock::millis(age));
        let archive = self.archive().clone();
        match blocking(move || archive.moment(horizon)).await {
            Ok(moment) if at < moment.revision => Err(Error::NotKept(at)),
            // Everything that is recorded is younger than that.
            Ok(_) | Err(Error::NotKept(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Records what was acknowledged, and ends.
    pub async fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        if tasks.is_empty() {
            return;
        }
        if let Err(error) = self.caught_up().await {
            tracing::warn!(%error, "the last changes are not in the history yet; the next start records them");
        }
        self.archive().end_maintenance();
        self.shared.closing.send_replace(true);
        for task in tasks {
            if tokio::time::timeout(REACH_MAX, task).await.is_err() {
                tracing::warn!("the history is still being written while the server ends");
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.archive().end_maintenance();
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

impl RecorderState {
    async fn follow(self: Arc<RecorderState>, below: Arc<dyn Store>) {
        let closing = closed(self.closing.subscribe());
        tokio::pin!(closing);
        let mut pause = RETRY_MIN;
        loop {
            let Err(error) = self.record(&below, &mut pause, closing.as_mut()).await else { break };
            if matches!(error, Error::Store(StoreError::Compacted { .. })) {
                self.is_forgotten.store(true, Ordering::Relaxed);
            }
            if below.is_closed() {
                break;
            }
            self.failures.fetch_add(1, Ordering::Relaxed);
            let why = error.to_string();
            if self.failing.lock().replace(why.clone()).is_none() {
                tracing::error!(
                    why,
                    "changes cannot be recorded in the history; the server goes on without it and tries again"
                );
            }
            tokio::select! {
                () = closing.as_mut() => break,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
            }
        }
        let archive = self.archive.clone();
        if let Err(error) = blocking(move || archive.sync()).await {
            tracing::error!(%error, "the history cannot be written");
        }
    }

    /// Records until it is told to end, or something fails. It is not interrupted while it writes.
    async fn record(
        &self,
        below: &Arc<dyn Store>,
        pause: &mut Duration,
        mut closing: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<()> {
        let mut stream = tokio::select! {
            () = closing.as_mut() => return Ok(()),
            stream = self.begin(below) => stream?,
        };
        let mut sync = tokio::time::interval(SYNC_INTERVAL);
        sync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut unmarked = None;
        loop {
            tokio::select! {
                () = closing.as_mut() => return Ok(()),
                batch = stream.next() => {
                    let batch = batch.unwrap_or_else(|| Err(StoreError::Unavailable("the watch ended".into())))?;
                    let changes = self.changes(&batch).await;
                    let revision = batch.revision;
                    match changes.is_empty() {
                        true => unmarked = Some(revision),
                        false => {
                            self.append(changes, revision).await?;
                            unmarked = None;
                        }
                    }
                    self.recorded.send_replace(revision);
                    *pause = RETRY_MIN;
                    if self.failing.lock().take().is_some() {
                        tracing::info!("changes are recorded in the history again");
                    }
                }
                _ = sync.tick() => {
                    if let Some(revision) = unmarked.take() {
                        self.append(Vec::new(), revision).await?;
                    }
                    let archive = self.archive.clone();
                    blocking(move || archive.sync()).await?;
                }
            }
        }
    }

    async fn append(&self, changes: Vec<Change>, to: Revision) -> Result<()> {
        let archive = self.archive.clone();
        self.timed(move || archive.append(&changes, to)).await
    }

    /// Runs what waits for the disk, and counts how long it takes.
    async fn timed<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let began = Instant::now();
        let result = blocking(work).await;
        self.busy.fetch_add(u64::try_from(began.elapsed().as_micros()).unwrap_or(0), Ordering::Relaxed);
        result
    }

    /// Watches the store from where recording has stopped.
    async fn begin(&self, below: &Arc<dyn Store>) -> Result<storage::WatchStream> {
        let current = below.progress().await?;
        let archive = self.archive.clone();
        let after = match archive.recorded() {
            Some(recorded) if recorded > current => {
                tracing::warn!(
                    recorded,
                    current,
                    "the history is of a newer state of the store, or of another one, and is set aside"
                );
                let archive = archive.clone();
                blocking(move || archive.set_aside()).await?;
                current
            }
            recorded => recorded.unwrap_or(current),
        };
        let watch = |after| below.watch(WatchRequest::after(KeyRange::all(), after));
        let watched = match self.is_forgotten.swap(false, Ordering::Relaxed) {
            false => watch(after).await,
            true => Err(StoreError::Compacted { requested: after, compacted: current }),
        };
        let (stream, after) = match watched {
            Ok(stream) => (stream, after),
            Err(StoreError::Compacted { .. }) => {
                self.gaps.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    after,
                    until = current,
                    "the store has forgotten changes that were not recorded; the history begins again after them"
                );
                (watch(current).await?, current)
            }
            Err(other) => return Err(other.into()),
        };
        blocking(move || archive.begin_after(after)).await?;
        self.recorded.send_replace(after);
        Ok(stream)
    }

    async fn changes(&self, batch: &Batch) -> Vec<Change> {
        let options = self.archive.options();
        let mut changes = Vec::with_capacity(batch.events.len());
        for event in &batch.events {
            // It is taken in any case, so that it does not wait for a change that is not recorded.
            let made = self.origins.take(&event.key, event.revision).await;
            if options.age_of(&event.key).is_zero() {
                continue;
            }
            let time = made.as_ref().map_or_else(|| (options.clock.now)(), |made| made.time);
            changes.push(change(event, time, made.map(|made| made.origin)));
        }
        changes
    }

    async fn maintain(self: Arc<RecorderState>) {
        let closing = closed(self.closing.subscribe());
        tokio::pin!(closing);
        loop {
            tokio::select! {
                () = closing.as_mut() => return,
                () = tokio::time::sleep(MAINTAIN_INTERVAL) => {}
            }
            loop {
                let archive = self.archive.clone();
                match self.timed(move || archive.maintain()).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::error!(%error, "old history cannot be deleted or merged");
                        break;
                    }
                }
            }
        }
    }
}

/// Returns when recording is to end.
async fn closed(mut closing: watch::Receiver<bool>) {
    // A sender that is gone has nothing more to say.
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}

fn change(event: &Event, time: i64, origin: Option<Arc<crate::Origin>>) -> Change {
    let what = match () {
        () if event.is_delete() => What::Deleted,
        () if event.is_create() => What::Created,
        () => What::Updated,
    };
    let replaced = match (&event.previous, what) {
        (_, What::Created) => Replaced::Nothing,
        (Some(previous), _) => Replaced::Entry(previous.clone()),
        (None, _) => Replaced::Unknown,
    };
    Change { head: Head { revision: event.revision, time, key: event.key.clone(), what, origin }, replaced }
}

/// Runs what waits for the disk.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Store(StoreError::Unavailable(error.to_string()))),
    }
}
