//! Passing a request on to a kubelet, a pod or a service, and its answer back; bytes both ways where it was an upgrade.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use object::{Status, quote};

use crate::connect::Target;
use crate::reply::{Cut, Reply, ReplyBody};
use crate::scope::Scope;

/// Makes connections to what is not part of the API.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Sends one request on a connection of its own. Err says why there is no connection, as Go would.
    async fn send(&self, target: &Target, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String>;
}

/// Headers that are about one connection, or about us, and none of the other end's business.
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

/// Sends the call to its target and answers with what comes back.
pub async fn forward(scope: &mut Scope, dial: Arc<dyn Dial>, target: &Target) -> Result<Reply, Status> {
    let upgraded = scope.call.body.take_upgrade();
    let body = scope.call.read_body(scope.api.limits.body_bytes).await?;
    let mut request = Request::builder().method(scope.call.method.clone()).uri(target.path.as_str());
    if let Some(headers) = request.headers_mut() {
        headers.extend(passed_on(&scope.call.headers, upgraded.is_some()));
        if let Ok(host) = HeaderValue::from_str(&format!("{}:{}", target.host, target.port)) {
            headers.insert(header::HOST, host);
        }
    }
    let request = request.body(Full::new(body)).map_err(|error| Status::bad_request(error.to_string()))?;
    let mut response = dial.send(target, request).await.map_err(|why| unreachable(scope, target, &why))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(client) = upgraded
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

/// Copies bytes both ways until one side has enough.
async fn join(client: OnUpgrade, other: OnUpgrade) {
    let (client, other) = match tokio::try_join!(client, other) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgrade did not happen"),
    };
    let (mut client, mut other) = (hyper_util::rt::TokioIo::new(client), hyper_util::rt::TokioIo::new(other));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut other).await {
        tracing::debug!(%error, "a connection to a node ended early");
    }
}

/// What upstream says when nobody answers: a log is read by a client of its own, everything else is proxied.
fn unreachable(scope: &Scope, target: &Target, why: &str) -> Status {
    if scope.call.info.subresource == "log" {
        let scheme = if target.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}:{}{}", target.host, target.port, target.path);
        return Status::internal(format!("Get {}: {why}", quote(&url)));
    }
    if target.kubelet && scope.call.info.subresource != "proxy" {
        return Status::internal(format!("error dialing backend: {why}"));
    }
    Status::unavailable(format!("error trying to reach service: {why}"))
}
