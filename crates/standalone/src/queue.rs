//! A queue of things to look at: each is in it at most once, so it never holds more than there are things.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use std::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(10);

pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: std::collections::VecDeque<K>,
    waiting: HashSet<K>,
    /// By time, and a number that keeps equal times apart.
    later: BTreeMap<(Instant, u64), K>,
    retries: HashMap<K, u32>,
    counter: u64,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub fn new() -> Queue<K> {
        let state = State {
            ready: Default::default(),
            waiting: HashSet::new(),
            later: BTreeMap::new(),
            retries: HashMap::new(),
            counter: 0,
        };
        Queue { state: Mutex::new(state), changed: Notify::new() }
    }

    pub fn add(&self, key: K) {
        self.with(|state| state.add(key));
        self.changed.notify_one();
    }

    /// Looks at something when it has been asked for no more for so long.
    pub fn after(&self, quiet: Duration, key: K) {
        self.with(|state| {
            state.later.retain(|_, waiting| *waiting != key);
            state.counter += 1;
            let due = (Instant::now() + quiet, state.counter);
            state.later.insert(due, key);
        });
        self.changed.notify_one();
    }

    /// Comes back to something that could not be finished, later each time.
    pub fn retry(&self, key: K) {
        self.with(|state| {
            let tries = state.retries.entry(key.clone()).or_insert(0);
            let pause = FIRST_RETRY.saturating_mul(1 << (*tries).min(16)).min(LAST_RETRY);
            *tries += 1;
            state.counter += 1;
            let due = (Instant::now() + pause, state.counter);
            state.later.insert(due, key);
        });
        self.changed.notify_one();
    }

    /// It went well: the next failure is the first again.
    pub fn forget(&self, key: &K) {
        self.with(|state| state.retries.remove(key));
    }

    /// The next thing to look at.
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let (ready, due) = self.with(|state| {
                state.promote(Instant::now());
                let ready = state.ready.pop_front();
                if let Some(key) = &ready {
                    state.waiting.remove(key);
                }
                (ready, state.later.keys().next().map(|(due, _)| *due))
            });
            match (ready, due) {
                (Some(key), _) => return key,
                (None, None) => changed.await,
                (None, Some(due)) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State<K>) -> T) -> T {
        // A poisoned lock means that a bug ended another task; the queue itself is never left half changed.
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn promote(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_again_waits_again() {
        let (queue, began, quiet) = (Queue::new(), Instant::now(), Duration::from_millis(100));
        queue.after(quiet, "a");
        tokio::time::sleep(Duration::from_millis(60)).await;
        queue.after(quiet, "a");
        assert_eq!((queue.next().await, began.elapsed().as_millis()), ("a", 160));
        queue.add("b");
        assert_eq!(queue.next().await, "b");
    }

    #[tokio::test(start_paused = true)]
    async fn things_come_once_and_failures_come_back_later() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
        let began = Instant::now();
        queue.retry("a");
        assert_eq!(queue.next().await, "a");
        queue.retry("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(began.elapsed().as_millis(), 60);
        queue.forget(&"a");
        queue.retry("a");
        queue.add("c");
        assert_eq!((queue.next().await, queue.next().await), ("c", "a"));
    }
}
