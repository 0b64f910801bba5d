//! What goes back: a status code, headers, and a body that is ready or streams.

use std::collections::HashSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body as _, Frame};
use hyper::upgrade::OnUpgrade;
use object::{GroupVersionKind, Status, Value};
use schema::Schema;

use crate::forward::ForwardBody;
use crate::media::{Accept, Media};

/// How much of a body that is too large is read and thrown away, and for how long.
const DISCARD_MAX: usize = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// So much room is made for a body before more of it has arrived, whatever its client says about its length.
const FIRST_BYTES: usize = 256 * 1024;

/// A body as it arrives. Its errors are the answer to the request: it was too slow, or cannot be read.
pub type RequestBody = BoxBody<Bytes, Status>;

/// A request's body, read when a verb wants it.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Stream(RequestBody),
    Ready(Bytes),
    /// Any of the others, of a request whose client would like to speak another protocol afterwards. Only what switches protocols
    /// looks at the wish; everything else reads the body.
    Upgradable(OnUpgrade, Box<Body>),
}

impl Body {
    /// The connection, if the request wants to make something else of it. The body stays.
    pub(crate) fn take_upgrade(&mut self) -> Option<OnUpgrade> {
        let (upgrade, content) = std::mem::take(self).split();
        *self = content;
        upgrade
    }

    /// The connection that may become something else, and the body alone.
    pub fn split(self) -> (Option<OnUpgrade>, Body) {
        match self {
            Body::Upgradable(upgrade, content) => (Some(upgrade), *content),
            content => (None, content),
        }
    }

    /// As it comes, for passing it on.
    pub(crate) fn into_stream(self) -> ForwardBody {
        let ready = |bytes| http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
        match self {
            Body::Empty => ready(Bytes::new()),
            Body::Ready(bytes) => ready(bytes),
            Body::Stream(body) => body.map_err(|status| std::io::Error::other(status.message)).boxed_unsync(),
            Body::Upgradable(_, content) => content.into_stream(),
        }
    }

    /// Everything, if it is not more than `limit` bytes.
    pub async fn read(self, limit: usize) -> Result<Bytes, Status> {
        let mut incoming = match self.split().1 {
            Body::Empty | Body::Upgradable(..) => return Ok(Bytes::new()),
            Body::Ready(bytes) if bytes.len() <= limit => return Ok(bytes),
            Body::Ready(_) => return Err(too_large(limit)),
            Body::Stream(incoming) => incoming,
        };
        let hint = incoming.size_hint();
        if hint.lower() > limit as u64 {
            discard(&mut incoming).await;
            return Err(too_large(limit));
        }
        let mut read = BytesMut::with_capacity(hint.upper().unwrap_or(0).min(FIRST_BYTES as u64) as usize);
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                if read.len() + data.len() > limit {
                    drop(read);
                    discard(&mut incoming).await;
                    return Err(too_large(limit));
                }
                read.extend_from_slice(&data);
            }
        }
        Ok(read.freeze())
    }
}

/// Reads on for a while without keeping anything: a client that is still sending might not read the answer otherwise.
async fn discard(incoming: &mut RequestBody) {
    let mut left = DISCARD_MAX;
    let reading = async {
        while let Some(Ok(frame)) = incoming.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

fn too_large(limit: usize) -> Status {
    Status::request_too_large(format_args!("limit is {limit}"))
}

/// An answer.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ReplyBody,
    /// What admission notes for the audit log.
    pub annotations: Vec<admission::Annotation>,
    /// The Status that the body is, if the request failed; for the audit log.
    pub failure: Option<Box<Status>>,
    /// Trailers of a response that is passed on from another server.
    pub trailers: Option<Trailers>,
    /// Whether another server made it: a pod, a Service, a kubelet or an extension server.
    pub passed_back: bool,
}

/// Trailers are known when the body has ended.
pub type Trailers = tokio::sync::oneshot::Receiver<HeaderMap>;

/// A body that is made while it is sent.
pub type Chunks = BoxStream<'static, Result<Bytes, Aborted>>;

/// The body ends before it is complete. The stream is reset, so that clients do not take the part for the whole.
#[derive(Debug)]
pub struct Aborted;

impl std::fmt::Display for Aborted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer cannot be completed")
    }
}

impl std::error::Error for Aborted {}

pub enum ReplyBody {
    Ready(Bytes),
    /// Chunks as they are made: lists and watches. The estimate is of the whole length, 0 where it has no end.
    Stream {
        chunks: Chunks,
        estimate: usize,
    },
    /// None: the connection becomes something else, and this task is run for as long as it lasts.
    Switch(BoxFuture<'static, ()>),
}

impl Reply {
    pub fn new(status: StatusCode, content_type: &'static str, body: ReplyBody) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Reply::with(status, headers, body)
    }

    /// A text that is no object of the API.
    pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Reply {
        Reply::new(status, "text/plain; charset=utf-8", ReplyBody::Ready(text.into()))
    }

    /// A text as Go's `http.Error` sends it: browsers must not take it for anything else.
    pub fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
        let mut reply = Reply::text(status, text);
        reply.headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        reply
    }

    /// A reply with headers of its own.
    pub fn with(status: StatusCode, headers: HeaderMap, body: ReplyBody) -> Reply {
        Reply { status, headers, body, annotations: Vec::new(), failure: None, trailers: None, passed_back: false }
    }

    /// An object that exists only for this answer: a Status, a Table, a review.
    pub fn value(status: StatusCode, accept: &Accept, kind: &GroupVersionKind, value: &Value) -> Reply {
        Reply::encoded(status, accept, schema::builtin().schema(kind), value)
    }

    /// An object that is written by a schema, or without one.
    pub fn encoded(status: StatusCode, accept: &Accept, schema: Option<Schema<'_>>, value: &Value) -> Reply {
        let bytes = encode(accept, schema, value);
        Reply::new(status, accept.media.content_type(), ReplyBody::Ready(bytes))
    }

    /// Adds a `Warning` header for each text, as upstream's recorder formats them.
    pub fn warn(mut self, warnings: &[String]) -> Reply {
        for warning in fitting(warnings) {
            let text = format!("299 - {}", quoted_string(&warning));
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                self.headers.append(HeaderName::from_static("warning"), value);
            }
        }
        self
    }

    /// As an HTTP response.
    pub fn into_response(self) -> http::Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Aborted>> {
        let body = match self.body {
            ReplyBody::Ready(bytes) => http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
            ReplyBody::Stream { chunks, .. } => match self.trailers {
                None => http_body_util::StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync(),
                Some(trailers) => {
                    let last = futures::stream::once(trailers).filter_map(|sent| ready(sent.ok().map(Frame::trailers)));
                    let frames = chunks.map_ok(Frame::data).chain(last.map(Ok));
                    http_body_util::StreamBody::new(frames).boxed_unsync()
                }
            },
            ReplyBody::Switch(task) => {
                tokio::spawn(task);
                http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
            }
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// How many characters all warnings together may have, and each of them once that was not enough.
const WARNINGS_MAX: usize = 4 * 1024;
const WARNING_MAX: usize = 256;

/// Each text once. Where all of them are too long together, each is cut, and what follows the limit is left out.
fn fitting(warnings: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let texts = warnings.iter().map(String::as_str).filter(|text| !text.is_empty());
    let texts: Vec<&str> = texts.filter(|text| seen.insert(*text)).collect();
    let length = |text: &str| text.chars().count();
    let Some(first_over) = texts
        .iter()
        .scan(0, |all, text| {
            Some({
                *all += length(text);
                *all
            })
        })
        .position(|all| all > WARNINGS_MAX)
    else {
        return texts.into_iter().map(str::to_string).collect();
    };
    let mut written = 0;
    let mut kept = Vec::new();
    for (i, text) in texts.into_iter().enumerate() {
        // What came before the limit was known stays, cut; the rest only while there is room.
        if i > first_over && written >= WARNINGS_MAX {
            break;
        }
        let cut: String = text.chars().take(WARNING_MAX).collect();
        written += length(&cut);
        kept.push(cut);
    }
    kept
}

/// A quoted-string of RFC 7230 without control characters.
fn quoted_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The one exit for failures: a Status in the representation the client reads.
pub fn failure(status: &Status, accept: &Accept) -> Reply {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = GroupVersionKind::new("", "v1", "Status");
    let mut reply = Reply::value(code, &accept.refusal(), &kind, &status.to_value());
    reply.failure = Some(Box::new(status.clone()));
    if let Some(details) = status.details.as_ref().filter(|details| details.retry_after_seconds > 0) {
        reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(details.retry_after_seconds));
    }
    reply
}

/// A failure as upstream's timeout filter writes it: a Status without kind and apiVersion, as plain text, so that clients do
/// not take it for a Status of the API.
pub fn untyped_failure(status: &Status) -> Reply {
    let mut value = status.to_value();
    value.remove(&["kind"]);
    value.remove(&["apiVersion"]);
    let mut json = encode_value(&Accept::json(), &GroupVersionKind::new("", "v1", "Status"), &value).to_vec();
    if json.last() != Some(&b'\n') {
        json.push(b'\n');
    }
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Reply::text(code, json)
}

/// Encodes a whole object of a built-in kind.
pub fn encode_value(accept: &Accept, kind: &GroupVersionKind, value: &Value) -> Bytes {
    encode(accept, schema::builtin().schema(kind), value)
}

/// Encodes a whole object. Upstream ends JSON with a newline unless it is indented.
pub(crate) fn encode(accept: &Accept, schema: Option<Schema<'_>>, value: &Value) -> Bytes {
    let bytes = crate::wire::encode(value, accept.media, schema, accept.pretty);
    if accept.media != Media::Json || accept.pretty {
        return bytes;
    }
    let mut line = BytesMut::from(bytes);
    line.extend_from_slice(b"\n");
    line.freeze()
}
