//! [`HttpConnect`]: connections through a proxy that speaks HTTP CONNECT.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::Uri;
use object::quote;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::meters::{EgressMeters, Kind, Stage};
use crate::connect::Connector;
use crate::{Address, Dial, Error, Stream};

/// How long the proxy may take to be reached and to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response to CONNECT that is read.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

pub struct HttpConnect {
    pub proxy: Proxy,
    pub meters: Arc<EgressMeters>,
}

/// Where the proxy is.
pub enum Proxy {
    Socket(PathBuf),
    Tcp { connector: Connector, uri: Uri },
}

impl Proxy {
    fn kind(&self) -> Kind {
        match self {
            Proxy::Socket(_) => ["http_connect", "uds"],
            Proxy::Tcp { .. } => ["http_connect", "tcp"],
        }
    }

    fn name(&self) -> String {
        match self {
            Proxy::Socket(path) => path.display().to_string(),
            Proxy::Tcp { uri, .. } => uri.authority().map(ToString::to_string).unwrap_or_default(),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        match self {
            Proxy::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                let failed = |error| format!("dial unix {}: connect: {}", path.display(), crate::in_gos_words(&error));
                Ok(Box::new(stream.map_err(failed)?))
            }
            Proxy::Tcp { connector, uri } => {
                let connected = connector.clone().connect(uri.clone()).await;
                Ok(Box::new(connected.map_err(|error| error.to_string())?))
            }
        }
    }
}

#[async_trait]
impl Dial for HttpConnect {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let (began, kind) = (Instant::now(), self.proxy.kind());
        self.meters.started(kind);
        let connected = tokio::time::timeout(TIMEOUT, self.proxy.connect()).await;
        let timed_out = || format!("dial tcp {}: i/o timeout", self.proxy.name());
        let stream = connected.map_err(|_| timed_out()).and_then(|stream| stream);
        let stream = stream.inspect_err(|_| self.meters.failed(kind, Stage::Connect))?;
        let opened = tokio::time::timeout(TIMEOUT, open(stream, address, &self.proxy.name())).await;
        let opened = opened.map_err(|_| timed_out()).and_then(|stream| stream);
        let stream = opened.inspect_err(|_| self.meters.failed(kind, Stage::Proxy))?;
        self.meters.connected(kind, began.elapsed());
        Ok(stream)
    }
}

/// Asks the proxy for a connection.
async fn open(mut stream: Box<dyn Stream>, address: &Address, proxy: &str) -> Result<Box<dyn Stream>, String> {
    let unreadable =
        |why: &str| format!("reading HTTP response from CONNECT to {address} via proxy {proxy} failed: {why}");
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let failed = |error: std::io::Error| unreadable(&crate::in_gos_words(&error));
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut response = Vec::new();
    let end = loop {
        if let Some(end) = find(&response, b"\r\n\r\n") {
            break end + 4;
        }
        if response.len() >= RESPONSE_BYTES_MAX {
            return Err(unreadable("unexpected EOF"));
        }
        let read = stream.read_buf(&mut response).await.map_err(failed)?;
        if read == 0 {
            return Err(unreadable(if response.is_empty() { "EOF" } else { "unexpected EOF" }));
        }
    };
    let (head, rest) = response.split_at(end);
    let line = String::from_utf8_lossy(head).lines().next().unwrap_or("").to_string();
    let status = line.split_once(' ').filter(|(version, _)| version.starts_with("HTTP/1.")).map(|(_, status)| status);
    let code = status.and_then(|status| status.get(..3)?.parse::<u16>().ok());
    let (Some(status), Some(code)) = (status, code) else {
        return Err(unreadable(&format!("malformed HTTP response {}", quote(&line))));
    };
    if code != 200 {
        return Err(format!("proxy error from {proxy} while dialing {address}, code {code}: {status}"));
    }
    // The client speaks first over such connections, so nothing can have come yet.
    match rest.len() {
        0 => Ok(stream),
        more => Err(format!("unexpected {more} bytes of buffered data from CONNECT proxy {}", quote(proxy))),
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
