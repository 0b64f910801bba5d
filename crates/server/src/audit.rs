//! The audit record of a request: begun after authentication, completed when the response was sent.

use std::borrow::Cow;
use std::sync::Arc;

use audit::{Auditor, Record};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, header};
use object::{GroupVersion, Meta, Randomness, Str, Value};
use rest::{Call, Chunks, Reply, ReplyBody};

use crate::peer::Peer;

/// A response object that is larger is left out of the record.
const RESPONSE_OBJECT_BYTES_MAX: usize = 16 << 20;
/// Status objects of successful deletions are looked for in responses up to this size.
const STATUS_BYTES_MAX: usize = 64 << 10;

/// Starts the record of a request by this user; None if the policy does not ask for one.
pub fn begin(auditor: &Auditor, call: &Call, audit_id: &str, peer: &Peer) -> Option<Arc<Record>> {
    let Call { info, user, uri, headers, .. } = call;
    auditor.begin(&audit::Request {
        info,
        user,
        audit_id,
        uri: uri.path_and_query().map_or(uri.path(), |path| path.as_str()),
        user_agent: &text(headers, "user-agent"),
        source_ips: source_ips(headers, peer),
    })
}

/// The client's audit id if it sent a plausible one, else a new one.
pub fn id(headers: &HeaderMap, randomness: &dyn Randomness) -> String {
    let sent = headers.get("audit-id").and_then(|value| value.to_str().ok()).unwrap_or("");
    match sent.len() {
        1..=64 => sent.to_string(),
        _ => randomness.uuid(),
    }
}

/// Waits for a future and notes in the record, if there is one, how long that took.
pub async fn timed<T>(record: Option<&Record>, layer: &'static str, future: impl Future<Output = T>) -> T {
    let noted = record.map(|record| (record, tokio::time::Instant::now()));
    let output = future.await;
    if let Some((record, began)) = noted {
        record.took(layer, began.elapsed());
    }
    output
}

/// Notes in the record what is sent back. A list that the record wants is read whole before it is sent.
pub async fn note_reply(record: &Record, reply: &mut Reply, long_running: bool) {
    for annotation in reply.annotations.drain(..).filter(|note| !note.with_object || record.wants_request()) {
        record.annotate(&annotation.key, annotation.value);
    }
    if let Some(status) = &reply.failure {
        record.response_status(status.to_value());
        return;
    }
    let form = reply.headers.get(header::CONTENT_TYPE).and_then(|kind| ResponseForm::of(kind.as_bytes()));
    let Some(form) = form.filter(|_| !long_running) else { return };
    if record.wants_response() {
        collect(&mut reply.body).await;
    }
    let ReplyBody::Ready(bytes) = &reply.body else { return };
    if !record.wants_response() && bytes.len() > STATUS_BYTES_MAX {
        return;
    }
    let Some(json) = form.json(bytes).filter(is_object) else { return };
    match status(&json) {
        Some(status) => record.response_status(status),
        None => record.response_json(&json),
    }
}

/// How a response is written.
#[derive(Clone, Copy)]
enum ResponseForm {
    Json,
    Protobuf,
    Cbor,
}

impl ResponseForm {
    fn of(content_type: &[u8]) -> Option<ResponseForm> {
        match content_type {
            kind if kind.starts_with(b"application/json") => Some(ResponseForm::Json),
            kind if kind.starts_with(b"application/vnd.kubernetes.protobuf") => Some(ResponseForm::Protobuf),
            kind if kind.starts_with(b"application/cbor") => Some(ResponseForm::Cbor),
            _ => None,
        }
    }

    /// The same in JSON, which events are written in; None if it cannot be read.
    fn json(self, bytes: &Bytes) -> Option<Bytes> {
        let (value, schema) = match self {
            ResponseForm::Json => return Some(bytes.clone()),
            ResponseForm::Cbor => (codec::cbor::decode(bytes, None, &mut codec::Notes::ignore()).ok()?, None),
            ResponseForm::Protobuf => {
                let envelope = codec::proto::Envelope::open(bytes).ok()?;
                let kind = GroupVersion::parse(&envelope.api_version).ok()?.with_kind(&envelope.kind);
                let schema = schema::builtin().schema(&kind)?;
                let mut value = codec::proto::decode(bytes, schema).ok()?;
                value.set_type(&kind);
                (value, Some(schema))
            }
        };
        let mut json = Vec::new();
        codec::json::encode(&value, schema, &mut json);
        Some(json.into())
    }
}

/// Makes a streamed body one that is ready, unless it is too large.
async fn collect(body: &mut ReplyBody) {
    let ReplyBody::Stream { chunks, estimate } = body else { return };
    let estimate = *estimate;
    let mut rest = std::mem::replace(chunks, futures::stream::empty().boxed());
    let mut read = BytesMut::new();
    let mut cut = None;
    while read.len() <= RESPONSE_OBJECT_BYTES_MAX {
        match rest.next().await {
            Some(Ok(chunk)) => read.extend_from_slice(&chunk),
            Some(Err(error)) => {
                cut = Some(Err(error));
                break;
            }
            None => {
                *body = ReplyBody::Ready(read.freeze());
                return;
            }
        }
    }
    let begun = futures::stream::iter([Ok(read.freeze())].into_iter().chain(cut));
    let chunks: Chunks = begun.chain(rest).boxed();
    *body = ReplyBody::Stream { chunks, estimate };
}

/// Whether the JSON is an API object. What else is answered, such as a version or an OpenAPI document, is not recorded.
fn is_object(json: &Bytes) -> bool {
    let members = json.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    members.starts_with(b"\"kind\"") || members.starts_with(b"\"apiVersion\"")
}

/// The Status that the bytes are, if they are one.
fn status(json: &Bytes) -> Option<Value> {
    // The kind is among the first members; most objects are no Status and are not decoded.
    let head = &json[..json.len().min(64)];
    head.windows(8).any(|window| window == b"\"Status\"").then_some(())?;
    let value: Value = codec::json::decode(json, None, &mut codec::Notes::ignore()).ok()?;
    (value.str_at(&["kind"]) == "Status" && value.str_at(&["apiVersion"]) == "v1").then_some(value)
}

/// The addresses that `X-Forwarded-For` and `X-Real-Ip` name, then that of the connection.
fn source_ips(headers: &HeaderMap, peer: &Peer) -> Vec<Str> {
    let mut addresses: Vec<Str> = Vec::new();
    for value in headers.get_all("x-forwarded-for").iter().chain(headers.get("x-real-ip")) {
        let value = String::from_utf8_lossy(value.as_bytes());
        for address in value.split(',').filter_map(|text| text.trim().parse::<std::net::IpAddr>().ok()) {
            push_new(&mut addresses, address);
        }
    }
    let own = peer.address.ip();
    if addresses.last().is_none_or(|last| *last != own.to_string()) {
        addresses.push(own.to_string().into());
    }
    addresses
}

/// How many addresses of proxies are kept.
const SOURCES_MAX: usize = 64;

fn push_new(addresses: &mut Vec<Str>, address: std::net::IpAddr) {
    let text: Str = address.to_string().into();
    if addresses.len() < SOURCES_MAX && addresses.last() != Some(&text) {
        addresses.push(text);
    }
}

/// A header as it is recorded: bytes that are not UTF-8 are replaced, so that nothing can be hidden behind them.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Cow<'a, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}
