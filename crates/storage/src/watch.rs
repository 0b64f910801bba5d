//! Following changes: by polling a stream, or by being called.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};

use crate::{Entry, Error, Key, KeyRange, Result, Revision};

/// Batches in order; ends after the first error.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<Batch>> + Send>>;

#[derive(Clone, Debug)]
pub struct WatchRequest {
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
    pub revision: Revision,
    pub key: Key,
    /// The entry after the change; none if the key was deleted or has expired.
    pub entry: Option<Arc<Entry>>,
    /// The entry before the change; none if the key was created.
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    pub fn is_create(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.create_revision == entry.mod_revision)
    }

    pub fn is_delete(&self) -> bool {
        self.entry.is_none()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of revision; shared by all watchers that see them.
    pub events: Vec<Arc<Event>>,
    /// Everything up to here has been delivered.
    pub revision: Revision,
}

/// Somebody who is told of changes. See the crate's documentation for what it may do.
pub trait Subscriber: Send + Sync + 'static {
    /// Called in order, never by two threads at once. Batches without events report progress.
    fn apply(&self, batch: &Batch);

    /// The subscription is over; nothing else will be called. To go on, list again and subscribe again.
    fn end(&self, error: Error);
}

/// Keeps a subscription alive; dropping it ends it without `Subscriber::end`. A call that is under way finishes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    _cancel: Box<dyn Send + Sync>,
}

impl Subscription {
    /// `cancel` ends the subscription when it is dropped.
    pub fn new(cancel: impl Send + Sync + 'static) -> Self {
        Subscription { _cancel: Box::new(cancel) }
    }

    /// Feeds a subscriber from a watch, in a task of its own.
    pub fn over(mut stream: WatchStream, subscriber: Arc<dyn Subscriber>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                match stream.next().await {
                    Some(Ok(batch)) => subscriber.apply(&batch),
                    Some(Err(error)) => return subscriber.end(error),
                    None => return subscriber.end(Error::Unavailable("the watch ended".into())),
                }
            }
        });
        Subscription::new(AbortOnDrop(task.abort_handle()))
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
