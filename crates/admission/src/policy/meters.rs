//! Metrics of policies, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

/// Seconds that an expression took.
const SECONDS: &[f64] = &[0.0000005, 0.001, 0.01, 0.1, 1.0];

pub struct PolicyMeters {
    checks: Family<Counter>,
    seconds: Family<Histogram>,
    mutations: Family<Counter>,
    mutation_seconds: Family<Histogram>,
}

impl Default for PolicyMeters {
    fn default() -> PolicyMeters {
        const CHECK: &[&str] = &["policy", "policy_binding", "error_type", "enforcement_action"];
        const MUTATION: &[&str] = &["policy", "policy_binding", "error_type"];
        PolicyMeters {
            checks: Family::new(
                "apiserver_validating_admission_policy_check_total",
                "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and \
                 enforcement action taken.",
                CHECK,
                Counter::default,
            ),
            seconds: Family::new(
                "apiserver_validating_admission_policy_check_duration_seconds",
                "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy \
                 and further including binding and enforcement action taken.",
                CHECK,
                || Histogram::new(SECONDS),
            ),
            mutations: Family::new(
                "apiserver_mutating_admission_policy_check_total",
                "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
                MUTATION,
                Counter::default,
            ),
            mutation_seconds: Family::new(
                "apiserver_mutating_admission_policy_check_duration_seconds",
                "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and \
                 binding.",
                MUTATION,
                || Histogram::new(SECONDS),
            ),
        }
    }
}

impl PolicyMeters {
    /// A validation did not hold or could not be evaluated: `action` is what became of it (allow, deny, audit, warn).
    pub fn checked(&self, policy: &str, binding: &str, message: &str, action: &str, took: Duration) {
        let labels = [policy, binding, error_type(Some(message)), action];
        self.checks.with(&labels).increment();
        self.seconds.with(&labels).observe(took.as_secs_f64());
    }

    /// A mutation was evaluated and applied; `error` is why it could not be.
    pub fn mutated(&self, policy: &str, binding: &str, error: Option<&str>, took: Duration) {
        let labels = [policy, binding, error_type(error)];
        self.mutations.with(&labels).increment();
        self.mutation_seconds.with(&labels).observe(took.as_secs_f64());
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.checks.write(out)?;
        self.seconds.write(out)?;
        self.mutations.write(out)?;
        self.mutation_seconds.write(out)
    }
}

/// The label `error_type`, which upstream tells from the beginning of the message.
fn error_type(message: Option<&str>) -> &'static str {
    match message {
        None => "no_error",
        Some(message) if message.starts_with("compilation") => "compile_error",
        Some(message) if message.starts_with("validation failed due to running out of cost budget") => "out_of_budget",
        Some(_) => "invalid_error",
    }
}
