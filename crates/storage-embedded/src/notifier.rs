//! Answers callers and wakes watchers after a commit, from a thread of its own, so that the next commit does not wait for it.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use storage::{Error, RefusedWrites, Result, Revision, Written};
use tokio::sync::watch as signal;

use crate::options::{WAKE_PACE, WAKE_PACE_MAX};
use crate::queue::{Reply, ReplyToAll};

pub(crate) struct Notifier {
    pending: Mutex<Pending>,
    changed: Condvar,
    /// Watchers wait for it to change.
    pub signal: signal::Sender<Revision>,
}

/// Callers, and what they are told.
pub(crate) type Answers = Vec<CallerAnswer>;

pub(crate) enum CallerAnswer {
    One(Reply<Written>, Result<Written>),
    All(ReplyToAll, Result<Vec<Written>, RefusedWrites>),
}

impl CallerAnswer {
    /// Makes it a failure.
    pub fn fail(&mut self, error: Error) {
        match self {
            CallerAnswer::One(_, answer) => *answer = Err(error),
            CallerAnswer::All(_, answer) => *answer = Err(RefusedWrites::all(error)),
        }
    }
}

#[derive(Default)]
struct Pending {
    revision: Revision,
    answers: Vec<Answers>,
    closed: bool,
}

/// The signal's value when the store is closed.
pub(crate) const CLOSED: Revision = -1;

impl Notifier {
    pub fn new(revision: Revision) -> Self {
        let pending = Pending { revision, ..Pending::default() };
        Notifier { pending: Mutex::new(pending), changed: Condvar::new(), signal: signal::Sender::new(revision) }
    }

    pub fn announce(&self, revision: Revision, answers: Answers) {
        if answers.is_empty() && self.signal.receiver_count() == 0 {
            // A watcher that comes now looks at the state before it waits.
            self.signal.send_replace(revision);
            return;
        }
        let mut pending = self.pending.lock();
        pending.revision = revision;
        if !answers.is_empty() {
            pending.answers.push(answers);
        }
        self.changed.notify_one();
    }

    pub fn close(&self) {
        self.pending.lock().closed = true;
        self.changed.notify_one();
    }

    /// Runs the thread until the store is closed and every caller has an answer.
    pub fn run(&self) {
        let mut told = *self.signal.borrow();
        let mut not_before = Instant::now();
        loop {
            let (answers, revision, closed) = self.wait(told, not_before);
            answers.into_iter().for_each(answer);
            let now = Instant::now();
            if closed {
                self.signal.send_replace(CLOSED);
                return;
            }
            if revision != told && now >= not_before {
                told = revision;
                self.signal.send_replace(told);
                // Many watchers are woken less often, for more events at a time.
                let watchers = u32::try_from(self.signal.receiver_count()).unwrap_or(u32::MAX);
                not_before = Instant::now() + WAKE_PACE.saturating_mul(watchers).min(WAKE_PACE_MAX);
            }
        }
    }

    /// Waits for something to do: answers at once, waking watchers not before its time.
    fn wait(&self, told: Revision, not_before: Instant) -> (Vec<Answers>, Revision, bool) {
        let mut pending = self.pending.lock();
        while pending.answers.is_empty() && !pending.closed {
            if pending.revision == told {
                self.changed.wait(&mut pending);
            } else if Instant::now() >= not_before || self.changed.wait_until(&mut pending, not_before).timed_out() {
                break;
            }
        }
        (std::mem::take(&mut pending.answers), pending.revision, pending.closed)
    }
}

pub(crate) fn answer(answers: Answers) {
    for answer in answers {
        // The caller may have dropped the future.
        match answer {
            CallerAnswer::One(reply, answer) => drop(reply.send(answer)),
            CallerAnswer::All(reply, answer) => drop(reply.send(answer)),
        }
    }
}
