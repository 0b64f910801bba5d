//! The exporter against a collector.

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::Direct;

type Frames = futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;

async fn answer(
    request: http::Request<Incoming>,
    received: mpsc::Sender<ExportRequest>,
) -> Result<Response<StreamBody<Frames>>, Infallible> {
    assert_eq!(request.uri().path(), EXPORT);
    let body = request.into_body().collect().await.unwrap().to_bytes();
    received.send(ExportRequest::decode(&body[5..]).unwrap()).await.unwrap();
    let mut data = BytesMut::new();
    data.put_bytes(0, 5);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = vec![Ok(Frame::data(data.freeze())), Ok(Frame::trailers(trailers))];
    let response = Response::builder().header(header::CONTENT_TYPE, "application/grpc");
    Ok(response.body(StreamBody::new(futures::stream::iter(frames))).unwrap())
}

#[tokio::test]
async fn spans_reach_the_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, mut received) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let service = service_fn(move |request| answer(request, sender.clone()));
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
        }
    });
    let resource = vec![KeyValue::text("service.name", "apiserver")];
    let sink = start(&address.to_string(), resource, Arc::new(Direct)).unwrap();
    // A full batch does not wait.
    for at in 0..BATCH_SPANS {
        sink.send(Span { name: format!("s{at}"), ..Span::default() });
    }
    let request = tokio::time::timeout(Duration::from_secs(30), received.recv()).await.unwrap().unwrap();
    let spans = &request.resource_spans[0];
    assert_eq!(spans.scope_spans[0].spans.len(), BATCH_SPANS);
    assert_eq!(spans.resource.as_ref().unwrap().attributes[0].key, "service.name");
    assert!(start("not an address", Vec::new(), Arc::new(Direct)).is_err());
}
