//! How the bodies of requests are framed, and what an exchange must look like for its connection to be used again.
//!
//! A connection on which it is not certain where a message ends would let one client's bytes be taken for another client's request,
//! or one answer for another. So a length goes with its body or not at all, and a connection goes back to the pool only after a
//! response that says its length in one way, to a request that was sent completely.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::sync::Notify;

use crate::Error;
use crate::client::Body;

/// How many responses with a code below 200 may come before the response.
const INFORMATIONAL_MAX: usize = 100;

/// Whether a request asks for another protocol. Such a request gets a connection of its own.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE) || streams::websocket::is_upgrade(headers)
}

/// Removes what the headers say about the body's length: the connection frames the body by what it is.
pub(crate) fn frame(request: &mut Request<Body>) {
    let (is_empty, length) = (request.body().is_end_stream(), request.body().size_hint().exact());
    let takes_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let headers = request.headers_mut();
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    if is_empty && takes_body {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    } else if !is_empty && length.is_none() {
        // Otherwise the body of a GET would be left out.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// A request and its response, and whether they leave the connection in order.
pub(crate) struct FramedExchange {
    connection: CaptureConnection,
    sent: Arc<AtomicBool>,
    informational: Arc<Informational>,
}

#[derive(Default)]
struct Informational {
    count: AtomicUsize,
    too_many: Notify,
}

impl FramedExchange {
    pub fn begin(request: Request<Body>) -> (Request<Body>, FramedExchange) {
        let (parts, body) = request.into_parts();
        let sent = Arc::new(AtomicBool::new(body.is_end_stream()));
        let body = match body.is_end_stream() {
            true => body,
            false => SentBody { body, sent: sent.clone() }.boxed_unsync(),
        };
        let mut request = Request::from_parts(parts, body);
        let informational = Arc::<Informational>::default();
        let seen = informational.clone();
        hyper::ext::on_informational(&mut request, move |_| {
            if seen.count.fetch_add(1, Ordering::Relaxed) >= INFORMATIONAL_MAX {
                seen.too_many.notify_one();
            }
        });
        let connection = capture_connection(&mut request);
        (request, FramedExchange { connection, sent, informational })
    }

    /// Returns when the server has sent too many responses that are none; dropping the exchange then closes its connection.
    pub async fn flooded(&self) -> Error {
        self.informational.too_many.notified().await;
        Error::Exchange("net/http: too many 1xx informational responses".into())
    }

    /// Whether the whole body was given to the connection.
    pub fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// Keeps the connection from being used again if the response leaves it in doubt where messages end.
    pub fn settle(&self, response: &mut Response<Incoming>) {
        let has_two_lengths = take_second_length(response.version(), response.headers_mut());
        let is_certain = self.is_sent() && !has_two_lengths && response.status() != StatusCode::SWITCHING_PROTOCOLS;
        if is_certain || response.version() == Version::HTTP_2 {
            return;
        }
        if let Some(connection) = &*self.connection.connection_metadata() {
            connection.poison();
        }
    }
}

/// Whether a message has a length and chunks. It was read by its chunks, so the length is removed, as Go does.
fn take_second_length(version: Version, headers: &mut HeaderMap) -> bool {
    version != Version::HTTP_2
        && headers.contains_key(header::TRANSFER_ENCODING)
        && headers.remove(header::CONTENT_LENGTH).is_some()
}

/// A body that notes when the connection has all of it.
struct SentBody {
    body: Body,
    sent: Arc<AtomicBool>,
}

impl hyper::body::Body for SentBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let is_last = match &frame {
            None => true,
            Some(frame) => frame.is_ok() && self.body.is_end_stream(),
        };
        if is_last {
            self.sent.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
