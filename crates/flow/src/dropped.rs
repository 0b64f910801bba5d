//! What `Retry-After` tells clients: longer while requests keep being refused, shorter when they stop.

use std::collections::VecDeque;

use hashbrown::HashMap;
use object::Str;
use parking_lot::Mutex;

const RETRY_AFTER_MAX: i64 = 32;

/// Refused requests of all levels.
#[derive(Default)]
pub struct Dropped(Mutex<HashMap<Str, History>>);

impl Dropped {
    /// Counts a refused request and says after how many seconds the client should try again.
    pub fn record(&self, level: &str, unix_seconds: i64) -> i64 {
        let mut levels = self.0.lock();
        let history = levels.entry_ref(level).or_default();
        history.record(unix_seconds);
        history.retry_after
    }

    pub fn forget(&self, level: &str) {
        self.0.lock().remove(level);
    }
}

/// Refused requests of one level by second, for at most [`RETRY_AFTER_MAX`] seconds.
struct History {
    seconds: VecDeque<(i64, i64)>,
    current: (i64, i64),
    retry_after: i64,
    raised_at: i64,
}

impl Default for History {
    fn default() -> History {
        History { seconds: VecDeque::new(), current: (0, 0), retry_after: 1, raised_at: 0 }
    }
}

impl History {
    fn record(&mut self, now: i64) {
        if self.current.0 == now {
            self.current.1 += 1;
            return;
        }
        let (ended, _) = self.current;
        self.seconds.push_back(self.current);
        let kept = (2 * self.retry_after).min(RETRY_AFTER_MAX);
        while self.seconds.front().is_some_and(|(second, _)| ended - second > kept) {
            self.seconds.pop_front();
        }
        self.current = (now, 1);
        self.adjust(now);
    }

    /// Doubles the time after many refusals, and takes a second off after few.
    fn adjust(&mut self, now: i64) {
        let recent = self.seconds.iter().filter(|(second, _)| *second < now && now - second <= self.retry_after);
        let dropped: i64 = recent.map(|(_, count)| count).sum();
        if now - self.raised_at >= self.retry_after && dropped >= 3 * self.retry_after {
            self.retry_after = (self.retry_after * 2).min(RETRY_AFTER_MAX);
            self.raised_at = now;
        } else if dropped < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_grows_with_refusals_and_shrinks_without() {
        let dropped = Dropped::default();
        let mut seen = Vec::new();
        for second in 1..=8 {
            for _ in 0..10 {
                dropped.record("level", second);
            }
            seen.push(dropped.record("level", second));
        }
        assert_eq!(seen, [1, 2, 2, 4, 4, 4, 4, 8]);
        for second in (40..80).step_by(5) {
            dropped.record("level", second);
        }
        assert_eq!(dropped.record("level", 80), 1);
        assert_eq!(dropped.record("other", 60), 1);
    }
}
