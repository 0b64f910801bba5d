//! Metrics of webhooks, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

/// Seconds a call took, up to what the longest timeout allows.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Larger codes are counted as this one.
const CODE_MAX: u16 = 600;

pub struct WebhookMeters {
    seconds: Family<Histogram>,
    rejections: Family<Counter>,
    failed_open: Family<Counter>,
    requests: Family<Counter>,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    CallingWebhook,
    Internal,
    None,
}

impl ErrorType {
    fn as_str(self) -> &'static str {
        match self {
            ErrorType::CallingWebhook => "calling_webhook_error",
            ErrorType::Internal => "apiserver_internal_error",
            ErrorType::None => "no_error",
        }
    }
}

impl Default for WebhookMeters {
    fn default() -> WebhookMeters {
        WebhookMeters {
            seconds: Family::new(
                "apiserver_admission_webhook_admission_duration_seconds",
                "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each \
                 operation and API resource and type (validate or admit).",
                &["name", "type", "operation", "rejected"],
                || Histogram::new(SECONDS),
            ),
            rejections: Family::new(
                "apiserver_admission_webhook_rejection_count",
                "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type \
                 (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or \
                 apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection \
                 code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the \
                 code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics \
                 cardinality bounded.",
                &["name", "type", "operation", "error_type", "rejection_code"],
                Counter::default,
            ),
            failed_open: Family::new(
                "apiserver_admission_webhook_fail_open_count",
                "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type \
                 (validating or admit).",
                &["name", "type"],
                Counter::default,
            ),
            requests: Family::new(
                "apiserver_admission_webhook_request_total",
                "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type \
                 (validating or admit) and operation. Additional labels specify whether the request was rejected or not \
                 and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality \
                 bounded.",
                &["name", "type", "operation", "code", "rejected"],
                Counter::default,
            ),
        }
    }
}

impl WebhookMeters {
    /// A call was made, with this code.
    pub fn called(&self, hook: &str, step: &str, operation: &str, took: Duration, rejected: bool, code: u16) {
        let (code, rejected) = (code.min(CODE_MAX).to_string(), if rejected { "true" } else { "false" });
        self.requests.with(&[hook, step, operation, &code, rejected]).increment();
        self.seconds.with(&[hook, step, operation, rejected]).observe(took.as_secs_f64());
    }

    pub fn rejected(&self, hook: &str, step: &str, operation: &str, why: ErrorType, code: u16) {
        let code = code.min(CODE_MAX).to_string();
        self.rejections.with(&[hook, step, operation, why.as_str(), &code]).increment();
    }

    pub fn failed_open(&self, hook: &str, step: &str) {
        self.failed_open.with(&[hook, step]).increment();
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.seconds.write(out)?;
        for family in [&self.rejections, &self.failed_open, &self.requests] {
            family.write(out)?;
        }
        Ok(())
    }
}
