//! A small HTTPS client that trusts any certificate: it only ever talks to the server under test.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    pub token: String,
    tls: TlsConnector,
}

impl Client {
    pub fn new(address: SocketAddr, token: &str) -> Result<Client, String> {
        Ok(Client { address, token: token.to_string(), tls: TlsConnector::from(Arc::new(trusting()?)) })
    }

    /// A connection that speaks one of these protocols, for requests that the client cannot make.
    pub async fn connect(&self, protocols: &[&[u8]]) -> Result<TlsStream<TcpStream>, String> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        let name = ServerName::from(self.address.ip());
        let mut config = (**self.tls.config()).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let tls = TlsConnector::from(Arc::new(config));
        tls.connect(name, stream).await.map_err(|error| error.to_string())
    }

    /// Sends one request on a connection of its own and reads the whole answer.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, String> {
        let stream = self.connect(&[b"http/1.1"]).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        connection.abort();
        Ok(Response::from_parts(parts, bytes))
    }

    /// One connection for many requests at a time.
    pub async fn keep(&self) -> Result<Connection, String> {
        let stream = self.connect(&[b"h2"]).await?;
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Connection { sender, token: self.token.clone(), address: self.address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// An HTTP/2 connection.
#[derive(Clone)]
pub struct Connection {
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    token: String,
    address: SocketAddr,
}

impl Connection {
    /// Sends an object and answers with the status code and the answer.
    pub async fn post(&self, path: &str, object: &Value) -> Result<(u16, Value), String> {
        let request = Request::post(format!("https://{}{path}", self.address))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(object.to_string())))
            .map_err(|error| error.to_string())?;
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// The status of a SubjectAccessReview.
    pub async fn review(&self, review: &Value) -> Result<Value, String> {
        match self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await? {
            (201, mut answer) => Ok(answer["status"].take()),
            (code, answer) => Err(format!("{code}: {answer}")),
        }
    }
}

/// TLS that believes whatever it is shown: for servers that we started ourselves.
pub fn trusting() -> Result<ClientConfig, String> {
    let provider = Arc::new(crypto());
    let versions = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    Ok(versions
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAll(provider)))
        .with_no_client_auth())
}

/// Cryptography with Go's preference of cipher suites, which is that of kubectl and of kubelets: AES-128 before AES-256.
pub fn crypto() -> rustls::crypto::CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let is_preferred = |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).contains("AES_128");
    provider.cipher_suites.sort_by_key(|suite| !is_preferred(suite));
    provider
}

#[derive(Debug)]
struct TrustAll(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
