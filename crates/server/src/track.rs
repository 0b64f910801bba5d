//! [`Tracked`]: what a request holds from its arrival until its response has been sent, and what is recorded then.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use audit::Record;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use http::HeaderValue;
use parking_lot::Mutex;
use rest::{Aborted, Chunks, Reply, ReplyBody};
use spans::OpenSpan;
use tokio::time::Instant;

use crate::audit::note_reply;
use crate::http_log::HttpLog;
use crate::lifecycle::{Ticket, WatchEnd};
use crate::metrics::Series;
use crate::observe::Observed;
use crate::peer::{OpenRequest, Peer};
use crate::seats::Seat;
use crate::trace;
use crate::unfinished::Account;

/// Responses up to this size are handed to the connection and not followed any further.
const HANDED_OVER_BYTES: usize = 64 * 1024;
/// How long after its deadline a response may take to be given up before the connection is closed: a client that does not read
/// at all does not notice that one stream was reset.
const RESET_GRACE: Duration = Duration::from_secs(5);

/// The parts that a request holds until its response was sent or given up.
pub struct Tracked {
    pub series: Option<Arc<Series>>,
    pub began: Instant,
    /// When the stage of the chain began that the request is in.
    pub stage_began: std::time::Instant,
    pub long_running: bool,
    /// Shutdown waits until this is dropped.
    pub _ticket: Ticket,
    /// The connection does not count as idle until this is dropped.
    pub open: OpenRequest,
    /// Held while the server works on the request, but not while its answer is sent.
    pub seat: Option<Seat>,
    /// The beginning of a watch, or its end, that was made while it had its seat.
    pub first: Option<Option<Result<Bytes, Aborted>>>,
    /// Counts headers that are longer than most.
    pub head: Option<Account>,
    /// Counts a watch, which adds to the seats that writes of the same resource need.
    pub watch: Option<flow::WatchTicket>,
    pub record: Option<Arc<Record>>,
    /// Set if the request is traced.
    pub span: Option<OpenSpan>,
    /// Set if requests are logged.
    pub log: Option<Box<HttpLog>>,
    /// Set if somebody wants to know what requests cost.
    pub observed: Option<Box<Observed>>,
    pub code: u16,
    pub bytes: u64,
}

impl Tracked {
    /// Gives the seat back now that the answer has begun. A watch makes its first events before that, as far as one chunk has room for
    /// them; like the rest of a list, those that follow are made when the client reads, and count among its user's unread answers.
    /// How long a client takes to read has no part in how long a seat is taken.
    pub async fn leave_seat(&mut self, reply: &mut Reply) {
        if let Some(observed) = &mut self.observed {
            observed.leaves_seat();
        }
        if let Some(seat) = self.seat.take()
            && self.long_running
            && let ReplyBody::Stream { chunks, .. } = &mut reply.body
        {
            self.first = poll_fn(|cx| match chunks.poll_next_unpin(cx) {
                Poll::Ready(first) => Poll::Ready(Some(first)),
                Poll::Pending => Poll::Ready(None),
            })
            .await;
            drop(seat);
        }
    }

    /// Holds everything until the response's body has been sent. A watch is ended at `end`, any other response at its deadline.
    pub fn follow(mut self, mut reply: Reply, end: Option<WatchEnd>, deadline: Option<Instant>) -> Reply {
        self.code = reply.status.as_u16();
        if let Some(record) = self.record.as_ref().filter(|_| self.long_running) {
            record.response_started(self.code);
        }
        let (chunks, estimate) = match reply.body {
            ReplyBody::Ready(bytes) if bytes.len() <= HANDED_OVER_BYTES || deadline.is_none() => {
                self.bytes = bytes.len() as u64;
                reply.body = ReplyBody::Ready(bytes);
                return reply;
            }
            ReplyBody::Ready(bytes) => {
                reply.headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                let estimate = bytes.len();
                (futures::stream::iter([Ok(bytes)]).boxed(), estimate)
            }
            ReplyBody::Stream { chunks, estimate } => (chunks, estimate),
            ReplyBody::Switch(task) => {
                reply.body = ReplyBody::Switch(self.until_closed(task, end).boxed());
                return reply;
            }
        };
        if let Some(series) = self.series.as_ref().filter(|_| self.long_running) {
            series.opened();
        }
        reply.body = ReplyBody::Stream { chunks: Sending::new(self, chunks, end, deadline).boxed(), estimate };
        reply
    }
}

impl Tracked {
    /// Notes the reply in the audit record, and writes its last event if the response is complete and small.
    pub async fn record_reply(&mut self, reply: &mut Reply) {
        // A write that goes on is recorded with its own outcome, not with what its client was told.
        self.record.take_if(|record| record.is_handed_over());
        let Some(record) = &self.record else { return };
        note_reply(record, reply, self.long_running).await;
        let is_small = matches!(&reply.body, ReplyBody::Ready(bytes) if bytes.len() <= HANDED_OVER_BYTES);
        if is_small
            && !self.long_running
            && let Some(record) = self.record.take()
        {
            record.response_stored(reply.status.as_u16()).await;
        }
    }

    /// Counts a response that was broken off.
    fn aborted(&self) {
        if let Some(series) = &self.series {
            series.aborted();
        }
    }

    /// Runs what an upgraded connection is used for; it ends when the server shuts down.
    async fn until_closed(self, task: BoxFuture<'static, ()>, end: Option<WatchEnd>) {
        if let Some(series) = &self.series {
            series.opened();
        }
        match end {
            Some(end) => {
                futures::future::select(task, end).await;
            }
            None => task.await,
        }
        if let Some(series) = &self.series {
            series.closed();
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let (code, bytes) = (self.code, self.bytes);
        if let Some(record) = &self.record {
            record.response_complete(code);
        }
        if let Some(span) = self.span.take() {
            trace::end(span, code);
        }
        if let Some(observed) = self.observed.take() {
            observed.end(code, bytes, self.began.elapsed());
        }
        if let Some(log) = &self.log {
            log.write(code, self.began.elapsed());
        }
        if let Some(series) = &self.series {
            series.record(code, self.began.elapsed(), bytes, self.long_running);
        }
    }
}

/// A response body that is being sent.
struct Sending {
    rest: Arc<Mutex<Rest>>,
    tracked: Tracked,
    end: Option<WatchEnd>,
    /// Ends the response at its deadline, also while the client does not read and so the body is not polled.
    deadline: Option<tokio::task::JoinHandle<()>>,
}

/// The bytes that are still to be sent.
struct Rest {
    /// None after the deadline.
    chunks: Option<Chunks>,
    waker: Option<Waker>,
}

impl Sending {
    fn new(tracked: Tracked, chunks: Chunks, end: Option<WatchEnd>, deadline: Option<Instant>) -> Sending {
        let rest = Arc::new(Mutex::new(Rest { chunks: Some(chunks), waker: None }));
        let deadline = deadline.map(|at| tokio::spawn(give_up(rest.clone(), at, tracked.open.peer().clone())));
        Sending { rest, tracked, end, deadline }
    }
}

/// At the deadline, frees what is still to be sent and resets the stream; closes the connection if that has no effect.
async fn give_up(rest: Arc<Mutex<Rest>>, at: Instant, peer: Arc<Peer>) {
    tokio::time::sleep_until(at).await;
    let (chunks, waker) = {
        let mut rest = rest.lock();
        (rest.chunks.take(), rest.waker.take())
    };
    drop(chunks);
    if let Some(waker) = waker {
        waker.wake();
    }
    tokio::time::sleep(RESET_GRACE).await;
    tracing::debug!(address = %peer.address, "a client does not read its response; its connection is closed");
    peer.close();
}

impl Stream for Sending {
    type Item = Result<Bytes, Aborted>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Sending { rest, tracked, deadline, .. } = &mut *self;
        let polled = if let Some(first) = tracked.first.take() {
            Poll::Ready(first)
        } else {
            let mut rest = rest.lock();
            let Some(chunks) = &mut rest.chunks else {
                tracked.aborted();
                return Poll::Ready(Some(Err(Aborted)));
            };
            let began = tracked.observed.as_ref().and_then(|observed| observed.clock());
            let polled = chunks.poll_next_unpin(cx);
            if let (Some(observed), Some(began)) = (&mut tracked.observed, began) {
                observed.ran(began);
            }
            if polled.is_pending() && deadline.is_some() {
                rest.waker = Some(cx.waker().clone());
            }
            polled
        };
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.tracked.bytes += chunk.len() as u64,
            Poll::Ready(Some(Err(Aborted))) => self.tracked.aborted(),
            Poll::Ready(None) => {}
            Poll::Pending => {
                ready!(self.end.as_mut().map_or(Poll::Pending, |end| end.poll_unpin(cx)));
            }
        }
        if polled.is_pending() { Poll::Ready(None) } else { polled }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.abort();
        }
        if let Some(series) = self.tracked.series.as_ref().filter(|_| self.tracked.long_running) {
            series.closed();
        }
    }
}
