//! Writes the events that are only in the write-ahead log into the database, in the background.
//!
//! What is committed is in the write-ahead log and in the ring. This thread takes it from the ring, some megabytes at a
//! time, and puts it into the database, where history is read from and which makes room in the write-ahead log. It also
//! carries out compaction there. If the database cannot be written, commits go on until the write-ahead log is full.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use storage::{Error, Result, Revision};

use crate::disk::{Durable, Fold};
use crate::options::{CHECKPOINT_BYTES, CHECKPOINT_INTERVAL, FOLD_BYTES_MAX, PAUSE_MAX, RETRY_MAX, RETRY_MIN};
use crate::shared::Shared;

/// What the checkpoint thread and its callers share.
pub(crate) struct Checkpoint {
    progress: Mutex<Progress>,
    /// Something to do.
    wanted: Condvar,
    /// Something done, or failed.
    done: Condvar,
}

struct Progress {
    /// The database has everything up to here.
    revision: Revision,
    pending_bytes: usize,
    /// How many bytes it has taken over a second lately; 0 if that is not known.
    bytes_per_second: f64,
    pending_since: Option<Instant>,
    /// Do not wait for more.
    urgent: bool,
    /// There may be something to fold.
    compacted: bool,
    closing: bool,
    /// Why the last attempt failed, if it did.
    failure: Option<String>,
}

/// What a step was asked for.
struct AskedStep {
    urgent: bool,
    pending_since: Option<Instant>,
}

impl Checkpoint {
    pub fn new(revision: Revision) -> Self {
        let progress = Progress {
            revision,
            pending_bytes: 0,
            bytes_per_second: 0.0,
            pending_since: None,
            urgent: false,
            compacted: true,
            closing: false,
            failure: None,
        };
        Checkpoint { progress: Mutex::new(progress), wanted: Condvar::new(), done: Condvar::new() }
    }

    pub fn revision(&self) -> Revision {
        self.progress.lock().revision
    }

    pub fn pending_bytes(&self) -> usize {
        self.progress.lock().pending_bytes
    }

    pub fn failure(&self) -> Option<String> {
        self.progress.lock().failure.clone()
    }

    /// So much more is in the ring.
    pub fn note(&self, bytes: usize) {
        let mut progress = self.progress.lock();
        progress.pending_bytes += bytes;
        let is_first = progress.pending_since.is_none();
        progress.pending_since.get_or_insert_with(Instant::now);
        if is_first || progress.pending_bytes >= CHECKPOINT_BYTES {
            self.wanted.notify_one();
        }
    }

    /// How long to wait after writing so much to a log each of whose files holds `room` bytes. All writers wait if one is
    /// full and the other one is still needed, so writers are slowed down from half of one on, and at three quarters to
    /// what the database takes over: many short waits instead of a long one.
    pub fn pause(&self, bytes: usize, room: u64) -> Duration {
        let progress = self.progress.lock();
        let fill = (progress.pending_bytes as f64 / room as f64).min(1.0);
        if fill <= 0.5 || progress.bytes_per_second == 0.0 {
            return Duration::ZERO;
        }
        let fair = bytes as f64 / progress.bytes_per_second;
        Duration::try_from_secs_f64(fair * (fill - 0.5) * 4.0).unwrap_or_default().min(PAUSE_MAX)
    }

    /// Whether a commit cannot have to wait for the database.
    pub fn has_room(&self, room: u64) -> bool {
        let progress = self.progress.lock();
        progress.failure.is_none() && (progress.pending_bytes as u64) < room / 4
    }

    /// So many bytes were taken over in this time.
    fn note_speed(&self, bytes: usize, took: Duration) {
        if bytes < CHECKPOINT_BYTES / 4 {
            return;
        }
        let speed = bytes as f64 / took.as_secs_f64().max(1e-6);
        let mut progress = self.progress.lock();
        let before = if progress.bytes_per_second == 0.0 { speed } else { progress.bytes_per_second };
        progress.bytes_per_second = before.mul_add(0.75, speed * 0.25);
    }

    /// What was asked for so far. It is taken before a step reads the ring: what is asked for later may concern events that
    /// the step does not see, and is left to the next one.
    fn take_asked(&self) -> AskedStep {
        let mut progress = self.progress.lock();
        progress.compacted = false;
        AskedStep { urgent: std::mem::take(&mut progress.urgent), pending_since: progress.pending_since.take() }
    }

    /// So many bytes of the ring were read; if they are not all, the rest is still asked for.
    fn note_read(&self, asked: AskedStep, bytes: usize, is_all: bool) {
        let mut progress = self.progress.lock();
        if is_all {
            progress.pending_bytes = 0;
            return;
        }
        progress.pending_bytes = progress.pending_bytes.saturating_sub(bytes);
        progress.urgent |= asked.urgent;
        progress.pending_since = asked.pending_since.or(progress.pending_since);
    }

    pub fn note_compaction(&self) {
        self.progress.lock().compacted = true;
        self.wanted.notify_one();
    }

    pub fn close(&self) {
        self.progress.lock().closing = true;
        self.wanted.notify_one();
    }

    /// Waits until the database has more than it has at `before`.
    pub fn wait_beyond(&self, before: Revision) -> Result<(), String> {
        let mut progress = self.progress.lock();
        progress.urgent = true;
        self.wanted.notify_one();
        while progress.revision <= before {
            if let Some(failure) = &progress.failure {
                return Err(failure.clone());
            }
            if progress.closing {
                return Err("the store is closed".into());
            }
            self.done.wait(&mut progress);
        }
        Ok(())
    }

    /// Waits until the database has everything up to `revision`.
    pub fn reach(&self, revision: Revision) -> Result<()> {
        loop {
            let now = self.revision();
            if now >= revision {
                return Ok(());
            }
            self.wait_beyond(now).map_err(Error::Unavailable)?;
        }
    }
}

/// The thread.
pub(crate) struct Checkpointer {
    pub shared: Arc<Shared>,
    /// What is in the database. After a failed commit this may be more than what is proven to be on the disk.
    pub written: Revision,
    pub folded: Revision,
    pub failures: u32,
}

enum Next {
    Work,
    Close,
}

impl Checkpointer {
    pub fn run(mut self) {
        loop {
            let next = self.wait();
            let outcome = self.step();
            self.tell(&outcome);
            if let Next::Close = next {
                break;
            }
        }
        self.close();
    }

    fn wait(&self) -> Next {
        let checkpoint = &self.shared.checkpoint;
        let mut progress = checkpoint.progress.lock();
        let mut not_before = None;
        if progress.failure.is_some() {
            let wait = RETRY_MIN.saturating_mul(1 << self.failures.min(16)).min(RETRY_MAX);
            not_before = Some(Instant::now() + wait);
        }
        loop {
            if progress.closing {
                return Next::Close;
            }
            let until = match not_before {
                Some(retry) => Some(retry),
                None if progress.urgent || progress.compacted || progress.pending_bytes >= CHECKPOINT_BYTES => {
                    return Next::Work;
                }
                None => progress.pending_since.map(|since| since + CHECKPOINT_INTERVAL),
            };
            match until {
                None => checkpoint.wanted.wait(&mut progress),
                Some(until) => {
                    if checkpoint.wanted.wait_until(&mut progress, until).timed_out() {
                        return Next::Work;
                    }
                }
            }
        }
    }

    /// Puts some of what is pending into the database.
    fn step(&mut self) -> Result<(), String> {
        let shared = self.shared.clone();
        let before = self.written;
        let asked = shared.checkpoint.take_asked();
        let (events, bytes, is_all) = shared.ring.read().first_after(before, CHECKPOINT_BYTES);
        shared.checkpoint.note_read(asked, bytes, is_all);
        let last = events.last().map_or(before, |event| event.revision);
        // The database must not know of a compaction beyond what it has.
        let compacted = shared.state.read().compacted.min(last);
        let fold = Fold { folded: self.folded, compacted, bytes: FOLD_BYTES_MAX.max(bytes * 2) };
        let began = Instant::now();
        let log_generation = shared.wal_generation.load(Ordering::Acquire);
        match shared.disk.append(&events, last, fold, (log_generation, shared.clock.now())) {
            Ok(folded) => {
                shared.checkpoint.note_speed(bytes, began.elapsed());
                self.failures = 0;
                self.folded = folded.upto;
                self.written = last;
                shared.file_bytes.fetch_add(folded.base_bytes - folded.log_bytes as i64, Ordering::Relaxed);
                if !folded.is_done {
                    shared.checkpoint.progress.lock().compacted = true;
                }
                let forgotten = shared.state.write().versions.forget(folded.upto);
                drop(forgotten);
                self.advance(last);
                Ok(())
            }
            Err(failure) => self.recover(failure.message),
        }
    }

    /// redb does not survive a failed commit. The file is opened again, and tells whether the commit is in it. Even then
    /// the write-ahead log is needed until a later commit succeeds and proves that it is on the disk.
    fn recover(&mut self, reason: String) -> Result<(), String> {
        tracing::error!(%reason, "cannot write to the store's database");
        self.failures += 1;
        let Durable { revision, folded } = self.shared.disk.reopen().map_err(|error| format!("{reason}; {error}"))?;
        (self.written, self.folded) = (revision, folded);
        Err(reason)
    }

    fn advance(&self, revision: Revision) {
        let mut progress = self.shared.checkpoint.progress.lock();
        progress.revision = progress.revision.max(revision);
        let revision = progress.revision;
        drop(progress);
        self.shared.ring.write().release(revision);
    }

    fn tell(&self, outcome: &Result<(), String>) {
        let mut progress = self.shared.checkpoint.progress.lock();
        if progress.failure.is_some() && outcome.is_ok() {
            tracing::info!("the store's database can be written again");
        }
        progress.failure = outcome.as_ref().err().cloned();
        if progress.failure.is_some() {
            progress.compacted = true;
        }
        self.shared.checkpoint.done.notify_all();
    }

    /// Brings the rest over, so that the next start finds everything in the database.
    fn close(&mut self) {
        let target = self.shared.revision();
        while self.shared.checkpoint.revision() < target {
            if let Err(error) = self.step() {
                tracing::warn!(%error, "the store is closed with a write-ahead log that is not empty");
                break;
            }
        }
        if self.shared.checkpoint.revision() >= target
            && let Err(failure) = self.shared.disk.set_clean(self.shared.clock.now())
        {
            tracing::warn!(error = %failure.message, "cannot note that the store was closed in order");
        }
        self.shared.disk.close();
        self.tell(&Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that begins to wait while a step is under way has events that the step did not see.
    #[test]
    fn what_is_asked_for_during_a_step_is_left_to_the_next() {
        for is_all in [true, false] {
            let checkpoint = Checkpoint::new(7);
            checkpoint.note(10);
            let asked = checkpoint.take_asked();
            // The step has read the ring; now comes one more event, and its writer waits.
            checkpoint.note(5);
            checkpoint.progress.lock().urgent = true;
            checkpoint.note_read(asked, 10, is_all);
            let progress = checkpoint.progress.lock();
            assert!(progress.urgent && progress.pending_since.is_some(), "{is_all}");
        }
    }

    #[test]
    fn the_fuller_the_log_the_longer_the_pause() {
        let checkpoint = Checkpoint::new(0);
        let (room, group) = (32 << 20, 1 << 20);
        let filled = |share: f64| {
            checkpoint.progress.lock().pending_bytes = (share * room as f64) as usize;
            checkpoint.pause(group, room).as_micros()
        };
        assert_eq!(filled(1.0), 0, "nothing is known yet");
        // 100 MiB a second: a group is worth ten milliseconds.
        checkpoint.note_speed(100 << 20, Duration::from_secs(1));
        checkpoint.note_speed(1, Duration::from_secs(1));
        let pauses = [0.2, 0.5, 0.625, 0.75, 1.0, 5.0].map(filled);
        assert_eq!(pauses, [0, 0, 5_000, 10_000, 20_000, 20_000]);
    }
}
