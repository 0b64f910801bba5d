//! One HTTP/2 connection over TLS, shared by as many requests as the load keeps open.

use std::sync::Arc;

use bytes::Bytes;
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::target::TOKEN;

#[derive(Clone)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    authority: Arc<str>,
    token: &'static str,
    port: u16,
}

/// All of an answer is received, but only so much of it kept.
const HEAD: usize = 1024;

pub struct Reply {
    pub status: StatusCode,
    /// Seconds, of a refusal that says so.
    pub retry_after: Option<u64>,
    /// The beginning of the body.
    pub head: Vec<u8>,
    /// How long the body was.
    pub bytes: u64,
}

impl Client {
    /// As the administrator.
    pub async fn connect(port: u16) -> Result<Client, String> {
        Client::connect_as(port, TOKEN).await
    }

    pub async fn connect_as(port: u16, token: &'static str) -> Result<Client, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| text(&error))?;
        stream.set_nodelay(true).map_err(|error| text(&error))?;
        let mut tls = difftest::trusting()?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(tls));
        let name = ServerName::try_from("localhost").map_err(|error| text(&error))?;
        let stream = connector.connect(name, stream).await.map_err(|error| text(&error))?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| text(&error))?;
        tokio::spawn(connection);
        Ok(Client { sender, authority: format!("127.0.0.1:{port}").into(), token, port })
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
        let (parts, mut incoming) = self.respond(method, path, accept, content, body).await?;
        let retry_after = parts.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let (mut head, mut bytes) = (Vec::new(), 0);
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() {
                bytes += data.len() as u64;
                head.extend_from_slice(&data[..data.len().min(HEAD - head.len())]);
            }
        }
        Ok(Reply { status: parts.status, retry_after, head, bytes })
    }

    /// The port that it is connected to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All of a text.
    pub async fn read(&self, path: &str) -> Result<String, String> {
        let (_, incoming) = self.open(Method::GET, path, "*/*", "application/json", Bytes::new()).await?;
        let bytes = incoming.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
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
        let (parts, incoming) = self.respond(method, path, accept, content, body).await?;
        Ok((parts.status, incoming))
    }

    async fn respond(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content: &str,
        body: Bytes,
    ) -> Result<(Parts, Incoming), String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", accept)
            .header("content-type", content)
            .header("user-agent", "bench/1")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok(response.into_parts())
    }
}
