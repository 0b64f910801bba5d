//! Clients in the same process: requests go through the server's chain, without sockets and TLS.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use request::User;
use server::{ArrivingBody, BodyError, Peer};
use tower::Service;

use crate::server::Serving;

/// The body of an answer. That of a watch does not end by itself.
pub type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, rest::Aborted>;

/// The server is not running any more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server in this process has stopped")]
pub struct Stopped;

/// A tower service that answers requests as one user. It does not keep the server running.
///
/// Credentials in requests are not looked at: they are of the user that the service was made for, who can impersonate others as any
/// user can. Connections cannot be upgraded, so `exec` and the like need a client that connects.
#[derive(Clone)]
pub struct InProcess {
    server: Serving,
    peer: Arc<Peer>,
}

impl InProcess {
    pub(crate) fn new(server: Serving, user: User) -> InProcess {
        InProcess { server, peer: Peer::in_process(user) }
    }

    /// Answers one request, whose URI needs no host.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, Stopped>
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
    {
        let server = self.server.upgrade().ok_or(Stopped)?;
        Ok(server.serve(request.map(ArrivingBody::in_process), self.peer.clone()).await)
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Stopped;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, Stopped>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.send(request).await })
    }
}

/// A plain client: paths of the API in, bytes out. It costs the least of all clients.
#[derive(Clone)]
pub struct Local(InProcess);

/// An answer of a [`Local`] client that was read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON of a type, or why the request failed.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, CallError> {
        if !(200..300).contains(&self.code) {
            let status: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
            let field = |name: &str| status.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_string();
            return Err(CallError::Refused { code: self.code, reason: field("reason"), message: field("message") });
        }
        serde_json::from_slice(&self.body).map_err(CallError::Json)
    }
}

/// Why a call of a [`Local`] client failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The server answered with a Status.
    #[error("{message} ({code})")]
    Refused {
        /// The status code.
        code: u16,
        /// The Status' reason.
        reason: String,
        /// The Status' message.
        message: String,
    },
    /// A path or header is not one.
    #[error("this is no request: {0}")]
    Request(#[from] http::Error),
    /// The answer ended before its end.
    #[error("the answer was cut off")]
    CutOff,
    /// The answer is of another type.
    #[error("the answer is of another type: {0}")]
    Json(serde_json::Error),
}

impl Local {
    pub(crate) fn new(service: InProcess) -> Local {
        Local(service)
    }

    /// The objects that a path of the API leads to, such as `/api/v1/namespaces/default/configmaps/x`.
    pub async fn get(&self, path: &str) -> Result<Answer, CallError> {
        self.call(Method::GET, path, "", Bytes::new()).await
    }

    /// Sends a body with a media type, such as `application/json` or `application/apply-patch+yaml`.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<Answer, CallError> {
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body.into()))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if !media_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        let (head, body) = self.0.send(request).await?.into_parts();
        let body = body.collect().await.map_err(|_| CallError::CutOff)?.to_bytes();
        Ok(Answer { code: head.status.as_u16(), body })
    }
}
