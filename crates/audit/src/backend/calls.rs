//! [`Calls`]: deliveries of events side by side, so many at the most, for backends that hand them to something slow.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Batch, Done, Output};
use crate::event::Event;
use crate::numbers::Numbers;

/// Hands events to something that may be slow or fail.
pub trait Deliver: Send + Sync + 'static {
    /// Its name in metrics.
    const NAME: &'static str;
    /// How many deliveries may be under way, so that a slow one does not hold up the next.
    const CALLS_MAX: u32;

    /// Delivers events; false if one of them could not be delivered, which is counted.
    fn deliver(&self, events: &[Arc<Event>], numbers: &Numbers) -> impl Future<Output = bool> + Send;
}

/// An output that delivers in tasks of their own.
pub struct Calls<D> {
    to: D,
    calls: Arc<Semaphore>,
    numbers: Arc<Numbers>,
}

impl<D: Deliver> Calls<D> {
    pub fn new(to: D, numbers: Arc<Numbers>) -> Arc<Calls<D>> {
        Arc::new(Calls { to, calls: Arc::new(Semaphore::new(D::CALLS_MAX as usize)), numbers })
    }
}

impl<D: Deliver> Output for Calls<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn store<'a>(&'a self, events: &'a [Arc<Event>]) -> Done<'a, bool> {
        Box::pin(self.to.deliver(events, &self.numbers))
    }

    fn begin(self: Arc<Self>, batch: Batch) -> Done<'static, ()> {
        Box::pin(async move {
            let Ok(call) = self.calls.clone().acquire_owned().await else { return };
            tokio::spawn(async move {
                self.to.deliver(&batch.events, &self.numbers).await;
                drop((batch, call));
            });
        })
    }

    fn send(self: Arc<Self>, event: Arc<Event>) {
        // As many calls as may be under way; what comes on top is lost and counted, so that memory is bounded.
        match self.calls.clone().try_acquire_owned() {
            Ok(call) => drop(tokio::spawn(async move {
                self.to.deliver(&[event], &self.numbers).await;
                drop(call);
            })),
            Err(_) => self.numbers.error(D::NAME, 1, &"too many calls are under way"),
        }
    }

    fn finish(&self) -> Done<'_, ()> {
        Box::pin(async move {
            // All permits are free when all calls have ended.
            let _ = self.calls.acquire_many(D::CALLS_MAX).await;
        })
    }

    fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }
}
