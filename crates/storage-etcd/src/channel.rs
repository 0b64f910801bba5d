//! [`Channel`]: the HTTP/2 connection to one member, made for the first call and again when it is lost.
//!
//! Calls hand their requests to the connection's task directly. All calls that wait for a connection wait for the same attempt
//! and learn its outcome together.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use streams::Cork;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};

use crate::connect::{CannotConnect, EtcdEndpoint};
use crate::{EtcdOptions, StartError};

/// HTTP/2 keepalive pings are sent this often to an idle member, and the connection is closed without an answer. etcd refuses
/// pings more often than every five seconds.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What may be under way to us on one stream, and on all of a connection. Slow watchers close their streams, so they
/// cannot hold the connection's share for long.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

type Sender = SendRequest<Body>;
type Attempt = Shared<BoxFuture<'static, Result<Sender, CannotConnect>>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Channel(Arc<Member>);

struct Member {
    target: EtcdEndpoint,
    origin: Uri,
    /// The newest attempt to connect, under way or with its outcome.
    attempt: Mutex<Option<Attempt>>,
}

impl Channel {
    pub fn new(endpoint: &str, options: &EtcdOptions) -> Result<Channel, StartError> {
        let target = EtcdEndpoint::parse(endpoint, options)?;
        target.check_files()?;
        let origin = target
            .origin()
            .map_err(|error| StartError(format!("etcd endpoint {endpoint:?} is not usable: {error}")))?;
        Ok(Channel(Arc::new(Member { target, origin, attempt: Mutex::new(None) })))
    }

    /// A client that calls over this connection.
    pub fn client(&self) -> Grpc<Channel> {
        // Pages are as large as what is stored; their number of keys is limited where they are asked for.
        Grpc::with_origin(self.clone(), self.0.origin.clone()).max_decoding_message_size(usize::MAX)
    }
}

impl Member {
    /// The connection if there is one that is open, otherwise the attempt to make one.
    fn connection(self: &Arc<Self>) -> Attempt {
        let mut attempt = self.attempt.lock();
        if let Some(attempt) = &*attempt
            && attempt.peek().is_none_or(|made| made.as_ref().is_ok_and(|sender| !sender.is_closed()))
        {
            return attempt.clone();
        }
        let member = self.clone();
        // A task of its own, so that the attempt goes on when the call that began it is given up.
        let connecting = tokio::spawn({
            let member = self.clone();
            async move { member.connect().await }
        });
        let made = connecting.map(move |ended| ended.unwrap_or_else(|error| Err(member.target.cannot_connect(&error))));
        attempt.insert(made.boxed().shared()).clone()
    }

    async fn connect(&self) -> Result<Sender, CannotConnect> {
        // Requests that are sent at the same time share a system call and wake etcd once.
        let stream = Cork::new(self.target.connect().await?, true);
        let handshake = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(|error| self.target.cannot_connect(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to etcd ended");
            }
        });
        Ok(sender)
    }

    async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let mut sender = self.connection().await?;
        // Of a connection that was closed just now the request comes back, and a new connection is tried once.
        match sender.try_send_request(request).await {
            Ok(response) => return Ok(response),
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(error.into_error().into()),
            },
        }
        Ok(self.connection().await?.send_request(request).await?)
    }
}

impl GrpcService<Body> for Channel {
    type ResponseBody = Incoming;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.clone().send(request))
    }
}
