//! Following an answer until its last byte: who it counts for, and what has to be given back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use rest::{Chunks, Cut, Reply, ReplyBody};

use crate::inflight::Seat;
use crate::lifecycle::{Ticket, WatchEnd};
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
    /// Ties everything to the answer's body, which is over at `end` whatever it still has.
    pub fn follow(mut self, mut reply: Reply, end: Option<WatchEnd>) -> Reply {
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
                ReplyBody::Stream { chunks: Followed { chunks, tracked: self, end }.boxed(), estimate }
            }
        };
        reply
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(series) = &self.series {
            series.record(self.code, self.began.elapsed(), self.bytes, self.long_running);
        }
    }
}

struct Followed {
    chunks: Chunks,
    tracked: Tracked,
    end: Option<WatchEnd>,
}

impl Stream for Followed {
    type Item = Result<Bytes, Cut>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.chunks.poll_next_unpin(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.tracked.bytes += chunk.len() as u64,
            Poll::Ready(_) => {}
            Poll::Pending => ready!(self.end.as_mut().map_or(Poll::Pending, |end| end.poll_unpin(cx))),
        }
        if polled.is_pending() { Poll::Ready(None) } else { polled }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(series) = self.tracked.series.as_ref().filter(|_| self.tracked.long_running) {
            series.closed();
        }
    }
}
