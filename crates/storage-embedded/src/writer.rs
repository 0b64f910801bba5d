//! The writer: nothing else changes anything.
//!
//! Its thread takes everything that waits in the queue, decides each write against the state that the writes before it leave,
//! makes all changes durable with one append to the write-ahead log, and only then publishes them: first readers,
//! then watchers and subscribers, last the callers. Callers that come meanwhile make up the next group, so the busier the store is,
//! the more writes share one fsync.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use storage::{
    Change, Condition, Entry, Error, Event, Expect, Key, RefusedWrites, Result, Revision, Subscriber, WatchRequest,
    Write, Written,
};

use crate::alone::WriterPlace;
use crate::expiry::{Deadlines, History, lease_until};
use crate::log::Loaded;
use crate::notifier::{Answers, CallerAnswer, answer};
use crate::options::{
    ANSWERS_INLINE_MAX, CLOCK_CHECK, EXPIRE_KEYS_MAX, GROUP_BYTES_MAX, GROUP_WAIT_MAX, QUEUE_WRITES_MAX, QUICK_COMMIT,
};
use crate::outage::{self, Outage};
use crate::queue::{Job, Queue, Reply, Taken};
use crate::record::encoded_len;
use crate::shared::{Shared, Unsubscribe};
use crate::space::{self, Space};
use crate::subscribers::Subscribers;
use crate::wal::{Wal, WalError};

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    subscribers: Subscribers,
    deadlines: Deadlines,
    history: History,
    space: Space,
    pub(crate) wal: Wal,
    pub(crate) outage: Option<Outage>,
    /// How many callers the last commit answered, and how long it took.
    last_group: usize,
    last_commit: Duration,
    /// How long the next commit is to wait.
    pause: Duration,
    /// How many commits in a row were quick.
    quick: u32,
    /// Commits that failed since the last one that worked.
    pub(crate) failures: u32,
}

/// Writes that are decided and will be committed together.
#[derive(Default)]
pub(crate) struct Group {
    pub events: Vec<Arc<Event>>,
    /// What they leave of the keys they change: the state of the writes that come after them in the group.
    staged: HashMap<Key, Option<Arc<Entry>>>,
    /// The answer to each caller if the commit succeeds.
    pub answers: Answers,
    pub bytes: usize,
    /// By how much they make the present larger.
    growth: i64,
}

impl Writer {
    pub fn new(shared: Arc<Shared>, loaded: Loaded, wal: Wal) -> Self {
        let mut history = History::new(shared.options.history_age, shared.options.history_bytes);
        // The file does not say when these were written, so their age is counted from now.
        history.note(Instant::now(), shared.revision(), loaded.history_bytes);
        let space = {
            let options = &shared.options;
            Space::new(options.quota_bytes, options.reserve.clone(), shared.state.read().current.iter())
        };
        Writer {
            shared,
            space,
            subscribers: Subscribers::default(),
            deadlines: loaded.deadlines,
            history,
            wal,
            last_group: 0,
            last_commit: Duration::ZERO,
            pause: Duration::ZERO,
            quick: 0,
            outage: None,
            failures: 0,
        }
    }

    /// One round of the thread.
    fn turn(&mut self, jobs: VecDeque<Job>) {
        self.work(jobs);
        if self.outage.is_some() {
            self.try_again_if_due();
        } else {
            self.expire_due();
            self.compact_old_history();
        }
        self.look_for_room();
    }

    /// Whether a write can be committed without waiting for anything but a disk that has been quick for long, and without others that
    /// would share the commit.
    pub fn is_quick(&self) -> bool {
        let options = &self.shared.options;
        let is_alone = self.last_group <= 1 && self.pause.is_zero();
        let is_quick = self.outage.is_none() && self.quick >= options.quick_commits;
        is_alone && is_quick && self.shared.checkpoint.has_room(options.wal_bytes)
    }

    /// Commits one write, and says when the thread has something to do.
    pub fn commit_alone(&mut self, write: Write, reply: Reply<Written>) -> Option<Instant> {
        let mut group = Group::default();
        self.stage(write, reply, &mut group);
        self.flush(group);
        self.look_for_room();
        self.next_wake()
    }

    /// How many callers are worth waiting for before the next commit, and how long.
    fn patience(&mut self) -> (usize, Duration) {
        let (returning, pause) = (std::mem::take(&mut self.last_group), std::mem::take(&mut self.pause));
        if pause.is_zero() {
            return (returning, (self.last_commit / 4).min(GROUP_WAIT_MAX));
        }
        // All writes that arrive during the pause go into the next group.
        (QUEUE_WRITES_MAX, pause)
    }

    fn next_wake(&self) -> Option<Instant> {
        let now = Instant::now();
        if let Some(outage) = &self.outage {
            return Some(outage.retry_at);
        }
        let expiry = self.deadlines.wait(self.shared.clock.now()).map(|wait| now + wait.min(CLOCK_CHECK));
        [expiry, self.history.next_due(), self.space.next_look()].into_iter().flatten().min()
    }

    /// Notices that there is room again. As long as there is none, history makes room for deletions.
    fn look_for_room(&mut self) {
        if self.space.look(Instant::now()) {
            let revision = self.shared.revision();
            drop(self.compact(revision));
        }
        let shortage = self.space.shortage();
        let mut shown = self.shared.shortage.lock();
        if shown.as_ref() != shortage {
            *shown = shortage.cloned();
        }
    }

    fn work(&mut self, jobs: VecDeque<Job>) {
        let mut group = Group::default();
        for job in jobs {
            match job {
                Job::Write(write, reply) => self.stage(write, reply, &mut group),
                Job::WriteAll(writes, reply) => {
                    let works = self.check_works().map_err(RefusedWrites::all);
                    let answer = works.and_then(|()| self.decide_all(writes, &mut group));
                    group.answers.push(CallerAnswer::All(reply, answer));
                }
                other => {
                    self.flush(std::mem::take(&mut group));
                    self.control(other);
                }
            }
            if group.bytes >= GROUP_BYTES_MAX {
                self.flush(std::mem::take(&mut group));
            }
        }
        self.flush(group);
    }

    fn stage(&mut self, write: Write, reply: Reply<Written>, group: &mut Group) {
        let answer = self.check_works().and_then(|()| self.decide(write, group));
        group.answers.push(CallerAnswer::One(reply, answer));
    }

    fn control(&mut self, job: Job) {
        match job {
            Job::Write(..) | Job::WriteAll(..) => {}
            Job::Compact(revision, reply) => drop(reply.send(self.compact(revision))),
            Job::Subscribe(request, subscriber, reply) => drop(reply.send(self.subscribe(request, subscriber))),
            Job::Unsubscribe(number) => self.subscribers.remove(number),
        }
    }

    fn check_works(&self) -> Result<()> {
        match &self.outage {
            Some(outage) => Err(Error::Unavailable(outage.reason.clone())),
            None => Ok(()),
        }
    }

    /// Decides writes of different keys, which are made together: a group is committed as a whole.
    fn decide_all(&mut self, writes: Vec<Write>, group: &mut Group) -> Result<Vec<Written>, RefusedWrites> {
        let (events, bytes, growth) = (group.events.len(), group.bytes, group.growth);
        let mut replaced = Vec::with_capacity(writes.len());
        let mut written = Vec::with_capacity(writes.len());
        for (at, write) in writes.into_iter().enumerate() {
            let key = write.key.clone();
            let staged = group.staged.get(&key).cloned();
            match self.decide(write, group) {
                Ok(made) => written.push(made),
                Err(error) => {
                    group.events.truncate(events);
                    (group.bytes, group.growth) = (bytes, growth);
                    for (key, staged) in replaced {
                        match staged {
                            Some(staged) => drop(group.staged.insert(key, staged)),
                            None => drop(group.staged.remove(&key)),
                        }
                    }
                    return Err(RefusedWrites { at, error });
                }
            }
            replaced.push((key, staged));
        }
        Ok(written)
    }

    /// Decides a write. The answer is kept back even if it is a refusal: what it shows may be part of this group.
    fn decide(&mut self, write: Write, group: &mut Group) -> Result<Written> {
        let previous = match group.staged.get(&write.key) {
            Some(staged) => staged.clone(),
            None => self.shared.state.read().current.get(&write.key).cloned(),
        };
        write.check(previous.as_ref())?;
        let revision = group.events.last().map_or_else(|| self.shared.revision(), |event| event.revision) + 1;
        // All entries of a key share one copy of it.
        let key = previous.as_ref().map_or(write.key, |entry| entry.key.clone());
        let entry = match write.change {
            Change::Put { value, ttl } => Some(Arc::new(Entry {
                key: key.clone(),
                value,
                create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
                mod_revision: revision,
                version: previous.as_ref().map_or(1, |entry| entry.version + 1),
                lease: ttl.map_or(0, |ttl| lease_until(self.shared.clock.now(), ttl)),
                condition: Condition::Good,
            })),
            Change::Delete => None,
        };
        let growth = space::growth(previous.as_deref(), entry.as_deref());
        if entry.is_some() {
            self.space.admit(growth, previous.is_none(), group.growth)?;
        }
        group.growth += growth;
        let removed = if entry.is_none() { previous.clone() } else { None };
        group.staged.insert(key.clone(), entry.clone());
        let event = Arc::new(Event { revision, key, entry: entry.clone(), previous });
        group.bytes += encoded_len(&event);
        group.events.push(event);
        Ok(Written { revision, entry, previous: removed })
    }

    fn flush(&mut self, group: Group) {
        if group.events.is_empty() {
            return answer(group.answers);
        }
        let began = Instant::now();
        match self.commit(&group.events) {
            Ok(()) => {
                self.last_commit = began.elapsed();
                self.shared.commits.add(self.last_commit);
                self.quick = if self.last_commit <= QUICK_COMMIT { self.quick.saturating_add(1) } else { 0 };
                self.last_group = group.answers.len();
                self.failures = 0;
                self.pause = self.shared.checkpoint.pause(group.bytes, self.shared.options.wal_bytes);
                self.publish(group);
            }
            Err(error) => outage::refuse(self, group, error),
        }
    }

    /// Makes events durable. Waits for the database if the write-ahead log is full.
    fn commit(&mut self, events: &[Arc<Event>]) -> Result<()> {
        let after = self.shared.revision();
        loop {
            let checkpointed = self.shared.checkpoint.revision();
            let outcome = self.wal.append(events, after, checkpointed);
            self.shared.wal_size.store(self.wal.size(), Ordering::Relaxed);
            match outcome {
                Ok(()) => {
                    self.shared.wal_generation.store(self.wal.generation(), Ordering::Release);
                    return Ok(());
                }
                Err(WalError::Io(message)) => return Err(Error::OutcomeUnknown(message)),
                Err(WalError::Full) => self.shared.checkpoint.wait_beyond(checkpointed).map_err(Error::Unavailable)?,
            }
        }
    }

    /// Makes committed changes visible to readers, watchers and subscribers, and answers the callers.
    fn publish(&mut self, group: Group) {
        for event in &group.events {
            self.deadlines.follow(event);
        }
        self.space.note(&group.events);
        let revision = {
            // Both change under both locks: a reader of the new state finds its events in the ring, and not earlier.
            let mut ring = self.shared.ring.write();
            let mut state = self.shared.state.write();
            group.events.iter().for_each(|event| state.apply(event));
            ring.push(&group.events);
            state.revision
        };
        self.history.note(Instant::now(), revision, group.bytes as u64);
        self.shared.file_bytes.fetch_add(group.bytes as i64, Ordering::Relaxed);
        self.shared.checkpoint.note(group.bytes);
        self.subscribers.deliver(&group.events, revision);
        self.shared.told.advance(revision);
        let mut answers = group.answers;
        if answers.len() <= ANSWERS_INLINE_MAX {
            answer(std::mem::take(&mut answers));
        }
        self.shared.notifier.announce(revision, answers);
    }

    /// Replays what the subscriber has missed; between two commits, so nothing can slip in.
    fn subscribe(&mut self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Unsubscribe> {
        let revision = self.shared.revision();
        let after = request.after.unwrap_or(revision);
        let mut position = after;
        self.shared.state.read().check_kept(position)?;
        while position < revision {
            let batch = self.shared.events_after(&request.range, position)?;
            position = batch.revision;
            if !batch.events.is_empty() {
                catch_unwind(AssertUnwindSafe(|| subscriber.apply(&batch)))
                    .map_err(|_| Error::Unavailable("the subscriber panicked".into()))?;
            }
        }
        let number = self.subscribers.add(request.range, after, subscriber);
        Ok(Unsubscribe { shared: Arc::downgrade(&self.shared), number })
    }

    fn expire_due(&mut self) {
        let due = self.deadlines.due(self.shared.clock.now(), EXPIRE_KEYS_MAX);
        let mut group = Group::default();
        for (key, revision) in due {
            // The deadline is that of the current entry: it is forgotten when the entry is replaced.
            let gone = self.decide(Write { key, change: Change::Delete, expect: Expect::At(revision) }, &mut group);
            debug_assert!(gone.is_ok(), "{gone:?}");
        }
        self.flush(group);
    }

    fn compact_old_history(&mut self) {
        if let Some(revision) = self.history.due(Instant::now()) {
            // It is a revision that has happened, so this cannot fail.
            drop(self.compact(revision));
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<()> {
        let mut state = self.shared.state.write();
        if revision > state.revision {
            return Err(Error::FutureRevision { requested: revision, current: state.revision });
        }
        if revision <= state.compacted {
            return Ok(());
        }
        state.compacted = revision;
        drop(state);
        self.shared.checkpoint.note_compaction();
        Ok(())
    }
}

/// Runs the thread until the store is closed and the queue is empty.
pub(crate) fn run(queue: &Queue, writer: &WriterPlace) {
    loop {
        let (returning, patience) = {
            let mut place = writer.lock();
            let Some(writer) = place.as_mut() else { return };
            // Set with the writer in hand, so that a commit in another thread makes the time sooner and not later.
            queue.set_time(writer.next_wake());
            writer.patience()
        };
        let jobs = match queue.take(returning, patience) {
            Taken::Jobs(jobs) => jobs,
            Taken::TimedOut => VecDeque::new(),
            Taken::Closed => break,
        };
        if let Some(writer) = writer.lock().as_mut() {
            writer.turn(jobs);
        }
    }
    let ended = writer.lock().take();
    if let Some(mut writer) = ended {
        writer.subscribers.end();
    }
}
