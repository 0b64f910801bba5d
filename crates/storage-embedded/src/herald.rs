//! Spreads the news of a commit from a thread of its own: answers callers and wakes watchers, which takes time that the
//! next commit should not wait for.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use storage::{Result, Revision, Written};
use tokio::sync::watch as signal;

use crate::options::{WAKE_PACE, WAKE_PACE_MAX};
use crate::queue::Reply;

pub(crate) struct Herald {
    news: Mutex<News>,
    changed: Condvar,
    /// Watchers wait for it to change.
    pub signal: signal::Sender<Revision>,
}

pub(crate) type Answers = Vec<(Reply<Written>, Result<Written>)>;

#[derive(Default)]
struct News {
    revision: Revision,
    answers: Vec<Answers>,
    closed: bool,
}

/// The signal's value when the store is closed.
pub(crate) const CLOSED: Revision = -1;

impl Herald {
    pub fn new(revision: Revision) -> Self {
        let news = News { revision, ..News::default() };
        Herald { news: Mutex::new(news), changed: Condvar::new(), signal: signal::Sender::new(revision) }
    }

    pub fn announce(&self, revision: Revision, answers: Answers) {
        let mut news = self.news.lock();
        news.revision = revision;
        if !answers.is_empty() {
            news.answers.push(answers);
        }
        self.changed.notify_one();
    }

    pub fn close(&self) {
        self.news.lock().closed = true;
        self.changed.notify_one();
    }

    /// What the thread does until the store is closed and everybody has an answer.
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
        let mut news = self.news.lock();
        while news.answers.is_empty() && !news.closed {
            if news.revision == told {
                self.changed.wait(&mut news);
            } else if Instant::now() >= not_before || self.changed.wait_until(&mut news, not_before).timed_out() {
                break;
            }
        }
        (std::mem::take(&mut news.answers), news.revision, news.closed)
    }
}

pub(crate) fn answer(answers: Answers) {
    for (reply, answer) in answers {
        // A caller that has gone away does not want to know.
        drop(reply.send(answer));
    }
}
