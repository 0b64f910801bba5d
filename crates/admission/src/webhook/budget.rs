//! `--admission-webhook-ignore-budget`: webhooks with `failurePolicy: Ignore` cannot use up a request's time.
//!
//! Off by default, because upstream calls every webhook with its own timeout, however little time the request has left:
//! four webhooks that hang for ten seconds each fail a request although all of them say Ignore.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use object::Str;
use parking_lot::Mutex;

use super::configuration::Hook;
use crate::Attributes;

/// What is left of a request's time for the write itself.
const WRITE_RESERVE: Duration = Duration::from_secs(2);
/// A webhook that failed this often in a row is not called for a while.
const FAILURES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(10);
/// As many failing webhooks are remembered; more are called every time.
const REMEMBERED_MAX: usize = 4096;

/// Remembers webhooks with `failurePolicy: Ignore` that keep failing.
#[derive(Default)]
pub struct Breaker(Mutex<HashMap<Str, Failing>>);

struct Failing {
    in_a_row: u32,
    since: Instant,
}

impl Breaker {
    /// Whether a webhook failed so often that it is not called now.
    fn is_open(&self, hook: &Hook) -> bool {
        let failing = self.0.lock();
        failing.get(&hook.id).is_some_and(|failing| failing.in_a_row >= FAILURES_MAX && failing.since.elapsed() < PAUSE)
    }

    pub fn record(&self, hook: &Hook, failed: bool) {
        let mut failing = self.0.lock();
        if !failed {
            failing.remove(&hook.id);
        } else if let Some(known) = failing.get_mut(&hook.id) {
            *known = Failing { in_a_row: known.in_a_row.saturating_add(1), since: Instant::now() };
        } else if failing.len() < REMEMBERED_MAX {
            failing.insert(hook.id.clone(), Failing { in_a_row: 1, since: Instant::now() });
        }
    }
}

/// How much longer than the request a call may take, so that it is the request that runs out of time.
pub const GRACE: Duration = Duration::from_millis(200);

/// How long a webhook may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// What the webhook is told.
    pub told: Duration,
    pub waited: Duration,
}

/// How long a webhook may take: its own timeout within the request's deadline, and within the budget if there is one. Err
/// says why it is not called at all.
pub fn time_for(
    hook: &Hook,
    attributes: &Attributes<'_>,
    budget: Option<Duration>,
    breaker: &Breaker,
) -> Result<Time, String> {
    // The longest that a client of webhooks waits, where nothing is said.
    const LONGEST: Duration = Duration::from_secs(30);
    let left = attributes.deadline.map_or(LONGEST, |deadline| deadline.saturating_duration_since(Instant::now()));
    let own = hook.timeout.unwrap_or(LONGEST).min(left);
    let grace = if own == left { GRACE } else { Duration::ZERO };
    let Some(budget) = budget.filter(|_| hook.ignores_failures) else {
        return Ok(Time { told: own, waited: own + grace });
    };
    if breaker.is_open(hook) {
        let pause = PAUSE.as_secs();
        return Err(format!("it failed {FAILURES_MAX} times in a row and is not called again for {pause}s"));
    }
    let left = left.saturating_sub(WRITE_RESERVE).min(budget.saturating_sub(attributes.ignored_time()));
    if left.is_zero() {
        return Err("the time for webhooks with failurePolicy Ignore is used up".to_string());
    }
    let own = own.min(left);
    Ok(Time { told: own, waited: own })
}
