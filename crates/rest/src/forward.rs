//! Passing a request on to another server and its answer back, both as streams; bytes both ways after an upgrade. Kubelets,
//! proxies and aggregated APIs share it.

use std::fmt;
use std::net::IpAddr;

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
pub trait ForwardClient: Send + Sync + 'static {
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

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers by which a front proxy says who the user is.
const IDENTITY: [&str; 3] = ["x-remote-user", "x-remote-group", "x-remote-uid"];
const IDENTITY_PREFIXES: [&str; 2] = ["x-remote-extra-", "impersonate-"];

/// Sends a request to its target and answers with what comes back. Redirects are not followed. The headers of the user's
/// identity are not among `headers`; a `Host` that is not there becomes the target's.
pub async fn forward(
    dial: &dyn ForwardClient,
    target: &Target,
    method: Method,
    headers: &HeaderMap,
    body: Body,
) -> Result<Reply, Unreachable> {
    let (client, body) = body.split();
    if !streams::websocket::is_upgrade(headers) {
        let sent = request(target, method, end_to_end(headers), body.into_stream())?;
        let response = dial.send(target, sent).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let wanted = response.headers().get(header::UPGRADE).and_then(|name| name.to_str().ok()).unwrap_or("");
            let why = format!("backend tried to switch protocol {} when \"\" was requested", object::quote(wanted));
            return Err(Unreachable::Broken(why));
        }
        return Ok(passed_back(response));
    }
    match (forward_upgrade(dial, target, method, headers.clone(), body).await?, client) {
        (Ok((headers, backend)), Some(client)) => Ok(Reply::switch(headers, join(client, backend))),
        // The client asked for an upgrade in a way that its own connection cannot do: without naming a protocol, or over HTTP/1.0.
        (Ok(_), None) => Err(Unreachable::Broken("request connection cannot be hijacked".into())),
        (Err(refused), _) => Ok(*refused),
    }
}

/// Sends a request that upgrades. Ok holds the response's headers and the connection, Err a refusal for the client. What is called
/// with it, a [`ForwardClient`], makes a connection of its own for such a request.
pub(crate) async fn forward_upgrade(
    dial: &dyn ForwardClient,
    target: &Target,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Result<Result<(HeaderMap, OnUpgrade), Box<Reply>>, Unreachable> {
    let sent = request(target, method, headers, body.into_stream())?;
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
    (reply.trailers, reply.passed_back) = (Some(trailers), true);
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

/// A text that cannot be the value of a header, in the words of Go's client, which do not say what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHeader(pub String);

impl fmt::Display for NoHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net/http: invalid header field value for {}", object::quote(&self.0))
    }
}

impl std::error::Error for NoHeader {}

/// A text as the value of the header with this name. What a receiver would read as another text, because it takes away blanks at the
/// ends, is refused too.
pub fn header_value(name: &str, text: &str) -> Result<HeaderValue, NoHeader> {
    let value = HeaderValue::from_bytes(text.as_bytes()).ok();
    value.filter(|_| text.trim_matches([' ', '\t']).len() == text.len()).ok_or_else(|| NoHeader(name.to_string()))
}

/// Adds a client's address to those that a request came from.
pub fn append_forwarded_for(headers: &mut HeaderMap, client: IpAddr) {
    let client = client.to_string();
    let before = headers.get_all(&FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    let all: Vec<&[u8]> = before.chain([client.as_bytes()]).collect();
    // The values were in a header before, so they can be in one again.
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(&FORWARDED_FOR, value);
    }
}

/// Whether a header says who the user is, or as whom to act. Some servers take an underscore for a dash.
fn is_identity(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    IDENTITY.contains(&name.as_str()) || IDENTITY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The headers without those about the connection.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<&[u8]> =
        named.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).collect();
    let is_kept = |name: &HeaderName, value: &HeaderValue| match name.as_str() {
        "te" => value.as_bytes() == b"trailers",
        other => {
            !HOP_BY_HOP.contains(&other) && !named.iter().any(|named| named.eq_ignore_ascii_case(other.as_bytes()))
        }
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
