//! Sends spans to an OpenTelemetry collector over gRPC, in batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use spans::{Finished, KeyValue, Sink, Span};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_prost::ProstCodec;

use crate::{Address, Dial, Stream};

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// As OpenTelemetry's SDKs have them: spans that wait, spans in a batch, and how long a batch waits to become full.
const QUEUE_SPANS: usize = 2048;
const BATCH_SPANS: usize = 512;
const BATCH_WAIT: Duration = Duration::from_secs(5);
/// How long the collector may take to take a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ExportResponse {}

/// Starts a task that sends spans to a collector at `host:port` or `unix:///path`. `resource` says who sends them.
pub fn start(endpoint: &str, resource: Vec<KeyValue>, dial: Arc<dyn Dial>) -> Result<Sink, String> {
    let channel = channel(endpoint, dial)?;
    let (sink, finished) = Sink::new(QUEUE_SPANS);
    tokio::spawn(run(finished, channel, OtlpResource { attributes: resource }));
    Ok(sink)
}

fn channel(endpoint: &str, dial: Arc<dyn Dial>) -> Result<Channel, String> {
    let wrong = || format!("the tracing endpoint {} is not usable", object::quote(endpoint));
    if let Some(path) = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")) {
        let path = PathBuf::from(path);
        return Ok(Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(
            move |_: Uri| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            },
        )));
    }
    let host = endpoint.strip_prefix("dns://").unwrap_or(endpoint).trim_start_matches('/');
    let uri: Uri = format!("http://{host}").parse().map_err(|_| wrong())?;
    let address = Address {
        host: uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_string(),
        port: uri.port_u16().unwrap_or(4317),
    };
    let endpoint = Endpoint::from_shared(format!("http://{host}")).map_err(|_| wrong())?;
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let (dial, address) = (dial.clone(), address.clone());
        async move {
            let stream: Box<dyn Stream> = dial.dial(&address).await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    })))
}

async fn run(mut finished: Finished, channel: Channel, resource: OtlpResource) {
    let mut batch = Vec::with_capacity(BATCH_SPANS);
    while let Some(first) = finished.next().await {
        batch.push(first);
        let full = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_SPANS {
            match tokio::time::timeout_at(full, finished.next()).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        let lost = finished.take_dropped();
        if lost > 0 {
            tracing::warn!(lost, "spans were dropped because too many waited for the collector");
        }
        let sent = std::mem::take(&mut batch);
        if let Err(error) = export(channel.clone(), resource.clone(), sent).await {
            tracing::warn!(error, "spans could not be sent to the collector");
        }
    }
}

async fn export(channel: Channel, resource: OtlpResource, spans: Vec<Span>) -> Result<(), String> {
    let scope_spans = vec![ScopeSpans { spans }];
    let request = ExportRequest { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] };
    let mut grpc = Grpc::new(channel);
    let call = async {
        grpc.ready().await.map_err(|error| error.to_string())?;
        let codec: ProstCodec<ExportRequest, ExportResponse> = ProstCodec::default();
        let path = http::uri::PathAndQuery::from_static(EXPORT);
        grpc.unary(Request::new(request), path, codec).await.map_err(|status| status.message().to_string())
    };
    match tokio::time::timeout(EXPORT_TIMEOUT, call).await {
        Ok(exported) => exported.map(drop),
        Err(_) => Err("context deadline exceeded".into()),
    }
}

#[cfg(test)]
mod tests;
