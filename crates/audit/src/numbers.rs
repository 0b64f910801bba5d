//! The metrics of the audit log, under upstream's names.

use metrics::{Counter, Family};

use crate::policy::Level;

pub struct Numbers {
    events: Family<Counter>,
    errors: Family<Counter>,
    rejected: Family<Counter>,
    levels: Family<Counter>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        let counter = |name, help, labels| Family::new(name, help, labels, Counter::default);
        Numbers {
            events: counter("apiserver_audit_event_total", "Audit events generated.", &[]),
            errors: counter("apiserver_audit_error_total", "Audit events that could not be stored.", &["plugin"]),
            rejected: counter(
                "apiserver_audit_requests_rejected_total",
                "Requests that failed because their audit event could not be stored.",
                &[],
            ),
            levels: counter(
                "apiserver_audit_level_total",
                "Requests by the level at which they are audited.",
                &["level"],
            ),
        }
    }
}

impl Numbers {
    pub fn event(&self) {
        self.events.with(&[]).increment();
    }

    /// Counts events that a plugin could not store, and says why in the log.
    pub fn error(&self, plugin: &str, events: usize, why: &dyn std::fmt::Display) {
        self.errors.with(&[plugin]).add(events as u64);
        tracing::error!(plugin, events, "audit events are lost: {why}");
    }

    pub fn request_rejected(&self) {
        self.rejected.with(&[]).increment();
    }

    pub fn level(&self, level: Level) {
        self.levels.with(&[level.as_str()]).increment();
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        [&self.events, &self.errors, &self.rejected, &self.levels].into_iter().try_for_each(|family| family.write(out))
    }
}
