//! [`Client::post`]: one JSON call, as client-go's REST client makes it.

use std::time::Duration;

use bytes::Bytes;
use codec::Notes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use object::{GroupResource, Reason, Status, Value, quote};
use tokio::time::Instant;

use crate::client::{Client, body, read};
use crate::{Address, Error};

/// How often a server may ask to be called again later.
const RETRIES_MAX: usize = 10;
/// Bytes of an error's text that are passed on.
const ERROR_TEXT_BYTES_MAX: usize = 2048;

/// A POST of JSON.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The whole URL with its query, as error texts show it.
    pub url: &'a str,
    /// Where to connect, if that is not the host in the URL.
    pub address: Option<Address>,
    pub body: Bytes,
    /// When the whole call ends.
    pub deadline: Instant,
    /// The largest response that is accepted.
    pub response_bytes_max: usize,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// There was no response: `Post "https://…": EOF`.
    #[error("{operation} {url}: {error}")]
    Transport { operation: &'static str, url: String, error: Error },
    /// There was a response without a usable body.
    #[error("{0}")]
    Response(String),
    /// The response's code is not 2xx.
    #[error("{}", .0.message)]
    Status(Box<Status>),
}

impl CallError {
    /// Whether calling a webhook of authentication or authorization again may help.
    pub fn may_pass(&self) -> bool {
        match self {
            CallError::Transport { error: Error::Exchange(text), .. } => {
                text.contains("connection reset")
                    || text.contains("broken pipe")
                    || text.contains("http2: client connection lost")
            }
            CallError::Status(status) => {
                let waits = status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0);
                waits || matches!(status.reason, Reason::InternalError | Reason::Timeout | Reason::TooManyRequests)
            }
            _ => false,
        }
    }
}

impl Client {
    /// Sends the body and answers with that of a successful response. A server that answers 429 or 5xx with Retry-After is
    /// called again.
    pub async fn post(&self, request: &Request<'_>) -> Result<Bytes, CallError> {
        let transport = |error| CallError::Transport { operation: "Post", url: quote(request.url), error };
        for attempt in 0.. {
            let began = Instant::now();
            let sent = tokio::time::timeout_at(request.deadline, self.attempt(request)).await;
            let code = match &sent {
                Ok(Ok(response)) => Some(response.status().as_u16()),
                _ => None,
            };
            self.calls.posted(host(request.url), request.body.len(), began, code);
            let response = sent.map_err(|_| transport(Error::Deadline))?.map_err(transport)?;
            let (head, incoming) = response.into_parts();
            let read = tokio::time::timeout_at(request.deadline, read(incoming, request.response_bytes_max)).await;
            if let Some(wait) = retry_after(head.status, &head.headers)
                && attempt < RETRIES_MAX
            {
                let until = Instant::now() + wait;
                if until >= request.deadline {
                    tokio::time::sleep_until(request.deadline).await;
                    return Err(transport(Error::Deadline));
                }
                tokio::time::sleep_until(until).await;
                continue;
            }
            let lost = |error: Error| {
                let why = "unexpected error when reading response body. Please retry. Original error:";
                CallError::Response(format!("{why} {error}"))
            };
            let bytes = read.map_err(|_| lost(Error::Deadline))?.map_err(lost)?;
            self.calls.received(host(request.url), bytes.len());
            return accept(head.status, &head.headers, bytes);
        }
        Err(transport(Error::Deadline))
    }

    async fn attempt(&self, request: &Request<'_>) -> Result<http::Response<hyper::body::Incoming>, Error> {
        let uri: Uri =
            request.url.parse().map_err(|error: http::uri::InvalidUri| Error::Settings(error.to_string()))?;
        let mut builder = http::Request::post(target(&uri, request.address.as_ref())?);
        if let Some(headers) = builder.headers_mut() {
            let host = uri.authority().map_or("", |authority| authority.as_str());
            let host = HeaderValue::from_str(host).map_err(|error| Error::Settings(error.to_string()))?;
            headers.insert(header::HOST, host);
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let sent = builder.body(body(request.body.clone())).map_err(|error| Error::Settings(error.to_string()))?;
        self.send(sent).await
    }
}

/// The host and port of a URL, for metrics.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find(['/', '?']).map_or(rest, |end| &rest[..end])
}

/// The URL to connect to: the same path at another address.
fn target(uri: &Uri, address: Option<&Address>) -> Result<Uri, Error> {
    let Some(address) = address else { return Ok(uri.clone()) };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let built = Uri::builder().scheme("https").authority(address.to_string()).path_and_query(path).build();
    built.map_err(|error| Error::Settings(error.to_string()))
}

fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn accept(status: StatusCode, headers: &HeaderMap, bytes: Bytes) -> Result<Bytes, CallError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if (200..=206).contains(&status.as_u16()) {
        if bytes.is_empty() {
            let shown = if content_type.is_empty() { "application/json" } else { content_type };
            let code = status.as_u16();
            return Err(CallError::Response(format!(
                "0-length response with status code: {code} and content type: {shown}"
            )));
        }
        return Ok(bytes);
    }
    let is_text = content_type.is_empty() || content_type.to_ascii_lowercase().starts_with("text/");
    let shown = bytes.get(..ERROR_TEXT_BYTES_MAX).unwrap_or(&bytes);
    let text = String::from_utf8_lossy(shown);
    let text = if is_text { text.trim() } else { "unknown" };
    let mut unexpected = Status::generic(status.as_u16(), "POST", &GroupResource::default(), "", text);
    unexpected.details = None;
    Err(CallError::Status(Box::new(sent_status(&bytes).unwrap_or(unexpected))))
}

/// The Status that a server sent as its error, if it did.
fn sent_status(bytes: &[u8]) -> Option<Status> {
    let value: Value = codec::json::decode(bytes, None, &mut Notes::ignore()).ok()?;
    let is_status = value.str_at(&["kind"]) == "Status" && value.str_at(&["status"]) == "Failure";
    is_status.then(|| Status::from_value(&value))
}
