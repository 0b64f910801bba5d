//! How callers reach the writer thread: one queue that it empties whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use storage::{Error, RefusedWrites, Result, Revision, Subscriber, WatchRequest, Write, Written};
use tokio::sync::{Semaphore, oneshot};

use crate::options::QUEUE_WRITES_MAX;
use crate::shared::Unsubscribe;

pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

pub(crate) type ReplyToAll = oneshot::Sender<Result<Vec<Written>, RefusedWrites>>;

pub(crate) enum Job {
    Write(Write, Reply<Written>),
    WriteAll(Vec<Write>, ReplyToAll),
    Compact(Revision, Reply<()>),
    /// If the caller has gone away, dropping the answer unsubscribes.
    Subscribe(WatchRequest, Arc<dyn Subscriber>, Reply<Unsubscribe>),
    Unsubscribe(u64),
}

impl Job {
    /// How many places it has.
    fn places(&self) -> usize {
        match self {
            Job::Write(..) => 1,
            Job::WriteAll(writes, _) => writes.len(),
            Job::Compact(..) | Job::Subscribe(..) | Job::Unsubscribe(_) => 0,
        }
    }
}

pub(crate) struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
    /// Places for writes; control jobs are few and need none.
    room: Semaphore,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// The writer thread wants to be woken when there are so many.
    wanted: usize,
    /// When the writer thread has something to do, whether or not there are jobs.
    until: Option<Instant>,
    closed: bool,
}

pub(crate) enum Taken {
    Jobs(VecDeque<Job>),
    TimedOut,
    /// The store was closed and everything that was asked before is done.
    Closed,
}

impl Queue {
    pub fn new() -> Self {
        Queue { jobs: Mutex::default(), arrived: Condvar::new(), room: Semaphore::new(QUEUE_WRITES_MAX) }
    }

    /// Waits for a place, puts the write in and waits for its answer.
    pub async fn write(&self, write: Write) -> Result<Written> {
        let place = self.room.acquire().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        self.put(Job::Write(write, reply))?;
        // The writer thread gives the place back when it has taken the job.
        place.forget();
        answer.await.unwrap_or_else(|_| Err(Error::OutcomeUnknown("the store was closed".into())))
    }

    /// The same for writes that are made in one step.
    pub async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let refused = RefusedWrites::all;
        let count = u32::try_from(writes.len()).unwrap_or(u32::MAX);
        let places = self.room.acquire_many(count).await.map_err(|_| refused(closed()))?;
        let (reply, answer) = oneshot::channel();
        self.put(Job::WriteAll(writes, reply)).map_err(refused)?;
        places.forget();
        answer.await.unwrap_or_else(|_| Err(refused(Error::OutcomeUnknown("the store was closed".into()))))
    }

    pub async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.put(job(reply))?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    pub fn put(&self, job: Job) -> Result<()> {
        let mut jobs = self.jobs.lock();
        if jobs.closed {
            return Err(closed());
        }
        jobs.waiting.push_back(job);
        if jobs.waiting.len() >= jobs.wanted {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Whether the writer thread waits for the next job, and for nothing else.
    pub fn is_idle(&self) -> bool {
        let jobs = self.jobs.lock();
        jobs.waiting.is_empty() && jobs.wanted <= 1 && !jobs.closed
    }

    /// Sets when [`Queue::take`] returns without jobs.
    pub fn set_time(&self, until: Option<Instant>) {
        self.jobs.lock().until = until;
    }

    /// Has [`Queue::take`] return at this time if it would wait longer.
    pub fn wake_by(&self, time: Instant) {
        let mut jobs = self.jobs.lock();
        if jobs.until.is_none_or(|until| time < until) {
            jobs.until = Some(time);
            self.arrived.notify_one();
        }
    }

    /// Everything that waits, or nothing if the time comes first. `returning` callers have just been answered and may
    /// have more to ask: waiting a little for that many more jobs is worth it, because they share a commit with the jobs in the queue.
    pub fn take(&self, returning: usize, patience: Duration) -> Taken {
        let mut jobs = self.jobs.lock();
        if returning > 1 {
            jobs.wanted = jobs.waiting.len() + returning;
            let end = Instant::now() + patience;
            while jobs.waiting.len() < jobs.wanted && !jobs.closed {
                if self.arrived.wait_until(&mut jobs, end).timed_out() {
                    break;
                }
            }
        }
        jobs.wanted = 1;
        while jobs.waiting.is_empty() {
            if jobs.closed {
                return Taken::Closed;
            }
            let until = jobs.until;
            match until {
                None => self.arrived.wait(&mut jobs),
                Some(until) if self.arrived.wait_until(&mut jobs, until).timed_out() && jobs.waiting.is_empty() => {
                    return if jobs.closed { Taken::Closed } else { Taken::TimedOut };
                }
                Some(_) => {}
            }
        }
        let taken = std::mem::take(&mut jobs.waiting);
        drop(jobs);
        self.room.add_permits(taken.iter().map(Job::places).sum());
        Taken::Jobs(taken)
    }

    /// Nothing new is accepted; what waits will be done.
    pub fn close(&self) {
        self.jobs.lock().closed = true;
        self.room.close();
        self.arrived.notify_all();
    }

    /// Closes the queue and drops the waiting jobs, for a writer thread that ends early.
    pub fn abandon(&self) {
        self.close();
        let waiting = std::mem::take(&mut self.jobs.lock().waiting);
        drop(waiting);
    }
}

fn closed() -> Error {
    Error::Unavailable("the store is closed".into())
}
