//! Authorization: how often it was decided, how it ended and how long it took.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Histogram, head};

/// Upstream's buckets: fifteen, each twice the one before.
const SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

/// The decisions of authorizers.
#[derive(Default)]
pub struct Authorization {
    allowed: Outcome,
    denied: Outcome,
}

struct Outcome {
    count: AtomicU64,
    seconds: Histogram,
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome { count: AtomicU64::new(0), seconds: Histogram::new(SECONDS) }
    }
}

impl Authorization {
    pub fn decided(&self, allowed: bool, took: Duration) {
        let outcome = if allowed { &self.allowed } else { &self.denied };
        outcome.count.fetch_add(1, Ordering::Relaxed);
        outcome.seconds.observe(took.as_secs_f64());
    }

    pub(super) fn write(&self, out: &mut String) -> std::fmt::Result {
        let outcomes = [("allowed", &self.allowed), ("denied", &self.denied)];
        let seen = |(_, outcome): &&(&str, &Outcome)| outcome.count.load(Ordering::Relaxed) > 0;
        let name = "authorization_attempts_total";
        head(out, name, "counter", "Decisions by their result.")?;
        for (result, outcome) in outcomes.iter().filter(seen) {
            writeln!(out, "{name}{{result=\"{result}\"}} {}", outcome.count.load(Ordering::Relaxed))?;
        }
        let name = "authorization_duration_seconds";
        head(out, name, "histogram", "How long decisions took, by their result.")?;
        for (result, outcome) in outcomes.iter().filter(seen) {
            outcome.seconds.write(name, &format!("result=\"{result}\""), out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_by_outcome() {
        let authorization = Authorization::default();
        authorization.decided(true, Duration::from_micros(5));
        authorization.decided(true, Duration::from_micros(5));
        let mut out = String::new();
        authorization.write(&mut out).unwrap();
        for line in [
            "authorization_attempts_total{result=\"allowed\"} 2",
            "authorization_duration_seconds_count{result=\"allowed\"} 2",
        ] {
            assert!(out.lines().any(|written| written == line), "{line} is not in\n{out}");
        }
        assert!(!out.contains("denied"));
    }
}
