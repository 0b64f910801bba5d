//! Metrics of conversion webhooks, under upstream's names, and of conversion by rules.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

use super::webhook::Failure;

/// Seconds a call took.
const CALL_SECONDS: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// Seconds a conversion took: doubling from a millisecond.
const CONVERSION_SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

/// Seconds a conversion by rules took: from a microsecond.
const RULES_SECONDS: &[f64] = &[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 0.1, 1.0];

pub struct ConversionMeters {
    requests: Family<Counter>,
    calls: Family<Histogram>,
    conversions: Family<Histogram>,
    rules: Family<Histogram>,
}

impl Default for ConversionMeters {
    fn default() -> ConversionMeters {
        ConversionMeters {
            requests: Family::new(
                "apiserver_conversion_webhook_request_total",
                "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
                &["result", "failure_type"],
                Counter::default,
            ),
            calls: Family::new(
                "apiserver_conversion_webhook_duration_seconds",
                "[ALPHA] Conversion webhook request latency",
                &["result", "failure_type"],
                || Histogram::new(CALL_SECONDS),
            ),
            conversions: Family::new(
                "apiserver_crd_conversion_webhook_duration_seconds",
                "[ALPHA] CRD webhook conversion duration in seconds",
                &["crd_name", "from_version", "to_version", "succeeded"],
                || Histogram::new(CONVERSION_SECONDS),
            ),
            rules: Family::new(
                "ferrokube_crd_conversion_rules_duration_seconds",
                "Time to convert a custom resource by the rules of its definition.",
                &["crd_name", "from_version", "to_version", "succeeded"],
                || Histogram::new(RULES_SECONDS),
            ),
        }
    }
}

impl ConversionMeters {
    /// Counts one call of the webhook of a definition.
    pub fn record(&self, definition: &str, from: &str, to: &str, outcome: Result<(), Failure>, took: Duration) {
        let labels = match outcome {
            Ok(()) => ["success", ""],
            Err(failure) => ["failure", failure.as_str()],
        };
        let seconds = took.as_secs_f64();
        self.requests.with(&labels).increment();
        self.calls.with(&labels).observe(seconds);
        let succeeded = if outcome.is_ok() { "true" } else { "false" };
        self.conversions.with(&[definition, from, to, succeeded]).observe(seconds);
    }

    /// Counts the conversion of one object by rules.
    pub fn record_rules(&self, definition: &str, from: &str, to: &str, succeeded: bool, took: Duration) {
        let succeeded = if succeeded { "true" } else { "false" };
        self.rules.with(&[definition, from, to, succeeded]).observe(took.as_secs_f64());
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.requests.write(out)?;
        self.calls.write(out)?;
        self.conversions.write(out)?;
        self.rules.write(out)
    }
}
