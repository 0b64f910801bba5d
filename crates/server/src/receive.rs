//! Receives request bodies, with limits on pauses and on the bytes of unfinished bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use object::Status;
use parking_lot::Mutex;
use rest::RequestBody;
use tokio::time::{Instant, Sleep};

use crate::seats::Seat;

/// How long a client may pause while it sends a body. The whole body must arrive within the request's timeout.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of unfinished bodies the server holds for all clients together. Beyond it, bodies that have been waited for
/// are refused; those that arrive without a pause are not.
const UNFINISHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How much is still read of a body whose request has its answer, as Go's server does.
const DISCARDED_BYTES_MAX: usize = 256 * 1024;

/// The bytes of all bodies that have begun to arrive and are not complete.
#[derive(Clone, Default)]
pub struct Unfinished(Arc<AtomicUsize>);

impl Unfinished {
    /// Receives a body. Its request's seat is free for others while the client is waited for.
    pub fn receive(&self, incoming: Incoming, seat: Option<Seat>) -> RequestBody {
        Receiving {
            incoming: Discarding(Some(incoming)),
            seat,
            paused: false,
            resuming: Mutex::new(None),
            stall: None,
            bytes: 0,
            all: self.0.clone(),
        }
        .boxed()
    }
}

/// A body whose rest is read and thrown away if the request is answered before its end. Without that the stream would be
/// reset, and the client may see the reset before the answer.
struct Discarding(Option<Incoming>);

impl Body for Discarding {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.0 else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Discarding {
    fn drop(&mut self) {
        let Some(mut rest) = self.0.take().filter(|rest| !rest.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(tokio::time::timeout(STALL_TIMEOUT, async move {
            let mut bytes = 0;
            while bytes < DISCARDED_BYTES_MAX
                && let Some(Ok(frame)) = rest.frame().await
            {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        }));
    }
}

struct Receiving<B> {
    incoming: B,
    seat: Option<Seat>,
    /// Whether the server had to wait for the client, and gave the seat back meanwhile.
    paused: bool,
    /// In a mutex only because bodies must be `Sync`.
    resuming: Mutex<Option<BoxFuture<'static, ()>>>,
    stall: Option<Pin<Box<Sleep>>>,
    /// How much of this body has arrived.
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl<B: Body<Data = Bytes> + Unpin> Receiving<B>
where
    B::Error: std::fmt::Display,
{
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.paused = true;
        if let Some(seat) = &self.seat {
            seat.pause();
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIMEOUT)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Some(Err(timed_out())))
    }

    fn arrived(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Status> {
        let length = frame.data_ref().map_or(0, Bytes::len);
        self.bytes += length;
        let all = self.all.fetch_add(length, Ordering::AcqRel) + length;
        if self.paused && all > UNFINISHED_BYTES_MAX {
            return Err(Status::too_many_requests(
                "too many request bodies are being received, please try again later",
                1,
            ));
        }
        if let Some(stall) = &mut self.stall {
            stall.as_mut().reset(Instant::now() + STALL_TIMEOUT);
        }
        Ok(frame)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Receiving<B>
where
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.resuming.get_mut().is_none() {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Pending => return self.wait(cx),
                Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(self.arrived(frame))),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(Status::bad_request(format!("cannot read the body: {error}")))));
                }
                Poll::Ready(None) => {}
            }
            // The body is complete: from here on its bytes are bounded by the seats.
            let bytes = std::mem::take(&mut self.bytes);
            self.all.fetch_sub(bytes, Ordering::AcqRel);
        }
        if let Some(seat) = self.seat.clone().filter(|_| self.paused) {
            ready!(self.resuming.get_mut().get_or_insert_with(|| seat.resume().boxed()).poll_unpin(cx));
            self.seat = None;
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream() && !self.paused
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl<B> Drop for Receiving<B> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The Status of a request that ran into its deadline.
pub fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use request::{RequestInfo, User};

    use super::*;
    use crate::Seats;

    fn receiving<S>(
        chunks: S,
        seat: Option<Seat>,
        all: &Unfinished,
    ) -> impl Body<Data = Bytes, Error = Status> + Unpin + use<S>
    where
        S: stream::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Unpin,
    {
        let all = all.0.clone();
        let incoming = StreamBody::new(chunks);
        Receiving { incoming, seat, paused: false, resuming: Mutex::new(None), stall: None, bytes: 0, all }
    }

    fn chunk(length: usize) -> Result<Frame<Bytes>, std::io::Error> {
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pauses_keeps_no_seat_and_is_cut_off() {
        let seats = Seats::new(0, 1);
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/x/pods", &[]);
        let seat = seats.take(&post, &User::default(), Instant::now(), |_, _| flow::Work::ONE).await.unwrap();
        let all = Unfinished::default();
        let slow = stream::iter([chunk(3)]).chain(stream::pending()).boxed();
        let mut body = receiving(slow, seat, &all);
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(seats.taken(), (0, 1));
        let began = Instant::now();
        let waiting = tokio::spawn(async move { (body.frame().await.unwrap().unwrap_err().code, body) });
        tokio::task::yield_now().await;
        assert_eq!(seats.taken(), (0, 0));
        assert_eq!(all.0.load(Ordering::Relaxed), 3);
        let (code, body) = waiting.await.unwrap();
        assert_eq!((code, began.elapsed()), (504, STALL_TIMEOUT));
        drop(body);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_body_has_its_seat_again() {
        let seats = Seats::new(0, 1);
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/x/pods", &[]);
        let seat = seats.take(&post, &User::default(), Instant::now(), |_, _| flow::Work::ONE).await.unwrap();
        let late = stream::once(async {
            tokio::time::sleep(STALL_TIMEOUT / 2).await;
            chunk(5)
        });
        let all = Unfinished::default();
        let body = receiving(late.boxed(), seat.clone(), &all);
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 5);
        assert_eq!((seats.taken(), all.0.load(Ordering::Relaxed)), ((0, 1), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_share_a_bound_in_bytes() {
        let all = Unfinished::default();
        all.0.store(UNFINISHED_BYTES_MAX, Ordering::Relaxed);
        let quick = receiving(stream::iter([chunk(9)]).boxed(), None, &all);
        assert!(quick.collect().await.is_ok());
        let slow = stream::once(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            chunk(9)
        });
        let refused = receiving(slow.boxed(), None, &all).collect().await.map(|_| ()).unwrap_err();
        assert_eq!(refused.code, 429);
    }
}
