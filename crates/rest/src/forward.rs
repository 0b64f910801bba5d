//! Passing a request on to another server and its answer back, both as streams; bytes both ways after an upgrade. Kubelets,
//! proxies and aggregated APIs share it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use registry::Target;

use crate::reply::{Body, Cut, Reply, ReplyBody};

/// The body of a request that is passed on.
pub type ForwardBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Makes connections to other servers.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Sends one request on a connection of its own.
    async fn send(&self, target: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable>;
}

/// Why a request did not reach its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The target's name resolves to an address that must not be connected to.
    NotAllowed,
    /// What Go's client would say.
    Failed(String),
}

/// Headers that are about the connection to this server, or that only this server should see.
const NOT_PASSED_ON: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::ACCEPT_ENCODING,
];

/// Sends a request to its target and answers with what comes back.
pub async fn forward(
    dial: &dyn Dial,
    target: &Target,
    method: Method,
    headers: &HeaderMap,
    mut body: Body,
) -> Result<Reply, Unreachable> {
    let upgrade = body.take_upgrade();
    let failed = |error: http::Error| Unreachable::Failed(error.to_string());
    let mut request = Request::builder().method(method).uri(&target.path).body(body.into_stream()).map_err(failed)?;
    *request.headers_mut() = passed_on(headers, upgrade.is_some());
    if let Ok(host) = HeaderValue::from_str(&format!("{}:{}", target.host, target.port)) {
        request.headers_mut().insert(header::HOST, host);
    }
    let mut response = dial.send(target, request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(client) = upgrade
    {
        let other = hyper::upgrade::on(&mut response);
        tokio::spawn(join(client, other));
        let mut reply = Reply::new(StatusCode::SWITCHING_PROTOCOLS, "", ReplyBody::Ready(Bytes::new()));
        reply.headers = response.headers().clone();
        return Ok(reply);
    }
    let (parts, incoming) = response.into_parts();
    let chunks = incoming.into_data_stream().map_err(|_| Cut).boxed();
    let mut reply = Reply::new(parts.status, "text/plain", ReplyBody::Stream { chunks, estimate: 0 });
    reply.headers.extend(passed_on(&parts.headers, false));
    Ok(reply)
}

fn passed_on(headers: &HeaderMap, upgrade: bool) -> HeaderMap {
    let about_the_upgrade = |name: &HeaderName| upgrade && (name == header::CONNECTION || name == header::UPGRADE);
    let kept = headers.iter().filter(|(name, _)| {
        about_the_upgrade(name) || !(NOT_PASSED_ON.contains(name) || name.as_str().starts_with("impersonate-"))
    });
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Copies bytes both ways until one side closes.
async fn join(client: OnUpgrade, other: OnUpgrade) {
    let (client, other) = match tokio::try_join!(client, other) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgrade did not happen"),
    };
    let (mut client, mut other) = (hyper_util::rt::TokioIo::new(client), hyper_util::rt::TokioIo::new(other));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut other).await {
        tracing::debug!(%error, "an upgraded connection ended early");
    }
}
