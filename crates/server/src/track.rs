//! Following an answer until its last byte: who it counts for, and what has to be given back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use rest::{Reply, ReplyBody};

use crate::inflight::Seat;
use crate::lifecycle::Ticket;
use crate::metrics::Series;

/// What a request holds until its answer was sent or given up.
pub struct Tracked {
    pub series: Option<Arc<Series>>,
    pub began: Instant,
    pub long_running: bool,
    /// Never read: the server's end waits until it is dropped.
    pub _ticket: Ticket,
    pub seat: Option<Seat>,
    pub code: u16,
    pub bytes: u64,
}

impl Tracked {
    /// Ties everything to the answer's body.
    pub fn follow(mut self, mut reply: Reply) -> Reply {
        self.code = reply.status.as_u16();
        reply.body = match reply.body {
            ReplyBody::Ready(bytes) => {
                self.bytes = bytes.len() as u64;
                ReplyBody::Ready(bytes)
            }
            ReplyBody::Stream { chunks, estimate } => {
                if let Some(series) = self.series.as_ref().filter(|_| self.long_running) {
                    series.opened();
                }
                ReplyBody::Stream { chunks: Followed { chunks, tracked: self }.boxed(), estimate }
            }
        };
        reply
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(series) = &self.series {
            series.record(self.code, self.began.elapsed(), self.bytes);
        }
    }
}

struct Followed {
    chunks: BoxStream<'static, Bytes>,
    tracked: Tracked,
}

impl Stream for Followed {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.chunks.poll_next_unpin(cx);
        if let Poll::Ready(Some(chunk)) = &polled {
            self.tracked.bytes += chunk.len() as u64;
        }
        polled
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(series) = self.tracked.series.as_ref().filter(|_| self.tracked.long_running) {
            series.closed();
        }
    }
}
