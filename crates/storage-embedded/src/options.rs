//! Everything about the engine that can be chosen, and the limits it keeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::StorageBackend;
use storage::meter::Meter;

use crate::space::Reserve;

#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The file; created if it does not exist. Its directory must exist.
    pub path: PathBuf,
    /// How long superseded revisions stay readable and watchable.
    pub history_age: Duration,
    /// Up to how many bytes of log stay readable and watchable; whichever of the two limits comes first.
    pub history_bytes: u64,
    /// How large each of the two files of the write-ahead log may become.
    pub wal_bytes: u64,
    /// What redb may keep of the file in memory. Small, because the current state is in memory anyway and only history
    /// is read from the file.
    pub cache_bytes: usize,
    /// The largest value, as in etcd's default, so that data can move there.
    pub value_bytes_max: usize,
    /// Events that watchers find in memory; watchers that are further behind read the file.
    pub ring_events_max: usize,
    pub ring_bytes_max: usize,
    /// After so many quick commits in a row, a write that arrives alone is committed by its caller's thread.
    pub quick_commits: u32,
    /// What expiry counts on.
    pub clock: Clock,
    /// How many bytes all present entries may have; writes that need more are refused.
    pub quota_bytes: Option<u64>,
    /// Blocks of the file system that keep deletions possible when it is full.
    pub reserve: Option<Arc<Reserve>>,
    /// Counts what long work on the file has done, for commands that show it.
    pub meter: Option<Arc<Meter>>,
    /// What the file really is; tests put failing disks here.
    pub backend: Option<BackendFactory>,
}

/// The time since any moment, on a clock that nobody sets.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;
pub type BackendFactory = Arc<dyn Fn(&Path) -> std::io::Result<Box<dyn StorageBackend>> + Send + Sync>;

impl EmbeddedOptions {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        EmbeddedOptions {
            path: path.into(),
            history_age: Duration::from_secs(5 * 60),
            history_bytes: 256 << 20,
            wal_bytes: 32 << 20,
            cache_bytes: 8 << 20,
            value_bytes_max: 1_572_864,
            ring_events_max: 65_536,
            ring_bytes_max: 8 << 20,
            quick_commits: 256,
            clock: monotonic(),
            quota_bytes: None,
            reserve: None,
            meter: None,
            backend: None,
        }
    }
}

fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

/// Writers that wait for the writer thread at most; more wait for a place.
pub(crate) const QUEUE_WRITES_MAX: usize = 4096;
/// One commit carries at most about this much, so that a burst of large values does not delay other writers.
pub(crate) const GROUP_BYTES_MAX: usize = 8 << 20;
/// Callers that were just answered tend to come back; the next commit waits for them a fraction of the time that the
/// last commit took, but not longer than this.
pub(crate) const GROUP_WAIT_MAX: Duration = Duration::from_micros(250);
/// A commit that takes no longer is quick.
pub(crate) const QUICK_COMMIT: Duration = Duration::from_millis(1);
/// How often commits in callers' threads are looked at. One that takes longer is noticed after twice as long at most.
pub(crate) const STALL_CHECK: Duration = Duration::from_millis(50);
/// A few callers are answered by the writer thread itself; handing them over would take longer.
pub(crate) const ANSWERS_INLINE_MAX: usize = 8;
/// Waking watchers costs about this much each; the notifier spends at most about half of its time on it.
pub(crate) const WAKE_PACE: Duration = Duration::from_micros(2);
pub(crate) const WAKE_PACE_MAX: Duration = Duration::from_millis(4);
/// Events of one batch at most, and how many events one look at the ring passes over.
pub(crate) const BATCH_EVENTS_MAX: usize = 512;
pub(crate) const SCAN_EVENTS_MAX: usize = 8192;
/// So many old values are read from the log before the size of all of them is looked at, where a page may end by size.
pub(crate) const FETCHED_AT_ONCE: usize = 16;
/// Bytes of values in one batch, about: a watcher that is not polled keeps them in memory.
pub(crate) const BATCH_BYTES_MAX: usize = 512 << 10;
/// Keys that expire in one commit at most.
pub(crate) const EXPIRE_KEYS_MAX: usize = 1024;
/// What is brought from the write-ahead log into the database in one commit, about, and how long it may wait for that.
pub(crate) const CHECKPOINT_BYTES: usize = 4 << 20;
pub(crate) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a commit is waited for at most because the write-ahead log is filling up.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(20);
/// What compaction folds in one commit, about.
pub(crate) const FOLD_BYTES_MAX: usize = 2 << 20;
/// After a failed commit the next attempt waits this long, then twice as long, up to the maximum.
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(50);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5);
/// A clock of tests may be moved while we wait for a key to expire; look at it at least this often.
pub(crate) const CLOCK_CHECK: Duration = Duration::from_secs(10);
