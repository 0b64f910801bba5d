//! Receives request bodies, with limits on pauses and on the bytes of a user's unfinished bodies.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use object::Status;
use parking_lot::Mutex;
use rest::RequestBody;
use tokio::time::{Instant, Sleep};

use crate::arrival::{ArrivingBody, BodyError};
use crate::seats::Seat;
use crate::unfinished::Account;

/// How long a client may pause while it sends a body. The whole body must arrive within the request's timeout.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So much of a body is kept that waits for its request's seat: objects are not larger.
const AHEAD_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How much is still read of a body whose request has its answer, as Go's server does.
const DISCARDED_BYTES_MAX: usize = 256 * 1024;

/// A body whose rest is read and thrown away if the request is answered before its end. Without that the stream would be
/// reset, and the client may see the reset before the answer.
pub struct Discarding(Option<ArrivingBody>);

impl Body for Discarding {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
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

/// A request's body. While its client is waited for it counts among the user's unfinished bodies, and its seat is free for others.
pub struct Receiving<B> {
    incoming: B,
    /// None for users who are never refused.
    account: Option<Account>,
    seat: Option<Seat>,
    /// The bytes that arrived before the request had its seat.
    ahead: VecDeque<Result<Frame<Bytes>, Status>>,
    /// Nothing more arrives.
    ended: bool,
    /// Whether the server had to wait for the client, and gave the seat back meanwhile.
    paused: bool,
    /// In a mutex only because bodies must be `Sync`.
    resuming: Mutex<Option<BoxFuture<'static, ()>>>,
    stall: Option<Pin<Box<Sleep>>>,
    /// How much of this body has arrived.
    bytes: usize,
}

impl Receiving<Discarding> {
    /// A body that counts in an account, which is made if there is one at all.
    pub fn new(incoming: ArrivingBody, account: impl FnOnce() -> Account) -> Receiving<Discarding> {
        let account = (!incoming.is_end_stream()).then(account);
        Receiving::of(Discarding(Some(incoming)), account)
    }

    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.incoming.is_end_stream()
    }

    /// The body of a request that was admitted, with this seat if it has one. Users that are exempt from limits are never refused.
    pub fn admitted(mut self, seat: Option<Seat>, is_exempt: bool) -> RequestBody {
        self.seat = seat;
        self.account.take_if(|_| is_exempt);
        self.boxed()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Receiving<B>
where
    B::Error: std::fmt::Display,
{
    fn of(incoming: B, account: Option<Account>) -> Receiving<B> {
        Receiving {
            incoming,
            account,
            seat: None,
            ahead: VecDeque::new(),
            ended: false,
            paused: false,
            resuming: Mutex::new(None),
            stall: None,
            bytes: 0,
        }
    }

    /// Keeps what has arrived, for a request that waits for its seat: what is not read takes the connection's window from its other
    /// requests, and belongs to nobody. Fails if the user has too many unfinished bodies.
    pub fn read_ahead(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        while !self.ended && self.bytes < AHEAD_BYTES_MAX {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(frame) => {
                    let frame = self.arrived(frame);
                    self.ahead.extend(frame);
                }
            }
        }
        self.count()
    }

    /// Notes what has arrived.
    fn arrived(&mut self, frame: Option<Result<Frame<Bytes>, B::Error>>) -> Option<Result<Frame<Bytes>, Status>> {
        let frame =
            frame.map(|frame| frame.map_err(|error| Status::bad_request(format!("cannot read the body: {error}"))));
        match &frame {
            Some(Ok(frame)) => self.bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => self.ended = true,
        }
        frame
    }

    fn count(&mut self) -> Result<(), Status> {
        match self.account.as_mut().is_none_or(|account| account.set(self.bytes)) {
            true => Ok(()),
            false => Err(Status::too_many_requests(
                "too many request bodies are being received from this user, please try again later",
                1,
            )),
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.paused = true;
        if let Some(seat) = &self.seat {
            seat.pause();
        }
        self.count()?;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIMEOUT)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Some(Err(timed_out())))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Receiving<B>
where
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(frame) = self.ahead.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if !self.ended {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Pending => return self.wait(cx),
                Poll::Ready(frame) => {
                    let frame = self.arrived(frame);
                    if let Some(stall) = &mut self.stall {
                        stall.as_mut().reset(Instant::now() + STALL_TIMEOUT);
                    }
                    if frame.is_some() {
                        return Poll::Ready(frame);
                    }
                }
            }
        }
        if let Some(seat) = self.seat.clone().filter(|_| self.paused) {
            ready!(self.resuming.get_mut().get_or_insert_with(|| seat.resume().boxed()).poll_unpin(cx));
            self.seat = None;
        }
        // From here on its bytes are bounded by the seats.
        self.account = None;
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.incoming.is_end_stream() && !self.paused
    }

    fn size_hint(&self) -> SizeHint {
        let ahead: usize = self.ahead.iter().flatten().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let (mut hint, rest) = (SizeHint::new(), self.incoming.size_hint());
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead as u64);
        }
        hint.set_lower(rest.lower() + ahead as u64);
        hint
    }
}

/// The Status of a request that ran into its deadline.
pub fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use request::{RequestInfo, User};

    use super::*;
    use crate::Seats;
    use crate::unfinished::{BYTES_MAX, Unfinished};

    type Arriving = Result<Frame<Bytes>, Infallible>;

    fn receiving<S>(chunks: S, seat: Option<Seat>, all: &Unfinished) -> Receiving<StreamBody<S>>
    where
        S: stream::Stream<Item = Arriving> + Unpin,
    {
        Receiving { seat, ..Receiving::of(StreamBody::new(chunks), Some(all.account("a"))) }
    }

    fn chunk(length: usize) -> Arriving {
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    }

    async fn seated() -> (Seats, Option<Seat>) {
        let seats = Seats::new(0, 1);
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/x/pods", &[]);
        let seat = seats.take(&post, &User::default(), Instant::now(), |_, _| flow::Work::ONE).await.unwrap();
        (seats, seat)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pauses_keeps_no_seat_and_is_cut_off() {
        let (seats, seat) = seated().await;
        let all = Unfinished::default();
        let slow = stream::iter([chunk(3)]).chain(stream::pending()).boxed();
        let mut body = receiving(slow, seat, &all);
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!((seats.taken(), all.bytes()), ((0, 1), 0));
        let began = Instant::now();
        let waiting = tokio::spawn(async move { (body.frame().await.unwrap().unwrap_err().code, body) });
        tokio::task::yield_now().await;
        assert_eq!((seats.taken(), all.bytes()), ((0, 0), 3));
        let (code, body) = waiting.await.unwrap();
        assert_eq!((code, began.elapsed()), (504, STALL_TIMEOUT));
        drop(body);
        assert_eq!(all.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_body_counts_until_it_has_its_seat_again() {
        let (seats, seat) = seated().await;
        let late = stream::once(async {
            tokio::time::sleep(STALL_TIMEOUT / 2).await;
            chunk(5)
        });
        let paused = async {
            tokio::time::sleep(STALL_TIMEOUT / 2).await;
            chunk(7)
        };
        let all = Unfinished::default();
        let body = receiving(late.chain(stream::once(paused)).boxed(), seat, &all);
        let body = tokio::spawn(body.collect());
        tokio::time::sleep(STALL_TIMEOUT / 4).await;
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/x/pods", &[]);
        let other = seats.take(&post, &User::default(), Instant::now(), |_, _| flow::Work::ONE).await.unwrap();
        tokio::time::sleep(STALL_TIMEOUT).await;
        assert_eq!((seats.taken(), all.bytes(), body.is_finished()), ((0, 1), 5, false));
        drop(other);
        assert_eq!(body.await.unwrap().unwrap().to_bytes().len(), 12);
        assert_eq!(all.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_end_are_refused_by_user() {
        const BODY: usize = 250_000;
        let all = Unfinished::default();
        let slow = || stream::iter((0..10).map(|_| chunk(BODY / 10))).chain(stream::pending()).boxed();
        let mut held = Vec::new();
        let refused = loop {
            let mut body = receiving(slow(), None, &all);
            let last = async {
                while body.frame().await.unwrap()?.data_ref().is_some() {}
                Ok::<_, Status>(())
            };
            match tokio::time::timeout(Duration::from_millis(1), last).await {
                Ok(ended) => break ended.unwrap_err(),
                Err(_) => held.push(body),
            }
        };
        assert_eq!((refused.code, all.bytes()), (429, held.len() * BODY));
        assert!((BYTES_MAX / 2 - BODY..=BYTES_MAX / 2).contains(&all.bytes()));
        // Bodies that are not waited for are not refused, nor are those of others, nor those of the exempt.
        assert!(receiving(stream::iter([chunk(BODY)]).boxed(), None, &all).collect().await.is_ok());
        for account in [Some(all.account("b")), None] {
            let mut body = Receiving { account, ..receiving(slow(), None, &all) };
            let cx = &mut Context::from_waker(std::task::Waker::noop());
            assert!(body.read_ahead(cx).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_before_the_seat_is_read_in_order() {
        let all = Unfinished::default();
        let (sender, arriving) = futures::channel::mpsc::unbounded::<Arriving>();
        let mut body = receiving(arriving, None, &all);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        for (size, want) in [(10, 10), (20, 30)] {
            sender.unbounded_send(chunk(size)).unwrap();
            assert!(body.read_ahead(cx).is_ok());
            assert_eq!((all.bytes(), body.size_hint().lower()), (want, want as u64));
        }
        sender.unbounded_send(chunk(30)).unwrap();
        drop(sender);
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().data_ref().unwrap().len());
        }
        assert_eq!((sizes, all.bytes()), (vec![10, 20, 30], 0));
    }
}
