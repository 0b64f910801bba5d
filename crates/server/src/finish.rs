//! [`Finish`]: a write that goes on after its request keeps its seat, is waited for at shutdown, and is audited with its outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ::audit::Record;
use futures::FutureExt;
use futures::future::BoxFuture;
use rest::{FinishWrite, Reply};

use crate::audit::note_reply;
use crate::lifecycle::Lifecycle;
use crate::seats::WeakSeat;
use crate::track::Tracked;

pub struct Finish {
    /// Weak, because a seat is given back when the answer is ready, and what the call holds may live on.
    seat: Option<WeakSeat>,
    record: Option<Arc<Record>>,
    lifecycle: Lifecycle,
}

impl Finish {
    pub fn of(tracked: &Tracked, lifecycle: Lifecycle) -> Arc<Finish> {
        let seat = tracked.seat.as_ref().map(|seat| seat.downgrade());
        Arc::new(Finish { seat, record: tracked.record.clone(), lifecycle })
    }
}

impl FinishWrite for Finish {
    fn finish(&self, rest: BoxFuture<'static, Reply>) -> BoxFuture<'static, ()> {
        let seat = self.seat.as_ref().and_then(WeakSeat::upgrade);
        let ticket = self.lifecycle.enter(false);
        let record = self.record.clone();
        if let Some(record) = &record {
            record.hand_over();
        }
        Box::pin(async move {
            let reply = AssertUnwindSafe(rest).catch_unwind().await;
            drop(seat);
            match (reply, record) {
                (Ok(mut reply), Some(record)) => {
                    note_reply(&record, &mut reply, false).await;
                    record.response_stored(reply.status.as_u16()).await;
                }
                (Err(_), record) => {
                    tracing::error!("a write whose request had ended ended in a panic");
                    if let Some(record) = record {
                        record.panicked("the request ended in a bug of the server");
                    }
                }
                (Ok(_), None) => {}
            }
            drop(ticket);
        })
    }
}
