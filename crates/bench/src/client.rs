//! One HTTP/2 connection over TLS, shared by as many requests as the load keeps open.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::TlsConnector;

use crate::target::TOKEN;

#[derive(Clone)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    authority: Arc<str>,
}

pub struct Reply {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Client {
    pub async fn connect(port: u16) -> Result<Client, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| text(&error))?;
        stream.set_nodelay(true).map_err(|error| text(&error))?;
        let connector = TlsConnector::from(Arc::new(tls()?));
        let name = ServerName::try_from("localhost").map_err(|error| text(&error))?;
        let stream = connector.connect(name, stream).await.map_err(|error| text(&error))?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| text(&error))?;
        tokio::spawn(connection);
        Ok(Client { sender, authority: format!("127.0.0.1:{port}").into() })
    }

    pub async fn get(&self, path: &str) -> Result<Reply, String> {
        self.send(Method::GET, path, "application/json", "application/json", Bytes::new()).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content: &str,
        body: Bytes,
    ) -> Result<Reply, String> {
        let (status, mut incoming) = self.open(method, path, accept, content, body).await?;
        let mut all = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() {
                all.extend_from_slice(&data);
            }
        }
        Ok(Reply { status, body: all.into() })
    }

    /// Sends and answers as soon as there are headers: for watches.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Incoming), String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("accept", accept)
            .header("content-type", content)
            .header("user-agent", "bench/1")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, incoming) = response.into_parts();
        Ok((parts.status, incoming))
    }
}

fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(TrustAnything(provider.clone()));
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// The servers are our own children on loopback.
#[derive(Debug)]
struct TrustAnything(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for TrustAnything {
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
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
