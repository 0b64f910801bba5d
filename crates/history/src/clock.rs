//! The time, which administrators and time servers set while we run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use object::{Clock as _, SystemClock};
use parking_lot::Mutex;

/// The time of day in milliseconds since 1970, and a clock that is never set.
#[derive(Clone)]
pub struct Clock {
    /// The time of day.
    pub now: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// How long something runs.
    pub elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Default for Clock {
    fn default() -> Clock {
        let start = Instant::now();
        let now = || {
            let now = SystemClock.now();
            now.secs * 1000 + i64::from(now.nanos / 1_000_000)
        };
        Clock { now: Arc::new(now), elapsed: Arc::new(move || start.elapsed()) }
    }
}

/// How far the two clocks may differ before we say that the time was set.
const JUMP: i64 = 60_000;
/// How long nothing is deleted because of its age after the time was set.
const HOLD: Duration = Duration::from_secs(3600);

/// Notices that the time was set. A clock that is wrong for a moment must not make everything look old.
pub(crate) struct JumpGuard {
    clock: Clock,
    last: Mutex<Last>,
}

struct Last {
    now: i64,
    elapsed: Duration,
    held_until: Duration,
}

impl JumpGuard {
    /// `newest` is the time of the newest recorded change; if the clock is far from it, it may be wrong.
    pub fn new(clock: Clock, newest: Option<i64>, age: Duration) -> JumpGuard {
        let (now, elapsed) = ((clock.now)(), (clock.elapsed)());
        let is_far = newest.is_some_and(|newest| newest > now + JUMP || now - newest > millis(age));
        let held_until = if is_far { elapsed + HOLD } else { Duration::ZERO };
        JumpGuard { clock, last: Mutex::new(Last { now, elapsed, held_until }) }
    }

    /// The time, if it may be believed when something is deleted because of its age.
    pub fn trusted_now(&self) -> Option<i64> {
        let (now, elapsed) = ((self.clock.now)(), (self.clock.elapsed)());
        let mut last = self.last.lock();
        let passed = millis(elapsed.saturating_sub(last.elapsed));
        let jumped = (now - last.now) - passed;
        if jumped.abs() > JUMP {
            last.held_until = elapsed + HOLD;
            tracing::warn!(
                seconds = jumped / 1000,
                "the clock was set; no history is deleted because of its age for an hour"
            );
        }
        (last.now, last.elapsed) = (now, elapsed);
        (elapsed >= last.held_until).then_some(now)
    }
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Steps of (milliseconds that pass, milliseconds by which the clock is set), and whether it is believed afterwards.
    fn check(newest: Option<i64>, steps: &[(i64, i64, bool)]) {
        let (time, ran) = (Arc::new(AtomicI64::new(1_000_000_000)), Arc::new(AtomicI64::new(0)));
        let (now, elapsed) = (time.clone(), ran.clone());
        let clock = Clock {
            now: Arc::new(move || now.load(Ordering::Relaxed)),
            elapsed: Arc::new(move || Duration::from_millis(elapsed.load(Ordering::Relaxed) as u64)),
        };
        let guard = JumpGuard::new(clock, newest, Duration::from_secs(86_400));
        for (step, (pass, set, believed)) in steps.iter().enumerate() {
            time.fetch_add(pass + set, Ordering::Relaxed);
            ran.fetch_add(*pass, Ordering::Relaxed);
            assert_eq!(guard.trusted_now().is_some(), *believed, "step {step}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_not_believed_for_an_hour() {
        const HOUR: i64 = 3_600_000;
        check(None, &[(1000, 0, true), (HOUR, 0, true)]);
        check(None, &[(1000, 50, true), (1000, 400 * HOUR, false), (HOUR - 1, 0, false), (1, 0, true)]);
        check(None, &[(1000, -2 * HOUR, false), (HOUR, 2 * HOUR, false), (HOUR, 0, true)]);
        check(Some(1_000_000_000 + HOUR), &[(1, 0, false), (HOUR, 0, true)]);
        check(Some(1_000_000_000 - 25 * HOUR), &[(1, 0, false), (HOUR, 0, true)]);
        check(Some(1_000_000_000 - 23 * HOUR), &[(1, 0, true)]);
    }
}
