//! Spans of requests, with a collector that takes them, and one that does not.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use object::Value;
use prost::Message;
use spans::{AnyValue, Kind, Scalar, Span};
use support::Node;
use support::hooks::{Hooks, config_map, configure, rule};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[derive(Clone, PartialEq, prost::Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

type Frames = futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;

async fn answer(
    request: http::Request<Incoming>,
    received: mpsc::UnboundedSender<Span>,
) -> Result<Response<StreamBody<Frames>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let export = ExportRequest::decode(&body[5..]).unwrap();
    let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    for span in scopes.flat_map(|scope| scope.spans) {
        let _ = received.send(span);
    }
    let mut data = BytesMut::new();
    data.put_bytes(0, 5);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = vec![Ok(Frame::data(data.freeze())), Ok(Frame::trailers(trailers))];
    let response = Response::builder().header(header::CONTENT_TYPE, "application/grpc");
    Ok(response.body(StreamBody::new(futures::stream::iter(frames))).unwrap())
}

/// Starts a collector; returns its address and what it gets.
async fn collector() -> (String, mpsc::UnboundedReceiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let service = service_fn(move |request| answer(request, sender.clone()));
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, received)
}

fn configuration(folder: &Path, endpoint: &str) -> PathBuf {
    let path = folder.join("tracing.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {endpoint}\n\
         samplingRatePerMillion: 1000000\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn attribute<'a>(span: &'a Span, key: &str) -> &'a str {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()) {
        Some(AnyValue { value: Some(Scalar::Text(text)) }) => text,
        _ => "",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_write_is_traced_down_to_the_store_and_its_webhooks() {
    let (endpoint, mut received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let file = configuration(folder.path(), &endpoint);
    let node = Node::start_with(&[], "10.0.0.0/24", |config| config.tracing_file = Some(file)).await;
    let (mut client, hooks) = (node.client().await, Hooks::start().await);
    let maps = rule("", &["v1"], &["configmaps"], &["CREATE"]);
    configure(&mut client, false, "v", vec![hooks.hook("check", maps, &[])]).await;
    assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map("traced")).await.0, 201);

    let mut spans: Vec<Span> = Vec::new();
    let is_request = |span: &Span| span.name == "POST /api/v1/namespaces/{:namespace}/configmaps";
    // The span of the request is the last to end.
    while !spans.last().is_some_and(is_request) {
        spans.push(tokio::time::timeout(Duration::from_secs(60), received.recv()).await.unwrap().unwrap());
    }
    let request = spans.iter().find(|span| is_request(span)).unwrap();
    let below = |parent: &Span, name: &str| {
        let found = spans.iter().find(|span| span.name == name && span.parent_span_id == parent.span_id);
        found.unwrap_or_else(|| panic!("{name} below {}: {spans:#?}", parent.name))
    };
    for filter in ["authentication", "constrainedimpersonation", "priorityandfairness", "authorization"] {
        below(request, filter);
    }
    let create = below(request, "Create");
    assert_eq!((attribute(create, "resource"), attribute(create, "scope")), ("configmaps", "resource"));
    let events: Vec<&str> = create.events.iter().map(|event| event.name.as_str()).collect();
    let want = ["limitedReadBody succeeded", "About to store object in database", "About to write a response"];
    assert_eq!(events, want);
    let write = below(create, "Create embedded");
    assert_eq!(attribute(write, "key"), "/registry/configmaps/default/traced");
    let called = below(create, "Call validating webhook");
    assert_eq!((attribute(called, "webhook"), attribute(called, "operation")), ("check.hooks.example", "CREATE"));
    let sent = below(called, "HTTP POST");
    assert_eq!(sent.kind, Kind::Client as i32);
    let traceparent = format!("00-{}-{}-01", hex(&request.trace_id), hex(&sent.span_id));
    assert_eq!(hooks.traces(), [traceparent]);
}

/// Requests do not wait for a collector that takes connections and never answers; spans that are too many are dropped.
#[tokio::test]
async fn a_collector_that_hangs_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = configuration(folder.path(), &endpoint);
    let node = Node::start_with(&[], "10.0.0.0/24", |config| config.tracing_file = Some(file)).await;
    let mut client = node.client().await;
    // More spans than the exporter's queue has room for.
    for _ in 0..600 {
        assert_eq!(client.ask("GET", "/version", &Value::Null).await.0, 200);
    }
    drop(listener);
}
