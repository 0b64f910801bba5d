//! A container's log: a request of the server's own to the kubelet, whose answer is sent as it comes.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use object::{GroupResource, Status, quote};
use registry::Target;
use streams::messages::{self, Encoding};
use streams::websocket::{Handshake, Refused, is_websocket};

use super::{dial, refused};
use crate::forward::{Unreachable, request};
use crate::reply::{Aborted, Body, Chunks, Reply, ReplyBody};
use crate::scope::Scope;

/// How much of a kubelet's error is passed on.
const ERROR_BYTES_MAX: usize = 50_000;
/// The largest WebSocket message.
const MESSAGE_BYTES_MAX: usize = 2048;
const BINARY: &str = "binary.k8s.io";
const BASE64: &str = "base64.binary.k8s.io";

pub async fn log(scope: &Scope, target: &Target) -> Result<Reply, Status> {
    let scheme = if target.tls { "https" } else { "http" };
    let get = |url: &str, why: &str| Status::unknown(500, format!("Get {}: {why}", quote(url)));
    let url = format!("{scheme}://{}{}", target.authority(), target.path);
    let answered = async {
        let sent = request(target, Method::GET, HeaderMap::new(), Body::Empty.into_stream())?;
        dial(scope).map_err(|status| Unreachable::Failed(status.message))?.send(target, sent).await
    };
    let response = answered.await.map_err(|error| match error {
        Unreachable::NotAllowed(why) | Unreachable::Failed(why) | Unreachable::Broken(why) => {
            if why.contains("x509:") {
                scope.api.streams.log_tls_failed();
            }
            get(&url, &why)
        }
    })?;
    let code = response.status();
    if let (301..=303 | 307 | 308, Some(location)) = (code.as_u16(), response.headers().get(header::LOCATION)) {
        return Err(get(location.to_str().unwrap_or(""), "redirects forbidden"));
    }
    if !(200..=206).contains(&code.as_u16()) {
        return Err(failed(scope, code, response.into_body()).await);
    }
    let chunks = response.into_body().into_data_stream().map_err(|_| Aborted).boxed();
    if is_websocket(&scope.call.headers) {
        return Ok(as_messages(scope, chunks));
    }
    Ok(Reply::new(StatusCode::OK, "text/plain", ReplyBody::Stream { chunks, estimate: 0 }))
}

/// A kubelet's error as a Status.
async fn failed(scope: &Scope, code: StatusCode, body: Incoming) -> Status {
    let text = match Limited::new(body, ERROR_BYTES_MAX).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(error) => return Status::internal(error),
    };
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        _ => {
            let resource = GroupResource::new("", "pods/log");
            Status::generic(code.as_u16(), "", &resource, &scope.call.info.name, &text)
        }
    }
}

/// The log as WebSocket messages, the first of them empty.
fn as_messages(scope: &Scope, chunks: Chunks) -> Reply {
    let handshake = match Handshake::read(&scope.call.method, &scope.call.headers) {
        Ok(handshake) => handshake,
        Err(why) => return refused(&why),
    };
    let protocol = handshake.select(&[BINARY, BASE64]);
    let Some(upgrade) =
        scope.take_body().take_upgrade().filter(|_| protocol.is_some() || handshake.protocols.is_empty())
    else {
        return refused(&Refused { code: StatusCode::FORBIDDEN, text: "" });
    };
    let encoding = if protocol == Some(BASE64) { Encoding::Base64 } else { Encoding::Binary };
    let pieces = chunks.map_ok(|chunk| futures::stream::iter(pieces(chunk)).map(Ok::<_, Aborted>)).try_flatten();
    let messages = futures::stream::iter([Ok(Bytes::new())]).chain(pieces).boxed();
    Reply::switch(handshake.accept(protocol), async move {
        let Ok(client) = upgrade.await else { return };
        if let Err(error) = messages::send(TokioIo::new(client), encoding, messages).await {
            tracing::debug!(%error, "a log's WebSocket ended early");
        }
    })
}

fn pieces(mut chunk: Bytes) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(chunk.len() / MESSAGE_BYTES_MAX + 1);
    while chunk.len() > MESSAGE_BYTES_MAX {
        pieces.push(chunk.split_to(MESSAGE_BYTES_MAX));
    }
    pieces.push(chunk);
    pieces
}
