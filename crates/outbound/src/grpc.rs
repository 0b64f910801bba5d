//! [`UnixGrpc`]: calls to a gRPC server on a Unix socket.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_prost::ProstCodec;

/// A server that is not there yet is tried again at this interval, within the call's timeout.
const RETRY: Duration = Duration::from_millis(50);

/// A client that connects with the first call, and again whenever the connection is lost.
#[derive(Clone)]
pub struct UnixGrpc {
    channel: Channel,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code} desc = {message}")]
pub struct GrpcError {
    /// As Go names it: `Unavailable`.
    pub code: String,
    pub message: String,
}

impl UnixGrpc {
    /// A path that begins with `@` is a name in Linux' namespace of sockets without a file.
    pub fn new(socket: &str) -> UnixGrpc {
        let socket = socket.to_string();
        // The address is that of the socket; this one only becomes the authority, which some servers insist on.
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { connect(&socket).await.map(TokioIo::new) }
            }));
        UnixGrpc { channel }
    }

    /// Calls a method such as `/v1.ExternalJWTSigner/Sign`.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q, timeout: Duration) -> Result<A, GrpcError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let attempts = async {
            loop {
                match self.attempt(path, request.clone()).await {
                    Err(status) if status.code() == tonic::Code::Unavailable => tokio::time::sleep(RETRY).await,
                    outcome => return outcome,
                }
            }
        };
        match tokio::time::timeout(timeout, attempts).await {
            Ok(outcome) => {
                outcome.map_err(|status| GrpcError { code: code(status.code()), message: status.message().to_string() })
            }
            Err(_) => Err(GrpcError { code: "DeadlineExceeded".into(), message: "context deadline exceeded".into() }),
        }
    }

    async fn attempt<Q, A>(&self, path: &'static str, request: Q) -> Result<A, tonic::Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(client.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

/// Go's name of a code.
fn code(code: tonic::Code) -> String {
    match code {
        tonic::Code::Ok => "OK".into(),
        tonic::Code::Cancelled => "Canceled".into(),
        other => format!("{other:?}"),
    }
}

async fn connect(socket: &str) -> std::io::Result<UnixStream> {
    match socket.strip_prefix('@') {
        Some(name) => UnixStream::from_std(files::connect_abstract(name)?),
        None => UnixStream::connect(PathBuf::from(socket)).await,
    }
}
