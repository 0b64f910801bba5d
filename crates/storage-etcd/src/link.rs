//! [`EtcdLink`]: one open HTTP/2 connection to a member.
//!
//! A call puts its request into the connection and waits for the answer itself: of the tasks that are woken for it one is its own, the
//! other one the connection's ([`run`]), which reads and writes.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use streams::Cork;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};
use tonic::body::Body;

use crate::Io;

/// A member is asked this often whether it is there, and the connection is closed without an answer. etcd refuses pings more often
/// than every five seconds.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What may be under way to us on one stream, and on all of a connection. Slow watchers close their streams, so they
/// cannot hold the connection's share for long.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection. Clones are the same.
#[derive(Clone)]
pub(crate) struct EtcdLink {
    requests: SendRequest<Bytes>,
    state: Arc<LinkState>,
}

#[derive(Default)]
struct LinkState {
    is_closed: AtomicBool,
    /// Calls whose answers have not begun.
    calls: AtomicUsize,
}

/// A request that can be sent now.
pub(crate) struct CallRoom {
    requests: SendRequest<Bytes>,
    _call: CallUnderWay,
}

impl EtcdLink {
    pub async fn open(stream: Box<dyn Io>) -> Result<EtcdLink, h2::Error> {
        let cork = Cork::new(stream);
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(cork.clone())
            .await?;
        let state = Arc::new(LinkState::default());
        tokio::spawn(run(connection, cork, state.clone()));
        Ok(EtcdLink { requests, state })
    }

    pub fn is_closed(&self) -> bool {
        self.state.is_closed.load(Ordering::Acquire)
    }

    /// Waits until another request may be sent. After an error none was sent, and none will be.
    pub async fn room(self) -> Result<CallRoom, h2::Error> {
        let requests = self.requests.ready().await.inspect_err(|_| self.state.close())?;
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        Ok(CallRoom { requests, _call: CallUnderWay(self.state) })
    }
}

impl LinkState {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

impl CallRoom {
    pub async fn send(mut self, request: Request<Body>) -> Result<Response<EtcdAnswer>, BoxError> {
        let (head, body) = request.into_parts();
        let (answer, stream) = self.requests.send_request(Request::from_parts(head, ()), false)?;
        let mut sending = Box::pin(send_body(body, stream));
        // A request of one message is sent at once, the messages of a watch by a task.
        let sending = match futures::poll!(sending.as_mut()) {
            Poll::Ready(_) => None,
            Poll::Pending => Some(SendingTask(tokio::spawn(sending))),
        };
        let answer = answer.await?;
        Ok(answer.map(|stream| EtcdAnswer { stream, _sending: sending }))
    }
}

/// Sends messages as they come. h2 keeps what the member has no room for; a message is no larger than a write.
async fn send_body(body: Body, mut stream: SendStream<Bytes>) -> Result<(), BoxError> {
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        // Requests have no trailers.
        if let Ok(data) = frame?.into_data() {
            stream.send_data(data, false)?;
        }
    }
    Ok(stream.send_data(Bytes::new(), true)?)
}

/// Ends the task when the answer is dropped.
struct SendingTask(JoinHandle<Result<(), BoxError>>);

impl Drop for SendingTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts a call until its answer begins.
struct CallUnderWay(Arc<LinkState>);

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer.
pub(crate) struct EtcdAnswer {
    stream: RecvStream,
    _sending: Option<SendingTask>,
}

impl http_body::Body for EtcdAnswer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(data) = ready!(self.stream.poll_data(cx)) {
            let data = data?;
            self.stream.flow_control().release_capacity(data.len())?;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Drives a connection until it ends.
async fn run(mut connection: Connection<Cork<Box<dyn Io>>, Bytes>, cork: Cork<Box<dyn Io>>, state: Arc<LinkState>) {
    let mut keepalive = connection.ping_pong().map(KeepAlive::new);
    let ended: Result<(), BoxError> = poll_fn(|cx| {
        if keepalive.as_mut().is_some_and(|keepalive| keepalive.poll_lost(cx).is_ready()) {
            return Poll::Ready(Err("it does not answer any more".into()));
        }
        let has_waited = cork.is_holding();
        if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
            return Poll::Ready(Ok(ended?));
        }
        // While others wait for answers, more is about to be sent by tasks that are ready now; it shares a system call.
        if state.calls.load(Ordering::Relaxed) > 1 && !has_waited && cork.is_holding() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        cork.poll_send(cx).map_err(BoxError::from)
    })
    .await;
    state.close();
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to etcd ended");
    }
}

/// Asks now and then whether the member is there.
struct KeepAlive {
    pings: PingPong,
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl KeepAlive {
    fn new(pings: PingPong) -> KeepAlive {
        KeepAlive { pings, timer: Box::pin(sleep(KEEPALIVE_INTERVAL)), is_waiting: false }
    }

    /// Ready when a question was not answered in time.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_waiting && self.pings.poll_pong(cx).is_ready() {
                self.is_waiting = false;
                self.timer.as_mut().reset(Instant::now() + KEEPALIVE_INTERVAL);
            }
            ready!(self.timer.as_mut().poll(cx));
            if self.is_waiting || self.pings.send_ping(Ping::opaque()).is_err() {
                return Poll::Ready(());
            }
            self.is_waiting = true;
            self.timer.as_mut().reset(Instant::now() + KEEPALIVE_TIMEOUT);
        }
    }
}
