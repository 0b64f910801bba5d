//! [`Channel`]: the HTTP/2 connection to one member, made for the first call and again when it is lost.
//!
//! All calls that wait for a connection wait for the same attempt and learn its outcome together.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::{Request, Response, Uri};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};

use crate::connect::{CannotConnect, EtcdEndpoint};
use crate::link::{BoxError, EtcdAnswer, EtcdLink};
use crate::{EtcdOptions, StartError};

type Attempt = Shared<BoxFuture<'static, Result<EtcdLink, CannotConnect>>>;

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
            && attempt.peek().is_none_or(|made| made.as_ref().is_ok_and(|link| !link.is_closed()))
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

    async fn connect(&self) -> Result<EtcdLink, CannotConnect> {
        let stream = self.target.connect().await?;
        EtcdLink::open(stream).await.map_err(|error| self.target.cannot_connect(&error))
    }

    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<EtcdAnswer>, BoxError> {
        let room = match self.connection().await?.room().await {
            Ok(room) => room,
            // The connection was closed just now; a new one is tried once.
            Err(_) => self.connection().await?.room().await?,
        };
        room.send(request).await
    }
}

impl GrpcService<Body> for Channel {
    type ResponseBody = EtcdAnswer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<EtcdAnswer>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.clone().send(request))
    }
}
