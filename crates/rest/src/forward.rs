//! Passing a request on to another server and its answer back, both as streams; bytes both ways after an upgrade. Kubelets,
//! proxies and aggregated APIs share it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use registry::Target;

use crate::reply::{Aborted, Body, Reply, ReplyBody};

/// The body of a request that is passed on.
pub type ForwardBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Makes connections to other servers.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Sends one request. `hyper::upgrade::on` the response gives the connection after `101 Switching Protocols`.
    async fn send(&self, target: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable>;
}

/// Why there is no answer of the target that can be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The target's name resolves to an address that must not be connected to, or to none.
    NotAllowed(String),
    /// There is no connection; what Go's client would say.
    Failed(String),
    /// The connection was lost, or the answer is not one to the request; what Go's client would say.
    Broken(String),
}

/// Headers about one connection, which are not passed on (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers by which a front proxy says who the user is.
const IDENTITY: [&str; 3] = ["x-remote-user", "x-remote-group", "x-remote-uid"];
const IDENTITY_PREFIXES: [&str; 2] = ["x-remote-extra-", "impersonate-"];

/// Sends a request to its target and answers with what comes back. Redirects are not followed. The headers of the user's
/// identity are not among `headers`; a `Host` that is not there becomes the target's.
pub async fn forward(
    dial: &dyn Dial,
    target: &Target,
    method: Method,
    headers: &HeaderMap,
    mut body: Body,
) -> Result<Reply, Unreachable> {
    let Some(client) = body.take_upgrade() else {
        let sent = request(target, method, end_to_end(headers), body.into_stream())?;
        let response = dial.send(target, sent).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let wanted = response.headers().get(header::UPGRADE).and_then(|name| name.to_str().ok()).unwrap_or("");
            let why = format!("backend tried to switch protocol {} when \"\" was requested", object::quote(wanted));
            return Err(Unreachable::Broken(why));
        }
        return Ok(passed_back(response));
    };
    Ok(match forward_upgrade(dial, target, method, headers.clone()).await? {
        Ok((headers, backend)) => Reply::switch(headers, join(client, backend)),
        Err(refused) => *refused,
    })
}

/// Sends a request that upgrades. Ok holds the response's headers and the connection, Err a refusal for the client.
pub(crate) async fn forward_upgrade(
    dial: &dyn Dial,
    target: &Target,
    method: Method,
    headers: HeaderMap,
) -> Result<Result<(HeaderMap, OnUpgrade), Box<Reply>>, Unreachable> {
    let sent = request(target, method, headers, Body::Empty.into_stream())?;
    let mut response = dial.send(target, sent).await?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            let backend = hyper::upgrade::on(&mut response);
            Ok(Ok((response.headers().clone(), backend)))
        }
        refused if refused.as_u16() < 400 => {
            let code = refused.as_u16();
            Err(Unreachable::Broken(format!("invalid upgrade response: status code {code}")))
        }
        _ => {
            let mut reply = passed_back(response);
            reply.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            Ok(Err(Box::new(reply)))
        }
    }
}

/// The request as the target gets it.
pub(crate) fn request(
    target: &Target,
    method: Method,
    mut headers: HeaderMap,
    body: ForwardBody,
) -> Result<Request<ForwardBody>, Unreachable> {
    let failed = |error: http::Error| Unreachable::Failed(error.to_string());
    let mut request = Request::builder().method(method).uri(&target.path).body(body).map_err(failed)?;
    if let Ok(host) = HeaderValue::from_str(&target.authority()) {
        headers.entry(header::HOST).or_insert(host);
    }
    // The connection decides how the body is framed.
    headers.remove(header::TRANSFER_ENCODING);
    *request.headers_mut() = headers;
    Ok(request)
}

/// The target's answer, streamed to the client, trailers included.
fn passed_back(response: Response<Incoming>) -> Reply {
    let (parts, incoming) = response.into_parts();
    let announced = parts.headers.get(header::TRAILER).cloned();
    let (send, trailers) = tokio::sync::oneshot::channel();
    let mut send = Some(send);
    let chunks = http_body_util::BodyStream::new(incoming).map_err(|_| Aborted).try_filter_map(move |frame| {
        let data = frame.into_data().map_err(|frame| {
            if let (Ok(trailers), Some(send)) = (frame.into_trailers(), send.take()) {
                let _ = send.send(trailers);
            }
        });
        futures::future::ready(Ok(data.ok()))
    });
    let body = ReplyBody::Stream { chunks: chunks.boxed(), estimate: 0 };
    let mut reply = Reply::with(parts.status, end_to_end(&parts.headers), body);
    reply.trailers = Some(trailers);
    if let Some(announced) = announced {
        reply.headers.insert(header::TRAILER, announced);
    }
    reply
}

/// A client's headers as they are passed on: without those about its connection to this server, but with its wish for an
/// upgrade, and without those by which a front proxy says who the user is. What this server says itself is added afterwards,
/// so that a client cannot have it removed by naming it in `Connection`.
pub fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end(headers);
    let identity: Vec<HeaderName> = kept.keys().filter(|name| is_identity(name)).cloned().collect();
    identity.iter().for_each(|name| drop(kept.remove(name)));
    if streams::websocket::is_upgrade(headers) {
        kept.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        kept.extend(headers.get_all(header::UPGRADE).iter().map(|name| (header::UPGRADE, name.clone())));
    }
    kept
}

/// Whether a header says who the user is, or as whom to act. Some servers take an underscore for a dash.
fn is_identity(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    IDENTITY.contains(&name.as_str()) || IDENTITY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The headers without those about the connection.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> =
        named.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    let is_kept = |name: &HeaderName, value: &HeaderValue| match name.as_str() {
        "te" => value.as_bytes() == b"trailers",
        other => !HOP_BY_HOP.contains(&other) && !named.iter().any(|named| named == other),
    };
    let kept = headers.iter().filter(|(name, value)| is_kept(name, value));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Copies bytes both ways until one side closes.
async fn join(client: OnUpgrade, backend: OnUpgrade) {
    let Some((client, backend)) = both(client, backend).await else { return };
    if let Err(error) = streams::relay(client, backend).await {
        tracing::debug!(%error, "an upgraded connection ended early");
    }
}

/// Both ends of an upgraded connection.
pub(crate) async fn both(client: OnUpgrade, backend: OnUpgrade) -> Option<(TokioIo<Upgraded>, TokioIo<Upgraded>)> {
    match tokio::try_join!(client, backend) {
        Ok((client, backend)) => Some((TokioIo::new(client), TokioIo::new(backend))),
        Err(error) => {
            tracing::debug!(%error, "an upgrade did not happen");
            None
        }
    }
}

impl Reply {
    /// `101 Switching Protocols`; the task is run with the connection of the request, which it waits for.
    pub fn switch(headers: HeaderMap, task: impl Future<Output = ()> + Send + 'static) -> Reply {
        Reply::with(StatusCode::SWITCHING_PROTOCOLS, headers, ReplyBody::Switch(task.boxed()))
    }
}
