//! Following changes: by polling a stream, or by being called.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::{Stream, StreamExt};
use tokio::sync::Notify;

use crate::{Entry, Error, Key, KeyRange, Result, Revision};

/// Batches in order; ends after the first error.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<Batch>> + Send>>;

/// Which changes to deliver, and how.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// The keys.
    pub range: KeyRange,
    /// Deliver changes with greater revisions than this; none means those after now.
    pub after: Option<Revision>,
    /// Events carry the entry they replaced. Without it they may or may not.
    pub previous: bool,
    /// Deliver progress marks.
    pub marks: bool,
}

impl WatchRequest {
    /// Everything a cache needs: the changes after `after`, with previous entries and marks.
    pub fn after(range: KeyRange, after: Revision) -> Self {
        WatchRequest { range, after: Some(after), previous: true, marks: true }
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// The key that changed.
    pub key: Key,
    /// The entry after the change; none if the key was deleted or has expired.
    pub entry: Option<Arc<Entry>>,
    /// The entry before the change; none if the key was created.
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    /// Whether the change created the key.
    pub fn is_create(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.create_revision == entry.mod_revision)
    }

    /// Whether the change removed the key.
    pub fn is_delete(&self) -> bool {
        self.entry.is_none()
    }
}

/// Changes that are delivered together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of revision; shared by all watchers that see them.
    pub events: Vec<Arc<Event>>,
    /// Everything up to here has been delivered.
    pub revision: Revision,
}

/// Receives changes by being called. See the crate's documentation for what it may do.
pub trait Subscriber: Send + Sync + 'static {
    /// Called in order, never by two threads at once, when there are events; how far it got otherwise is told by
    /// [`Subscription::progress`].
    fn apply(&self, batch: &Batch);

    /// The subscription is over; nothing else will be called. To go on, list again and subscribe again.
    fn end(&self, error: Error);
}

/// How far subscribers have been told: a revision that moves after they were called. An engine that calls all of them in
/// one go has one for all, so that subscribers without events cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    told: Arc<Told>,
}

#[derive(Debug, Default)]
struct Told {
    revision: AtomicI64,
    moved: Notify,
}

impl Progress {
    /// Progress that begins at this revision.
    pub fn at(revision: Revision) -> Self {
        let progress = Progress::default();
        progress.advance(revision);
        progress
    }

    /// The revision up to which all subscribers have been told.
    pub fn revision(&self) -> Revision {
        self.told.revision.load(Ordering::Acquire)
    }

    /// Notes that all subscribers have been told everything up to here.
    pub fn advance(&self, revision: Revision) {
        self.told.revision.fetch_max(revision, Ordering::AcqRel);
        self.told.moved.notify_waiters();
    }

    /// Returns when it has reached `revision`.
    pub async fn reach(&self, revision: Revision) {
        loop {
            // Listens before it looks, so that no step is missed.
            let mut moved = pin!(self.told.moved.notified());
            moved.as_mut().enable();
            if self.revision() >= revision {
                return;
            }
            moved.await;
        }
    }
}

/// Keeps a subscription alive; dropping it ends it without `Subscriber::end`. A call that is under way finishes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    progress: Progress,
    _cancel: Box<dyn Send + Sync>,
}

impl Subscription {
    /// `cancel` ends the subscription when it is dropped.
    pub fn new(progress: Progress, cancel: impl Send + Sync + 'static) -> Self {
        Subscription { progress, _cancel: Box::new(cancel) }
    }

    /// How far the subscriber has been told. It means nothing any more once `Subscriber::end` was called.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Feeds a subscriber from a watch, in a task of its own.
    pub fn over(mut stream: WatchStream, subscriber: Arc<dyn Subscriber>) -> Self {
        let progress = Progress::default();
        let told = progress.clone();
        let task = tokio::spawn(async move {
            loop {
                match stream.next().await {
                    Some(Ok(batch)) => {
                        if !batch.events.is_empty() {
                            subscriber.apply(&batch);
                        }
                        told.advance(batch.revision);
                    }
                    Some(Err(error)) => return subscriber.end(error),
                    None => return subscriber.end(Error::Unavailable("the watch ended".into())),
                }
            }
        });
        Subscription::new(progress, AbortOnDrop(task.abort_handle()))
    }
}

pub(crate) struct AbortOnDrop(pub tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
