//! [`ArrivingBody`]: the body of a request, from a connection or from a client in the same process.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

/// A failure to read a body.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
pub enum ArrivingBody {
    Connection(Incoming),
    /// In a mutex only because bodies must be `Sync`.
    Process(Mutex<UnsyncBoxBody<Bytes, BodyError>>),
}

impl ArrivingBody {
    /// The body that a client in the same process sends.
    pub fn in_process<B>(body: B) -> ArrivingBody
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
    {
        ArrivingBody::Process(Mutex::new(body.map_err(Into::into).boxed_unsync()))
    }
}

impl Body for ArrivingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            ArrivingBody::Connection(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            ArrivingBody::Process(body) => Pin::new(body.get_mut()).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ArrivingBody::Connection(body) => body.is_end_stream(),
            ArrivingBody::Process(body) => body.lock().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ArrivingBody::Connection(body) => body.size_hint(),
            ArrivingBody::Process(body) => body.lock().size_hint(),
        }
    }
}
