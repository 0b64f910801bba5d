//! One HTTP/2 connection over TLS at a time, made anew when it is lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The token of an administrator, which every server of a cluster knows.
pub const TOKEN: &str = "cluster-token";

/// Between attempts to send a request.
const PAUSE: Duration = Duration::from_millis(20);

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    Answered {
        status: u16,
        body: Value,
    },
    /// The server never got it.
    NotSent,
    /// It was sent and not answered in time, or not entirely.
    Lost,
}

/// A client of one address.
pub struct Client {
    port: u16,
    timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(port: u16, timeout: Duration) -> Client {
        Client { port, timeout, connection: None }
    }

    /// Sends a request, again if it was not sent at all: a server that is shutting down takes no more on this connection.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<&Value>) -> Outcome {
        let deadline = tokio::time::Instant::now() + self.timeout;
        loop {
            let exchange = self.exchange(method.clone(), path, body);
            let outcome = tokio::time::timeout_at(deadline, exchange).await.unwrap_or(Outcome::Lost);
            if !matches!(outcome, Outcome::Answered { .. }) {
                self.connection = None;
            }
            if !matches!(outcome, Outcome::NotSent) || tokio::time::Instant::now() + PAUSE > deadline {
                return outcome;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn exchange(&mut self, method: Method, path: &str, body: Option<&Value>) -> Outcome {
        let (status, incoming) = match self.open(method, path, body).await {
            Ok(opened) => opened,
            Err(outcome) => return outcome,
        };
        match incoming.collect().await {
            Ok(collected) => {
                let body = serde_json::from_slice(&collected.to_bytes()).unwrap_or(Value::Null);
                Outcome::Answered { status, body }
            }
            Err(_) => Outcome::Lost,
        }
    }

    /// Sends and returns as soon as there are headers: for watches.
    pub async fn open(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Incoming), Outcome> {
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        // The only patches are server-side applies.
        let content_type = if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1:{}{path}", self.port))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("accept", "application/json")
            .header("content-type", content_type)
            .body(Full::new(body))
            .map_err(|_| Outcome::NotSent)?;
        let mut sender = self.sender().await.ok_or(Outcome::NotSent)?;
        match sender.try_send_request(request).await {
            Ok(response) => {
                self.connection = Some(sender);
                let (parts, incoming) = response.into_parts();
                Ok((parts.status.as_u16(), incoming))
            }
            // The request comes back if none of it was sent.
            Err(mut error) => Err(error.take_message().map_or(Outcome::Lost, |_| Outcome::NotSent)),
        }
    }

    /// The connection, if it takes another request; otherwise a new one.
    async fn sender(&mut self) -> Option<SendRequest<Full<Bytes>>> {
        if let Some(mut sender) = self.connection.take()
            && sender.ready().await.is_ok()
        {
            return Some(sender);
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let mut tls = difftest::trusting().ok()?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("localhost").ok()?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.ok()?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }
}
