//! Subscribers behind decryption.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch as signal;

use super::store::Values;
use crate::watch::AbortOnDrop;
use crate::{Batch, Error, Subscriber, Subscription};

/// A subscriber whose subscription can be ended from elsewhere: it is called by one thread at a time, and never again
/// after its end.
pub(super) struct Gate {
    subscriber: Arc<dyn Subscriber>,
    ended: Mutex<bool>,
}

impl Gate {
    pub fn new(subscriber: Arc<dyn Subscriber>) -> Self {
        Gate { subscriber, ended: Mutex::new(false) }
    }

    fn pass(&self, batch: Result<&Batch, Error>) {
        let mut ended = self.ended.lock();
        match batch {
            _ if *ended => {}
            Ok(batch) => self.subscriber.apply(batch),
            Err(error) => {
                *ended = true;
                self.subscriber.end(error);
            }
        }
    }
}

impl Subscriber for Gate {
    fn apply(&self, batch: &Batch) {
        self.pass(Ok(batch));
    }

    fn end(&self, error: Error) {
        self.pass(Err(error));
    }
}

/// Decrypts within the commit. It cannot wait for a plugin; but what this process wrote, or has read before, needs none.
pub(super) struct Opening {
    pub values: Values,
    pub gate: Arc<Gate>,
}

impl Subscriber for Opening {
    fn apply(&self, batch: &Batch) {
        match self.values.open_batch_now(batch) {
            Ok(batch) => self.gate.apply(&batch),
            Err(error) => self.gate.end(error),
        }
    }

    fn end(&self, error: Error) {
        self.gate.end(error);
    }
}

/// Ends a subscription when other keys come into force, so that the subscriber lists again: what those before could not decrypt may be
/// readable now, and what the new ones cannot decrypt is not any more.
pub(super) fn end_with_keys(
    subscription: Subscription,
    gate: Arc<Gate>,
    mut generations: signal::Receiver<u64>,
) -> Subscription {
    let progress = subscription.progress().clone();
    let task = tokio::spawn(async move {
        if generations.changed().await.is_ok() {
            gate.end(Error::Unavailable("other keys are in force".into()));
        }
    });
    Subscription::new(progress, (subscription, AbortOnDrop(task.abort_handle())))
}
