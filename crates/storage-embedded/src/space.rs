//! Room for what must always be possible: deleting, expiry and compaction.
//!
//! Two limits keep writes that need room from taking the last of it. The quota bounds the bytes of all present entries. The
//! reserve is a file of blocks that hold nothing: when the file system has no more room, the store's files get blocks of the
//! reserve, and from then on only what needs little or no room is written, until the reserve is whole again.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend};
use storage::meter::Meter;
use storage::{Entry, Error, Event, Result};

/// What is said to clients, in etcd's words.
const EXCEEDED: &str = "etcdserver: mvcc: database space exceeded";
/// A change of an existing entry that makes it larger by no more than this may use the reserve: a deletion that waits for
/// something is such a change, and so is a renewed lease.
const SMALL_GROWTH: i64 = 1024;
/// What an entry takes beside its key and value, about.
const ENTRY_BYTES: i64 = 64;
/// The quota's reserve for small changes.
const QUOTA_RESERVE: u64 = 16 << 20;
/// The reserve is given away in so many steps.
const STEPS: u64 = 16;
/// It is made whole again when the file system has so much more room than it needs, in steps of the reserve.
const SPARE_STEPS: u64 = 4;
/// How often that is tried.
const REFILL_INTERVAL: Duration = Duration::from_secs(2);

/// Blocks of the file system that are kept for the store.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    bytes: u64,
    left: AtomicU64,
    file: Mutex<Option<File>>,
    /// Whether anything was taken since the last time that it was asked.
    was_taken: AtomicBool,
}

impl Reserve {
    /// A reserve in a file beside the store's.
    pub fn beside(store: &Path, bytes: u64) -> Arc<Reserve> {
        let path = files::with_suffix(store, ".reserve");
        let (left, file) = (AtomicU64::new(0), Mutex::new(None));
        Arc::new(Reserve { path, bytes, left, file, was_taken: AtomicBool::new(false) })
    }

    /// Makes the file, or finds what is left of it. A full file system is not an error.
    pub(crate) fn open(&self) -> io::Result<()> {
        let file = match files::open(&self.path) {
            Ok(file) => file,
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.left.store(file.metadata()?.len().min(self.bytes), Ordering::Release);
        *self.file.lock() = Some(file);
        self.refill();
        Ok(())
    }

    /// Whether some of it was given away.
    pub(crate) fn is_short(&self) -> bool {
        self.left.load(Ordering::Acquire) < self.bytes
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Gives some of it to the file system; false if there is nothing left.
    fn give(&self) -> bool {
        let file = self.file.lock();
        let left = self.left();
        let Some(file) = file.as_ref().filter(|_| left > 0) else { return false };
        let smaller = left.saturating_sub((self.bytes / STEPS).max(1));
        if file.set_len(smaller).and_then(|()| file.sync_all()).is_err() {
            return false;
        }
        self.left.store(smaller, Ordering::Release);
        self.was_taken.store(true, Ordering::Release);
        true
    }

    /// Makes it whole again if the file system has the room; says whether it is.
    fn refill(&self) -> bool {
        let file = self.file.lock();
        let Some(file) = file.as_ref() else { return false };
        let left = self.left();
        if left >= self.bytes {
            return true;
        }
        let spare = self.bytes / STEPS * SPARE_STEPS;
        if room_at(&self.path).is_some_and(|room| room < self.bytes - left + spare) {
            return false;
        }
        let done = allocate(file, left, self.bytes).and_then(|()| file.sync_all());
        if done.is_err() {
            // What was allocated beyond the old length would be room that nobody counts.
            drop(file.set_len(left));
            return false;
        }
        self.left.store(self.bytes, Ordering::Release);
        true
    }

    /// Why only little can be written, in words for an operator.
    fn shortage(&self) -> String {
        let (left, bytes) = (self.left() >> 10, self.bytes >> 10);
        format!(
            "the file system with {} ({}) is full: {left} of {bytes} KiB reserved for deletions are left; make room on it",
            self.path.with_extension("").display(),
            files::file_system(&self.path),
        )
    }
}

/// Gives blocks to a file beyond its first `from` bytes.
fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), from, to - from).is_ok() {
        return Ok(());
    }
    use std::os::unix::fs::FileExt;
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let some = zeros.len().min((to - at) as usize);
        file.write_all_at(&zeros[..some], at)?;
        at += some as u64;
    }
    Ok(())
}

/// What the file system has left for us, if it tells.
fn room_at(path: &Path) -> Option<u64> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(directory).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// A file of the store, which may use the reserve.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub file: Box<dyn StorageBackend>,
    pub path: PathBuf,
    pub reserve: Option<Arc<Reserve>>,
    pub meter: Option<Arc<Meter>>,
}

impl Reserved {
    /// Does something that may need room.
    fn with_room(&self, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        loop {
            match work() {
                Err(error) if is_full(&error) => match &self.reserve {
                    Some(reserve) if reserve.give() => {}
                    Some(_) => {
                        let (path, place) = (self.path.display(), files::file_system(&self.path));
                        let message = format!("No space left on device: {path} on {place}, and no reserve is left");
                        return Err(io::Error::new(error.kind(), message));
                    }
                    None => return Err(error),
                },
                done => return done,
            }
        }
    }
}

impl StorageBackend for Reserved {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(meter) = &self.meter {
            meter.add_pages(out.len());
        }
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_room(|| self.file.set_len(len))
    }
    fn sync_data(&self) -> io::Result<()> {
        // File systems that allocate late find out here that there is no room.
        self.with_room(|| self.file.sync_data())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_room(|| self.file.write(offset, data))
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }
    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }
    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

/// What the writer knows of room.
pub(crate) struct Space {
    quota: Option<u64>,
    reserve: Option<Arc<Reserve>>,
    /// Bytes of all present entries.
    used: i64,
    /// By how much the last refused change would have made the present larger.
    wanted: i64,
    /// Why writes that need room are refused, if they are.
    shortage: Option<String>,
    refill_at: Instant,
}

fn bytes_of(entry: Option<&Entry>) -> i64 {
    entry.map_or(0, |entry| (entry.key.as_bytes().len() + entry.value.len()) as i64 + ENTRY_BYTES)
}

/// By how much a change makes the present larger; negative if smaller.
pub(crate) fn growth(previous: Option<&Entry>, entry: Option<&Entry>) -> i64 {
    bytes_of(entry) - bytes_of(previous)
}

impl Space {
    pub fn new<'a>(
        quota: Option<u64>,
        reserve: Option<Arc<Reserve>>,
        entries: impl Iterator<Item = &'a Arc<Entry>>,
    ) -> Space {
        let used = entries.map(|entry| bytes_of(Some(entry))).sum();
        Space { quota, reserve, used, wanted: 0, shortage: None, refill_at: Instant::now() }
    }

    /// Fails if there is no room for a change that makes the present larger by `growth`, after changes of the same group that
    /// make it larger by `staged`.
    pub fn admit(&mut self, growth: i64, is_new: bool, staged: i64) -> Result<()> {
        let is_small = !is_new && growth <= SMALL_GROWTH;
        if let Some(reserve) = self.reserve.as_ref().filter(|reserve| reserve.is_short()) {
            // Half of the reserve is for deletions only.
            if !is_small || reserve.left() < reserve.bytes / 2 {
                return self.refuse(reserve.shortage());
            }
        }
        let Some(quota) = self.quota.filter(|_| growth > 0) else { return Ok(()) };
        let limit = if is_small { quota + QUOTA_RESERVE.min(quota / 10) } else { quota };
        if self.used + staged + growth > i64::try_from(limit).unwrap_or(i64::MAX) {
            self.wanted = growth;
            return self.refuse(format!(
                "{} of {quota} bytes are used (--quota-backend-bytes); delete what is not needed, or raise it",
                self.used
            ));
        }
        Ok(())
    }

    fn refuse(&mut self, why: String) -> Result<()> {
        if self.shortage.is_none() {
            tracing::error!(reason = %why, "writes that need room are refused");
        }
        self.shortage = Some(why);
        Err(Error::Full(EXCEEDED.into()))
    }

    /// These changes happened.
    pub fn note(&mut self, events: &[Arc<Event>]) {
        let growths = events.iter().map(|event| growth(event.previous.as_deref(), event.entry.as_deref()));
        self.used += growths.sum::<i64>();
    }

    pub fn shortage(&self) -> Option<&String> {
        self.shortage.as_ref()
    }

    /// When to look again; none if there is nothing to look at.
    pub fn next_look(&self) -> Option<Instant> {
        let is_short = self.reserve.as_ref().is_some_and(|reserve| reserve.is_short());
        (is_short || self.shortage.is_some()).then_some(self.refill_at)
    }

    /// Finds out whether there is room again. Answers whether history should be given up to make some.
    pub fn look(&mut self, now: Instant) -> bool {
        if self.next_look().is_none_or(|at| at > now) {
            return false;
        }
        self.refill_at = now + REFILL_INTERVAL;
        let is_short = self.reserve.as_ref().is_some_and(|reserve| !reserve.refill());
        if is_short {
            let shortage = self.reserve.as_ref().map(|reserve| reserve.shortage());
            if let Some(why) = shortage.as_ref().filter(|_| self.shortage.is_none()) {
                tracing::error!(reason = %why, "writes that need room are refused");
            }
            self.shortage = shortage;
        } else if self.shortage.is_some() && self.has_room() {
            tracing::info!("there is room for writes again");
            self.shortage = None;
        }
        is_short && self.reserve.as_ref().is_some_and(|reserve| reserve.was_taken.swap(false, Ordering::AcqRel))
    }

    /// Whether what was refused would be possible now.
    fn has_room(&self) -> bool {
        self.quota.is_none_or(|quota| self.used + self.wanted <= i64::try_from(quota).unwrap_or(i64::MAX))
    }
}
