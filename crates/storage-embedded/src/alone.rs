//! A write that arrives alone is committed by the thread that asks for it.
//!
//! Handing a write to the writer thread and its answer back wakes two threads that sleep, which costs more than the commit.
//! That pays when several writes share a commit; a server whose requests arrive one by one commits each where it is. The thread is a
//! worker of the caller's runtime and does nothing else until the disk has the write, so this is only done on a disk that has been
//! quick for long. Should it stop nevertheless, [`StallGuard`] wakes another worker, which takes over what the first one has to do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::{Result, Write, Written};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::End;
use crate::options::STALL_CHECK;
use crate::shared::Shared;
use crate::writer::Writer;

/// The writer, for whom it is to commit: its own thread, or that of a write that arrives alone. None when the store is closed.
pub(crate) type WriterPlace = Mutex<Option<Writer>>;

/// Commits the write here, or gives it back if it has to be queued.
pub(crate) fn commit(shared: &Arc<Shared>, writer: &WriterPlace, write: Write) -> Result<Result<Written>, Write> {
    if !shared.queue.is_idle() {
        return Err(write);
    }
    let Some(mut place) = writer.try_lock() else { return Err(write) };
    let Some(writer) = place.as_mut().filter(|writer| writer.is_quick()) else { return Err(write) };
    let Some(runtime) = runtime_with_other_workers() else { return Err(write) };
    let _end = EndOnPanic(shared);
    let commit = shared.stalls.begin(runtime);
    let (reply, mut answer) = oneshot::channel();
    let wake = writer.commit_alone(write, reply);
    drop(commit);
    if let Some(wake) = wake {
        shared.queue.wake_by(wake);
    }
    drop(place);
    // Every write of a group is answered when the group was committed or refused.
    Ok(answer.try_recv().unwrap_or_else(|_| Err(storage::Error::OutcomeUnknown("the store was closed".into()))))
}

/// The runtime that this is a worker of, if others can go on meanwhile.
fn runtime_with_other_workers() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    let has_others = runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1;
    has_others.then_some(runtime)
}

/// Does what a panic of the writer thread does if a caller's thread panics in its place.
struct EndOnPanic<'a>(&'a Arc<Shared>);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(End(self.0.clone()));
        }
    }
}

/// Looks after commits in workers of a runtime. A worker that waits for the disk may be the one that was to wait for sockets and timers,
/// and no other one does so before it is woken.
#[derive(Default)]
pub(crate) struct StallGuard {
    state: Mutex<StallState>,
    changed: Condvar,
}

#[derive(Default)]
struct StallState {
    /// The commit that is under way, by its number, and where.
    commit: Option<(u64, Handle)>,
    /// How many have begun.
    begun: u64,
    /// The thread looks again in a while by itself.
    is_awake: bool,
    closed: bool,
}

/// A commit that is under way, until it is dropped.
struct WatchedCommit<'a>(&'a StallGuard);

impl Drop for WatchedCommit<'_> {
    fn drop(&mut self) {
        let ended = self.0.state.lock().commit.take();
        drop(ended);
    }
}

impl StallGuard {
    fn begin(&self, runtime: Handle) -> WatchedCommit<'_> {
        let mut state = self.state.lock();
        state.begun += 1;
        state.commit = Some((state.begun, runtime));
        if !std::mem::replace(&mut state.is_awake, true) {
            self.changed.notify_one();
        }
        WatchedCommit(self)
    }

    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Runs the thread until the store is closed.
    pub fn run(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let begun = state.begun;
            if !state.is_awake {
                self.changed.wait(&mut state);
                continue;
            }
            self.wait(&mut state, STALL_CHECK);
            match &state.commit {
                Some((number, runtime)) if *number == begun => {
                    // A task from outside the runtime wakes a worker that sleeps.
                    let runtime = runtime.clone();
                    MutexGuard::unlocked(&mut state, || drop(runtime.spawn(async {})));
                }
                None if state.begun == begun => state.is_awake = false,
                _ => {}
            }
        }
    }

    fn wait(&self, state: &mut MutexGuard<'_, StallState>, pause: Duration) {
        if !state.closed {
            self.changed.wait_for(state, pause);
        }
    }
}
