//! When commits fail: writes are refused with an error, reads go on, and writes resume when the disk works again.
//!
//! If both files of the write-ahead log fail, the group may or may not be on disk, and its callers are told that. If there
//! is no room because the database cannot be written, nothing was written, and they are told that. Until a file of the
//! write-ahead log can be begun anew, which makes undone whatever may be there, writes are refused with the reason.

use std::time::Instant;

use storage::Error;

use crate::notifier::answer;
use crate::options::{RETRY_MAX, RETRY_MIN};
use crate::wal::WalError;
use crate::writer::{Group, Writer};

pub(crate) struct Outage {
    pub reason: String,
    pub retry_at: Instant,
}

/// A group was not committed.
pub(crate) fn refuse(writer: &mut Writer, mut group: Group, error: Error) {
    let reason = match &error {
        Error::OutcomeUnknown(reason) | Error::Unavailable(reason) => reason.clone(),
        other => other.to_string(),
    };
    tracing::error!(%reason, changes = group.events.len(), "cannot commit");
    for answer in &mut group.answers {
        answer.fail(error.clone());
    }
    answer(group.answers);
    begin(writer, reason);
}

fn begin(writer: &mut Writer, reason: String) {
    *writer.shared.outage.lock() = Some(reason.clone());
    let wait = RETRY_MIN.saturating_mul(1 << writer.failures.min(16)).min(RETRY_MAX);
    writer.failures += 1;
    writer.outage = Some(Outage { reason, retry_at: Instant::now() + wait });
}

impl Writer {
    /// Ends the outage if the disk works again.
    pub(crate) fn try_again_if_due(&mut self) {
        let Some(outage) = self.outage.take_if(|outage| outage.retry_at <= Instant::now()) else { return };
        let checkpointed = self.shared.checkpoint.revision();
        match self.wal.restart(self.shared.revision(), checkpointed) {
            Ok(()) => {
                tracing::info!("commits work again");
                *self.shared.outage.lock() = None;
            }
            Err(WalError::Io(reason)) => begin(self, reason),
            // There is room when the database can be written again.
            Err(WalError::Full) => begin(self, self.shared.checkpoint.failure().unwrap_or(outage.reason)),
        }
    }
}
