//! [`AccountMeters`]: service account tokens that were looked at, under upstream's names.

use metrics::{Counter, head};

/// Counts tokens when they are looked at: those that the cache of tokens knows are not.
#[derive(Default)]
pub struct AccountMeters {
    /// Without an audience.
    pub(super) legacy: Counter,
    /// Bound ones, used in time.
    pub(super) valid: Counter,
    /// Bound ones whose pod should have fetched a newer one.
    pub(super) stale: Counter,
    /// Of secrets that a controller made.
    pub(super) auto: Counter,
    /// Of secrets that a user made.
    pub(super) manual: Counter,
    /// Of secrets that are marked invalid.
    pub(super) invalidated: Counter,
}

impl AccountMeters {
    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        for (name, help, counter) in [
            (
                "serviceaccount_invalid_legacy_auto_token_uses_total",
                "[ALPHA] Cumulative invalid auto-generated legacy tokens used",
                &self.invalidated,
            ),
            (
                "serviceaccount_legacy_auto_token_uses_total",
                "[ALPHA] Cumulative auto-generated legacy tokens used",
                &self.auto,
            ),
            (
                "serviceaccount_legacy_manual_token_uses_total",
                "[ALPHA] Cumulative manually created legacy tokens used",
                &self.manual,
            ),
            (
                "serviceaccount_legacy_tokens_total",
                "[ALPHA] Cumulative legacy service account tokens used",
                &self.legacy,
            ),
            (
                "serviceaccount_stale_tokens_total",
                "[ALPHA] Cumulative stale projected service account tokens used",
                &self.stale,
            ),
            (
                "serviceaccount_valid_tokens_total",
                "[ALPHA] Cumulative valid projected service account tokens used",
                &self.valid,
            ),
        ] {
            head(out, name, "counter", help)?;
            metrics::Metric::write(counter, name, "", out)?;
        }
        Ok(())
    }
}
