//! exec and attach: WebSocket channels that end streams are translated to SPDY, everything else is passed through.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use object::{GroupVersionKind, Status, Value, quote, value};
use registry::Target;
use std::sync::Arc;
use streams::remote_command::{self, Ended, KUBELET_PROTOCOLS, PROTOCOL, Session, StreamOptions};
use streams::websocket::{Handshake, Refused, is_websocket};

use super::{StreamMeters, pass_through, refused};
use crate::Accept;
use crate::ForwardClient;
use crate::forward::{Unreachable, request};
use crate::reply::{Body, Reply};
use crate::scope::Scope;

/// How much of a kubelet's refusal is passed on.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const PROTOCOL_VERSION: &str = "x-stream-protocol-version";

pub async fn command(scope: &Scope, target: Target, options: &Value) -> Result<Reply, Status> {
    let features = &scope.api.features;
    let call = &scope.call;
    if !features.enabled("TranslateStreamCloseWebsocketRequests") {
        return pass_through(scope, &target).await;
    }
    let to_kubelet = features.enabled("ExtendWebSocketsToKubelet") && target.websockets;
    scope.api.streams.routed(&call.info.subresource, to_kubelet);
    if to_kubelet || !is_websocket(&call.headers) || !remote_command::is_offered(&call.headers) {
        return pass_through(scope, &target).await;
    }
    let meters = scope.api.streams.clone();
    let handshake = match Handshake::read(&call.method, &call.headers) {
        Ok(handshake) => handshake,
        Err(why) => {
            meters.translated(400);
            return Ok(refused(&why));
        }
    };
    let (Some(dial), Some(client)) = (scope.api.dial.clone(), scope.take_body().take_upgrade()) else {
        meters.translated(400);
        return Ok(refused(&Refused { code: StatusCode::BAD_REQUEST, text: "not websocket protocol" }));
    };
    let is_set = |field: &str| options.field(field).as_bool() == Some(true);
    let options = StreamOptions {
        stdin: is_set("stdin"),
        stdout: is_set("stdout"),
        stderr: is_set("stderr"),
        tty: is_set("tty"),
    };
    Ok(Reply::switch(handshake.accept(Some(PROTOCOL)), async move {
        let Ok(client) = client.await else { return };
        let Ok(session) = Session::open(TokioIo::new(client), options).await else { return meters.translated(400) };
        translate(session, &*dial, &target, &meters).await;
    }))
}

/// Runs the command on the kubelet and tells the client how it ended.
async fn translate(
    mut session: Session<TokioIo<Upgraded>>,
    dial: &dyn ForwardClient,
    target: &Target,
    meters: &Arc<StreamMeters>,
) {
    let (kubelet, has_status) = match kubelet(dial, target).await {
        Ok(connected) => connected,
        Err(why) => {
            meters.translated(500);
            return session.finish(&internal(&why)).await;
        }
    };
    let (code, status) = match session.run(kubelet).await {
        Ok(message) => outcome(&message, has_status),
        Err(Ended::ByKubelet(why)) => (500, internal(&why)),
        Err(Ended::ByClient | Ended::Idle) => {
            meters.translated(500);
            return session.abandon().await;
        }
    };
    meters.translated(code);
    session.finish(&status).await;
}

/// A connection to the kubelet on which it speaks SPDY, and whether its error stream ends with a Status.
async fn kubelet(dial: &dyn ForwardClient, target: &Target) -> Result<(TokioIo<Upgraded>, bool), String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for protocol in KUBELET_PROTOCOLS {
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
    }
    let scheme = if target.tls { "https" } else { "http" };
    let url = quote(&format!("{scheme}://{}{}", target.authority(), target.path));
    let sending = |error| {
        let (Unreachable::NotAllowed(why) | Unreachable::Failed(why) | Unreachable::Broken(why)) = error;
        format!("error sending request: Post {url}: {why}")
    };
    let sent = request(target, Method::POST, headers, Body::Empty.into_stream()).map_err(sending)?;
    let mut response = dial.send(target, sent).await.map_err(sending)?;
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let says = |name: &str, wanted: &str| text(name).to_ascii_lowercase().contains(wanted);
    if let (301..=303 | 307 | 308, location @ 1..) = (response.status().as_u16(), text("location").len()) {
        let to = quote(&text("location")[..location]);
        return Err(format!("error sending request: Post {to}: redirect not allowed"));
    }
    let is_spdy = says("connection", "upgrade") && says("upgrade", "spdy/3.1");
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_spdy {
        let read = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let said = read.map(|body| body.to_bytes());
        let said = said.as_ref().map_or("unable to read error from server response".into(), |said| refusal(said));
        return Err(format!("unable to upgrade connection: {said}"));
    }
    let has_status = matches!(text(PROTOCOL_VERSION), "v5.channel.k8s.io" | "v4.channel.k8s.io");
    let upgraded = hyper::upgrade::on(&mut response).await.map_err(|error| error.to_string())?;
    Ok((TokioIo::new(upgraded), has_status))
}

/// What a response that does not upgrade says: the message of a Status, or its text.
fn refusal(body: &[u8]) -> String {
    let decoded = codec::json::decode(body, None, &mut codec::Notes::ignore());
    let message = decoded.ok().and_then(|value| {
        let texts = ["message", "error"].map(|field| value.str_at(&[field]).trim().to_string());
        texts.into_iter().find(|text| !text.is_empty())
    });
    let text = message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_string());
    if text.is_empty() { "empty server response".into() } else { text }
}

/// The code that is counted and the Status for the client, from what the kubelet wrote to the error stream.
fn outcome(message: &Bytes, has_status: bool) -> (u16, Bytes) {
    if message.is_empty() {
        return (200, encode(&value!({"metadata": {}, "status": "Success"})));
    }
    let text = String::from_utf8_lossy(message);
    if !has_status {
        return (500, internal(&format!("error executing remote command: {text}")));
    }
    let status = match codec::json::decode(message, None, &mut codec::Notes::ignore()) {
        Ok(status) => status,
        Err(why) => return (500, internal(&format!("error stream protocol error: {why} in {}", quote(&text)))),
    };
    match (status.str_at(&["status"]), status.str_at(&["reason"])) {
        ("Success", _) => (200, encode(&value!({"metadata": {}, "status": "Success"}))),
        ("Failure", "NonZeroExitCode") => exit_code(&status),
        ("Failure", _) => (500, internal(status.str_at(&["message"]))),
        _ => (500, internal("error stream protocol error: unknown error")),
    }
}

fn exit_code(status: &Value) -> (u16, Bytes) {
    let wrong = |why: String| (500, internal(&format!("error stream protocol error: {why}")));
    if status.field("details").is_null() {
        return wrong("details must be set".into());
    }
    let mut causes = status.list_at(&["details", "causes"]).iter();
    let Some(cause) = causes.find(|cause| cause.str_at(&["reason"]) == "ExitCode") else {
        return wrong("no ExitCode cause given".into());
    };
    let text = cause.str_at(&["message"]);
    let Ok(code) = text.parse::<u8>() else { return wrong(format!("invalid exit code value {}", quote(text))) };
    let status = value!({
        "metadata": {},
        "status": "Failure",
        "message": (format!("command terminated with non-zero exit code: command terminated with exit code {code}")),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": (code.to_string())}]},
    });
    (200, encode(&status))
}

fn internal(why: &str) -> Bytes {
    let mut status = Status::internal(why).to_value();
    status.remove(&["kind"]);
    status.remove(&["apiVersion"]);
    encode(&status)
}

/// As JSON without a newline at its end.
fn encode(status: &Value) -> Bytes {
    let mut json = crate::encode_value(&Accept::json(), &GroupVersionKind::new("", "v1", "Status"), status);
    json.truncate(json.trim_ascii_end().len());
    json
}
