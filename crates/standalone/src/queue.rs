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
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

/// The queue without the waiting: what is asked of it, with the time, and what comes of it.
struct QueueState<K> {
    ready: std::collections::VecDeque<K>,
    waiting: HashSet<K>,
    /// By time, and a number that keeps equal times apart.
    later: BTreeMap<(Instant, u64), K>,
    retries: HashMap<K, u32>,
    counter: u64,
}

/// The next thing, or when there is one.
#[derive(Debug, PartialEq, Eq)]
enum NextKey<K> {
    Ready(K),
    At(Instant),
    Nothing,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub fn new() -> Queue<K> {
        Queue { state: Mutex::new(QueueState::new()), changed: Notify::new() }
    }

    pub fn add(&self, key: K) {
        self.with(|state| state.add(key));
        self.changed.notify_one();
    }

    /// Looks at something when it has been asked for no more for so long.
    pub fn after(&self, quiet: Duration, key: K) {
        self.with(|state| state.after(Instant::now() + quiet, key));
        self.changed.notify_one();
    }

    /// Comes back to something that could not be finished, later each time.
    pub fn retry(&self, key: K) {
        self.with(|state| state.retry(Instant::now(), key));
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
            match self.with(|state| state.step(Instant::now())) {
                NextKey::Ready(key) => return key,
                NextKey::Nothing => changed.await,
                NextKey::At(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut QueueState<K>) -> T) -> T {
        // A poisoned lock means that a bug ended another task; the queue itself is never left half changed.
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    fn new() -> QueueState<K> {
        QueueState {
            ready: Default::default(),
            waiting: HashSet::new(),
            later: BTreeMap::new(),
            retries: HashMap::new(),
            counter: 0,
        }
    }

    /// Something is due at a time, and not before.
    fn after(&mut self, due: Instant, key: K) {
        self.later.retain(|_, waiting| *waiting != key);
        self.counter += 1;
        self.later.insert((due, self.counter), key);
    }

    fn retry(&mut self, now: Instant, key: K) {
        let tries = self.retries.entry(key.clone()).or_insert(0);
        let pause = FIRST_RETRY.saturating_mul(1 << (*tries).min(16)).min(LAST_RETRY);
        *tries += 1;
        self.counter += 1;
        self.later.insert((now + pause, self.counter), key);
    }

    /// Takes the next thing that is due.
    fn step(&mut self, now: Instant) -> NextKey<K> {
        self.promote(now);
        match (self.ready.pop_front(), self.later.keys().next()) {
            (Some(key), _) => {
                self.waiting.remove(&key);
                NextKey::Ready(key)
            }
            (None, Some((due, _))) => NextKey::At(*due),
            (None, None) => NextKey::Nothing,
        }
    }

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

    /// `20 add a`: at 20 ms something is asked for. `20 quiet a`: it is to be looked at after 100 ms of quiet. `20 retry a`: it failed. `20 done a`: it went well.
    /// `20 next`: the next thing is taken, and what comes of it is noted.
    #[test]
    fn what_comes_next_follows_from_what_was_asked_and_when() {
        for (events, expected) in [
            ("0 next", "-"),
            ("0 add a, 0 add b, 0 add a, 1 next, 1 next, 1 next", "a b -"),
            // What is asked for again while it is worked on comes again.
            ("0 add a, 1 next, 2 add a, 3 next, 4 next", "a a -"),
            ("0 quiet a, 50 next, 60 quiet a, 110 next, 160 next", "@100 @160 a"),
            ("0 quiet a, 0 quiet b, 100 next, 100 next, 100 next", "a b -"),
            // What is asked for at once does not wait until it is quiet, and comes again then.
            ("0 quiet a, 10 add a, 10 next, 10 next, 100 next", "a @100 a"),
            ("0 retry a, 0 next, 20 next, 20 retry a, 59 next, 60 next", "@20 a @60 a"),
            ("0 retry a, 20 next, 20 done a, 20 retry a, 40 next", "a a"),
            // A failure of one thing does not hold up the others.
            ("0 retry a, 1 add b, 1 next, 1 next, 20 next", "b @20 a"),
            ("0 retry a, 5 add a, 5 next, 5 next, 20 next, 20 next", "a @20 a -"),
            ("0 retry a, 0 retry b, 20 next, 20 next", "a b"),
            // Time that was set back, as between two clocks: nothing comes early.
            ("50 quiet a, 0 next, 150 next", "@150 a"),
        ] {
            let (mut state, began) = (QueueState::new(), Instant::now());
            let mut came = Vec::new();
            for event in events.split(", ") {
                let mut words = event.split(' ');
                let now = began + Duration::from_millis(words.next().unwrap().parse().unwrap());
                match (words.next().unwrap(), words.next().unwrap_or_default()) {
                    ("add", key) => state.add(key),
                    ("quiet", key) => state.after(now + Duration::from_millis(100), key),
                    ("retry", key) => state.retry(now, key),
                    ("done", key) => _ = state.retries.remove(key),
                    _ => came.push(match state.step(now) {
                        NextKey::Ready(key) => key.to_string(),
                        NextKey::At(due) => format!("@{}", due.duration_since(began).as_millis()),
                        NextKey::Nothing => "-".to_string(),
                    }),
                }
            }
            assert_eq!(came.join(" "), expected, "{events}");
        }
    }

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
