//! [`PollMeter`]: measures how long requests keep their worker thread. Only tests have one.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame};

use crate::Server;
use crate::arrival::ArrivingBody;
use crate::chain::HttpResponse;
use crate::peer::Peer;

/// Is told of each poll of a request and of its answer.
pub trait PollMeter: Debug + Send + Sync {
    /// Does the poll, and measures it. The poll tells whether it did work away from the other tasks of its thread, which keeps none
    /// of them waiting.
    fn measure(&self, request: &str, poll: &mut dyn FnMut() -> bool);
}

/// Does a poll and tells its meter what that wants to know.
fn measure<T>(meter: &dyn PollMeter, request: &str, mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
    let mut polled = Poll::Pending;
    meter.measure(request, &mut || {
        rest::was_aside();
        polled = poll();
        rest::was_aside()
    });
    polled
}

/// Answers a request under a meter's eyes.
pub async fn measured(
    meter: Arc<dyn PollMeter>,
    server: Arc<Server>,
    request: Request<ArrivingBody>,
    peer: Arc<Peer>,
) -> HttpResponse {
    let shown = format!("{} {}", request.method(), request.uri());
    let mut answer = pin!(server.serve(request, peer));
    let response = poll_fn(|cx| measure(&*meter, &shown, || answer.as_mut().poll(cx))).await;
    response.map(|body| Measured { meter, request: shown, body }.boxed_unsync())
}

struct Measured {
    meter: Arc<dyn PollMeter>,
    request: String,
    body: UnsyncBoxBody<Bytes, rest::Aborted>,
}

impl Body for Measured {
    type Data = Bytes;
    type Error = rest::Aborted;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, rest::Aborted>>> {
        let Measured { meter, request, body } = &mut *self;
        measure(&**meter, request, || Pin::new(&mut *body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
