//! When keys expire, and how much history has become old.
//!
//! Deadlines are on the store's own clock, which runs while the store is open and cannot be set: it goes on where the
//! database says that it was. So neither a step of the wall clock nor the time that a server was stopped makes a key
//! expire early, as in etcd.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use storage::{Entry, Event, Key, Revision};

use crate::options::Clock;

/// The store's clock, in milliseconds. It begins with the wall clock's milliseconds since 1970, by which earlier formats
/// counted.
pub(crate) struct StoreClock {
    clock: Clock,
    origin: Duration,
    base: i64,
}

impl StoreClock {
    /// Goes on from what the database says; 0 if it does not say anything.
    pub fn from(clock: Clock, stored: i64) -> StoreClock {
        let base = if stored > 0 { stored } else { wall_clock() };
        StoreClock { origin: clock(), clock, base }
    }

    pub fn now(&self) -> i64 {
        let since = (self.clock)().saturating_sub(self.origin);
        self.base.saturating_add(millis(since))
    }
}

#[allow(clippy::disallowed_methods)] // Where a store's clock begins does not matter, and is not asked again.
fn wall_clock() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| millis(since).max(1))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The lease of a key written now: never 0, which means that there is none, and never early.
pub(crate) fn lease_until(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(millis(ttl)).saturating_add(1)
}

/// The keys that will expire, soonest first.
#[derive(Default)]
pub(crate) struct Deadlines(BTreeSet<(i64, Key, Revision)>);

impl Deadlines {
    pub fn follow(&mut self, event: &Event) {
        self.remove(event.previous.as_ref());
        self.add(event.entry.as_ref());
    }

    pub fn add(&mut self, entry: Option<&Arc<Entry>>) {
        if let Some(entry) = entry.filter(|entry| entry.lease != 0) {
            self.0.insert((entry.lease, entry.key.clone(), entry.mod_revision));
        }
    }

    fn remove(&mut self, entry: Option<&Arc<Entry>>) {
        if let Some(entry) = entry.filter(|entry| entry.lease != 0) {
            self.0.remove(&(entry.lease, entry.key.clone(), entry.mod_revision));
        }
    }

    /// The keys that are due. They stay in the set until the event of their deletion removes them.
    pub fn due(&self, now: i64, limit: usize) -> Vec<(Key, Revision)> {
        let due = self.0.iter().take_while(|(lease, ..)| *lease <= now).take(limit);
        due.map(|(_, key, revision)| (key.clone(), *revision)).collect()
    }

    /// How long until the next one is due.
    pub fn wait(&self, now: i64) -> Option<Duration> {
        let (lease, ..) = self.0.first()?;
        Some(Duration::from_millis(u64::try_from(lease.saturating_sub(now)).unwrap_or(0)))
    }
}

/// How old and how large history is, in steps of a fraction of the limits.
pub(crate) struct History {
    steps: VecDeque<Step>,
    bytes: u64,
    age_max: Duration,
    bytes_max: u64,
}

struct Step {
    at: Instant,
    revision: Revision,
    bytes: u64,
}

/// The limits are kept to within one part in so many.
const STEPS: u32 = 30;

impl History {
    pub fn new(age_max: Duration, bytes_max: u64) -> Self {
        History { steps: VecDeque::new(), bytes: 0, age_max, bytes_max }
    }

    pub fn note(&mut self, now: Instant, revision: Revision, bytes: u64) {
        self.bytes += bytes;
        let step_bytes = self.bytes_max / u64::from(STEPS);
        match self.steps.back_mut() {
            Some(step) if now - step.at < self.age_max / STEPS && step.bytes + bytes <= step_bytes => {
                step.revision = revision;
                step.bytes += bytes;
            }
            _ => self.steps.push_back(Step { at: now, revision, bytes }),
        }
    }

    /// The revision to compact at now, if any.
    pub fn due(&mut self, now: Instant) -> Option<Revision> {
        let mut due = None;
        // A step lasts up to a fraction of the age, so its last revision is that much younger than its beginning.
        let age_max = self.age_max + self.age_max / STEPS;
        while let Some(step) = self.steps.front() {
            if now - step.at < age_max && self.bytes <= self.bytes_max {
                break;
            }
            self.bytes -= step.bytes;
            due = Some(step.revision);
            self.steps.pop_front();
        }
        due
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.steps.front().map(|step| step.at + self.age_max + self.age_max / STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_forgotten_by_age_and_by_size() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut history = History::new(second * 300, 3000);
        for n in 0..100u32 {
            history.note(start + second * n, i64::from(n), 1);
        }
        assert_eq!(history.due(start + second * 300), None);
        let due = history.due(start + second * 360).unwrap();
        // Everything up to revision 60 is older than 300 seconds, in steps of ten.
        assert!((50..=60).contains(&due), "{due}");
        history.note(start + second * 361, 500, 2990);
        let due = history.due(start + second * 361).unwrap();
        assert_eq!(due, 89, "just enough to be within the size");
        history.note(start + second * 362, 501, 5000);
        assert_eq!(history.due(start + second * 362), Some(501));
        assert_eq!(history.next_due(), None);
    }
}
