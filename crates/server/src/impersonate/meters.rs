//! Metrics of impersonation, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

/// Seconds, doubling from a millisecond.
const SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];
const LABELS: &[&str] = &["mode", "decision"];

/// Attempts to impersonate, and the questions that they put to the authorizer.
pub struct ImpersonationMeters {
    attempts: Family<Counter>,
    attempt_seconds: Family<Histogram>,
    checks: Family<Counter>,
    check_seconds: Family<Histogram>,
}

impl Default for ImpersonationMeters {
    fn default() -> ImpersonationMeters {
        let seconds = || Histogram::new(SECONDS);
        ImpersonationMeters {
            attempts: Family::new(
                "apiserver_impersonation_attempts_total",
                "[ALPHA] Attempts to impersonate, by mode and decision.",
                LABELS,
                Counter::default,
            ),
            attempt_seconds: Family::new(
                "apiserver_impersonation_attempts_duration_seconds",
                "[ALPHA] How long attempts to impersonate took, by mode and decision.",
                LABELS,
                seconds,
            ),
            checks: Family::new(
                "apiserver_impersonation_authorization_attempts_total",
                "[ALPHA] Questions that impersonation put to the authorizer, by mode and decision.",
                LABELS,
                Counter::default,
            ),
            check_seconds: Family::new(
                "apiserver_impersonation_authorization_attempts_duration_seconds",
                "[ALPHA] How long the authorizer took to answer them, by mode and decision.",
                LABELS,
                seconds,
            ),
        }
    }
}

impl ImpersonationMeters {
    /// Counts an attempt; None is one that no mode allowed.
    pub(super) fn attempted(&self, mode: Option<&str>, took: Duration) {
        let labels = [mode.map_or("", shown), decision(mode.is_some())];
        self.attempts.with(&labels).increment();
        self.attempt_seconds.with(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn checked(&self, mode: &str, allowed: bool, took: Duration) {
        let labels = [shown(mode), decision(allowed)];
        self.checks.with(&labels).increment();
        self.check_seconds.with(&labels).observe(took.as_secs_f64());
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.attempts.write(out)?;
        self.attempt_seconds.write(out)?;
        self.checks.write(out)?;
        self.check_seconds.write(out)
    }
}

/// The mode with the plain verb has no name of its own.
fn shown(mode: &str) -> &str {
    if mode.is_empty() { "legacy" } else { mode }
}

fn decision(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}
