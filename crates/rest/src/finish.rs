//! [`Finishing`]: what has been begun is finished, whatever becomes of its client.
//!
//! The future of a request is dropped when its client goes away or its time is over. A write that has reserved an address by then, or
//! has sent something to the store, must not end there: nobody would give the address back, and nobody would record what was stored.
//! Its future moves to a task of its own instead. Writes that are not dropped stay where they are and cost nothing more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::reply::Reply;
use crate::scope::Scope;

/// What belongs to a request besides its answer, and has to wait for a write that outlives it: its seat, its audit event.
pub trait FinishWrite: Send + Sync {
    /// Called when the request ends before its write does. Runs the rest of the write.
    fn finish(&self, rest: BoxFuture<'static, Reply>) -> BoxFuture<'static, ()>;
}

/// A write on its way to its answer.
pub struct Finishing {
    scope: Arc<Scope>,
    /// None once it has its answer, and while it is polled: one that panics is over.
    rest: Option<BoxFuture<'static, Reply>>,
}

impl Finishing {
    pub fn new(scope: Arc<Scope>, write: impl Future<Output = Reply> + Send + 'static) -> Finishing {
        Finishing { scope, rest: Some(Box::pin(write)) }
    }
}

impl Future for Finishing {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(mut rest) = self.rest.take() else { return Poll::Pending };
        let polled = rest.as_mut().poll(cx);
        if polled.is_pending() {
            self.rest = Some(rest);
        }
        polled
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take().filter(|_| self.scope.has_begun()) else { return };
        // A process that ends has no runtime any more; what it leaves behind is found by the repairs of the next one.
        let Ok(runtime) = Handle::try_current() else { return };
        self.scope.abandon();
        match &self.scope.call.finish {
            Some(finish) => drop(runtime.spawn(finish.finish(rest))),
            None => drop(runtime.spawn(rest)),
        }
    }
}
