//! When the disk fails: nothing acknowledged is lost, reads go on, and writes come back when the disk does.
//!
//! redb cannot be used after a failed commit, and the commit may or may not have reached the disk. So the file is opened
//! again at once, which tells whether the group is in it. If that fails too, its callers hear that the outcome is
//! unknown, and the group is kept until the file can be read. Until a small test commit works, writes are refused with
//! the reason, without touching the disk; the writer thread tries by itself, at growing intervals.

use std::sync::Arc;
use std::time::Instant;

use storage::{Error, Event, Health};

use crate::disk::{Durable, Failure};
use crate::options::{RETRY_MAX, RETRY_MIN};
use crate::writer::{Group, Writer, answer};

pub(crate) struct Outage {
    pub reason: String,
    pub retry_at: Instant,
    /// Changes of a commit that failed late: the file will tell whether they happened.
    unresolved: Vec<Arc<Event>>,
    /// The file could not be opened again, or failed again since.
    needs_reopen: bool,
}

/// A commit has failed.
pub(crate) fn begin(writer: &mut Writer, mut group: Group, failure: Failure) {
    let reason = failure.message;
    tracing::error!(%reason, changes = group.events.len(), "cannot write to the store's file");
    writer.state = (**writer.shared.state.load()).clone();
    let mut outage = Outage { reason, retry_at: retry_at(writer), unresolved: Vec::new(), needs_reopen: true };
    writer.failures += 1;
    *writer.shared.health.lock() = Health::Degraded(outage.reason.clone());

    let reopened = writer.shared.disk.reopen();
    outage.needs_reopen = reopened.is_err();
    if let Ok(durable) = &reopened {
        writer.follow(durable);
    }
    let happened = match (&reopened, group.events.last()) {
        (Ok(durable), Some(last)) => Some(durable.revision >= last.revision),
        (Err(_), _) if failure.may_be_durable => None,
        _ => Some(false),
    };
    match happened {
        Some(false) => refuse(&mut group, || Error::Unavailable(outage.reason.clone())),
        // It is in the file, but only a later successful sync proves that it is on the disk.
        Some(true) if writer.shared.disk.probe(writer.state.revision).is_ok() => {
            adopt(writer, group);
            *writer.shared.health.lock() = Health::Healthy;
            return;
        }
        Some(true) | None => {
            outage.needs_reopen = true;
            outage.unresolved = std::mem::take(&mut group.events);
            refuse(&mut group, || Error::OutcomeUnknown(outage.reason.clone()));
        }
    }
    answer(std::mem::take(&mut group.answers));
    writer.outage = Some(outage);
}

impl Writer {
    /// Ends the outage if the disk works again.
    pub(crate) fn try_again_if_due(&mut self) {
        let Some(mut outage) = self.outage.take_if(|outage| outage.retry_at <= Instant::now()) else { return };
        match self.try_again(&mut outage) {
            Ok(()) => {
                tracing::info!("the store's file can be written again");
                *self.shared.health.lock() = Health::Healthy;
            }
            Err(reason) => {
                outage.retry_at = retry_at(self);
                outage.needs_reopen = true;
                outage.reason = reason.clone();
                *self.shared.health.lock() = Health::Degraded(reason);
                self.failures += 1;
                self.outage = Some(outage);
            }
        }
    }

    fn try_again(&mut self, outage: &mut Outage) -> Result<(), String> {
        let mut last_revision = None;
        if outage.needs_reopen {
            let durable = self.shared.disk.reopen()?;
            self.follow(&durable);
            last_revision = Some(durable.revision);
        }
        self.shared.disk.probe(self.state.revision).map_err(|failure| failure.message)?;
        let events = std::mem::take(&mut outage.unresolved);
        if let (Some(durable), Some(last)) = (last_revision, events.last())
            && durable >= last.revision
        {
            adopt(self, Group { events, ..Group::default() });
        }
        Ok(())
    }

    /// A failed commit may also have carried compaction further than we know.
    fn follow(&mut self, durable: &Durable) {
        self.folded = durable.folded;
        self.is_folded = false;
        self.state.compacted = self.state.compacted.max(durable.compacted);
        let gone = self.state.versions.iter().filter(|version| version.until <= durable.folded);
        let gone: Vec<_> = gone.map(|version| (version.key.clone(), version.revision)).collect();
        for (key, revision) in gone {
            self.state.versions.remove((&key, revision));
        }
        self.shared.state.store(Arc::new(self.state.clone()));
    }
}

/// A group whose commit failed turned out to be in the file.
fn adopt(writer: &mut Writer, group: Group) {
    tracing::warn!(changes = group.events.len(), "a commit that failed has reached the disk");
    for event in &group.events {
        writer.state.apply(event);
    }
    writer.publish(group);
}

fn refuse(group: &mut Group, error: impl Fn() -> Error) {
    for (_, answer) in &mut group.answers {
        *answer = Err(error());
    }
}

fn retry_at(writer: &Writer) -> Instant {
    let wait = RETRY_MIN.saturating_mul(1 << writer.failures.min(16)).min(RETRY_MAX);
    Instant::now() + wait
}
