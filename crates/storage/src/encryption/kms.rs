//! Calls to key management plugins: gRPC on a Unix socket; and the messages of version 2.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_prost::ProstCodec;

/// A plugin that is not there yet is tried again at this interval, within the call's timeout.
const RETRY: Duration = Duration::from_millis(50);
/// What a call answers that got no answer in time.
pub(crate) const TIMED_OUT: &str = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";

pub(crate) struct Client {
    channel: Channel,
    timeout: Duration,
}

impl Client {
    /// Connects with the first call, and again whenever the connection is lost.
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, String> {
        let socket = PluginSocket::parse(endpoint)?;
        // The address is that of the socket; this one only becomes the authority, which some servers insist on.
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { socket.connect().await.map(TokioIo::new) }
            }));
        Ok(Client { channel, timeout })
    }

    pub async fn status(&self) -> Result<StatusResponse, String> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, String> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, String> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    pub async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, String>
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
        match tokio::time::timeout(self.timeout, attempts).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(format!("rpc error: code = {:?} desc = {}", status.code(), status.message())),
            Err(_) => Err(TIMED_OUT.into()),
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

#[derive(Clone, Debug, PartialEq)]
enum PluginSocket {
    Path(PathBuf),
    /// Linux' sockets without a file.
    Abstract(String),
}

impl PluginSocket {
    fn parse(endpoint: &str) -> Result<Self, String> {
        let path = endpoint
            .strip_prefix("unix:")
            .ok_or_else(|| format!("unsupported scheme in {endpoint:?} for remote KMS provider"))?;
        // After two slashes comes a host, which has no meaning here.
        let path = path.strip_prefix("//").map_or(path, |rest| rest.find('/').map_or("", |at| &rest[at..]));
        Ok(match path.strip_prefix("/@") {
            Some(name) => PluginSocket::Abstract(name.into()),
            None => PluginSocket::Path(path.into()),
        })
    }

    async fn connect(&self) -> std::io::Result<UnixStream> {
        match self {
            PluginSocket::Path(path) => UnixStream::connect(path).await,
            PluginSocket::Abstract(name) => UnixStream::from_std(files::connect_abstract(name)?),
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub healthz: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let cases = [
            ("unix:///var/run/kms.sock", Some(PluginSocket::Path("/var/run/kms.sock".into()))),
            ("unix:/var/run/kms.sock", Some(PluginSocket::Path("/var/run/kms.sock".into()))),
            ("unix:///@kms", Some(PluginSocket::Abstract("kms".into()))),
            ("tcp://localhost:1", None),
        ];
        for (endpoint, expected) in cases {
            assert_eq!(PluginSocket::parse(endpoint).ok(), expected, "{endpoint}");
        }
    }
}
