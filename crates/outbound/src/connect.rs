//! Connections: TCP by a [`Dial`], then TLS, with Go's error texts.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Address, Error};

/// As Go's default transport has them.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// As Go's dialer has it: a server that vanished without a word is noticed.
const KEEP_ALIVE: socket2::TcpKeepalive =
    socket2::TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(30));

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections: directly, or through a proxy.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Err is what Go's dialer says, such as `dial tcp 127.0.0.1:1: connect: connection refused`.
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error>;
}

/// Connects from this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

#[async_trait]
impl Dial for Direct {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let found = lookup(address).await.map_err(|error| format!("dial tcp: {error}"))?;
        let mut first = None;
        for candidate in found {
            match tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(candidate)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE);
                    return Ok(Box::new(stream));
                }
                Ok(Err(error)) => {
                    first.get_or_insert_with(|| format!("dial tcp {candidate}: connect: {}", in_gos_words(&error)))
                }
                Err(_) => first.get_or_insert_with(|| format!("dial tcp {candidate}: i/o timeout")),
            };
        }
        Err(Error::Connect(first.unwrap_or_else(|| format!("dial tcp: lookup {}: no such host", address.host))))
    }
}

/// The addresses that a host has. Texts that only the system's resolver takes for addresses (0177.0.0.1, 0x7f.1, 2130706433) have none:
/// whoever compared them with what is allowed read them otherwise. Err is what Go's resolver says.
pub async fn lookup(address: &Address) -> Result<Vec<SocketAddr>, Error> {
    let host = address.host.as_str();
    let unknown = || Error::Connect(format!("lookup {host}: no such host"));
    if host.parse::<IpAddr>().is_err() && ends_in_number(host) {
        return Err(unknown());
    }
    let found = tokio::net::lookup_host((host, address.port)).await;
    found.map(Iterator::collect).map_err(|_| unknown())
}

/// Whether the last label of a name is a number: no top-level domain is, so the system's resolver reads an address.
fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Go's words for an error of the system, which are the system's own in small letters.
pub fn in_gos_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Makes the connections of one client's pool.
#[derive(Clone)]
pub(crate) struct Connector {
    pub dial: Arc<dyn Dial>,
    pub tls: Arc<ClientConfig>,
    /// Whom the server must prove to be, where that is not the host of the URL.
    pub server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// The same with another choice of HTTP versions; none where what is spoken is settled.
    pub fn with_protocols(self, protocols: &[&[u8]]) -> Connector {
        let mut tls = (*self.tls).clone();
        tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Connector { tls: Arc::new(tls), ..self }
    }

    pub async fn connect(self, uri: Uri) -> Result<Socket, Error> {
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_string();
        let tls = uri.scheme() != Some(&http::uri::Scheme::HTTP);
        let address = Address { port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }), host };
        let stream = self.dial.dial(&address).await?;
        if !tls {
            return Ok(Socket::Plain(stream));
        }
        let name = match self.server_name {
            Some(name) => name,
            None => ServerName::try_from(address.host.clone())
                .map_err(|_| Error::Connect(format!("x509: invalid server name {}", object::quote(&address.host))))?,
        };
        let recorded = Recorded { first: Vec::new(), stream };
        let handshake = TlsConnector::from(self.tls).connect(name, recorded).into_fallible();
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => Ok(Socket::Tls(Box::new(stream))),
            Ok(Err((error, recorded))) => Err(Error::Connect(handshake_error(&error, &recorded.first))),
            Err(_) => Err(Error::Connect("net/http: TLS handshake timeout".into())),
        }
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<TokioIo<Socket>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}

fn handshake_error(error: &io::Error, first: &[u8]) -> String {
    let is_ours = |inner: &rustls::Error| matches!(inner, rustls::Error::General(_) | rustls::Error::AlertReceived(_));
    match tls_error(error) {
        Some(inner) if is_ours(inner) => io_error(error),
        Some(_) if first.starts_with(b"HTTP/") => "http: server gave HTTP response to HTTPS client".into(),
        Some(_) if !matches!(first.first(), Some(20..=23) | None) => {
            "tls: first record does not look like a TLS handshake".into()
        }
        _ => io_error(error),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Go's text about a connection that broke. TLS errors arrive as errors of the connection.
pub(crate) fn io_error(error: &io::Error) -> String {
    match tls_error(error) {
        Some(rustls::Error::General(text)) => text.clone(),
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {}", alert_text(*alert)),
        Some(rustls::Error::PeerIncompatible(_)) => "tls: server selected unsupported protocol version".into(),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".into(),
        None => format!("read tcp: read: {}", in_gos_words(error)),
    }
}

/// Go's texts of alerts.
fn alert_text(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::CloseNotify => "close notify",
        AlertDescription::UnexpectedMessage => "unexpected message",
        AlertDescription::BadRecordMac => "bad record MAC",
        AlertDescription::RecordOverflow => "record overflow",
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "revoked certificate",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::IllegalParameter => "illegal parameter",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::DecodeError => "error decoding message",
        AlertDescription::DecryptError => "error decrypting message",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InsufficientSecurity => "insufficient security level",
        AlertDescription::InternalError => "internal error",
        AlertDescription::InappropriateFallback => "inappropriate fallback",
        AlertDescription::UserCanceled => "user canceled",
        AlertDescription::NoRenegotiation => "no renegotiation",
        AlertDescription::MissingExtension => "missing extension",
        AlertDescription::UnsupportedExtension => "unsupported extension",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::UnknownPSKIdentity => "unknown PSK identity",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        other => return format!("alert({})", u8::from(other)),
    };
    text.to_string()
}

/// A connection that remembers its first bytes, which tell what a server speaks that does not speak TLS.
pub(crate) struct Recorded {
    first: Vec<u8>,
    stream: Box<dyn Stream>,
}

const RECORDED_BYTES: usize = 5;

impl AsyncRead for Recorded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let missing = RECORDED_BYTES.saturating_sub(self.first.len());
        if missing > 0 {
            let new = buffer.filled().get(before..).unwrap_or(&[]);
            let taken = new.get(..missing.min(new.len())).unwrap_or(&[]);
            self.first.extend_from_slice(taken);
        }
        polled
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An open connection.
pub(crate) enum Socket {
    Plain(Box<dyn Stream>),
    Tls(Box<TlsStream<Recorded>>),
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        match self {
            Socket::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Connected::new().negotiated_h2()
            }
            _ => Connected::new(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_read_as_go_reads_them() {
        let check = async |host: &str, want: Option<&str>| {
            let found = lookup(&Address { host: host.into(), port: 1 }).await;
            let found = found.map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>());
            let want = want
                .map_or(Err(Error::Connect(format!("lookup {host}: no such host"))), |want| Ok(vec![want.to_string()]));
            assert_eq!(found, want, "{host}");
        };
        check("127.0.0.1", Some("127.0.0.1:1")).await;
        check("::1", Some("[::1]:1")).await;
        check("::ffff:127.0.0.1", Some("[::ffff:127.0.0.1]:1")).await;
        for text in [
            "0177.0.0.1",
            "127.0.0.01",
            "0x7f.0.0.1",
            "0x7f.1",
            "0X7F.0X1",
            "127.1",
            "2130706433",
            "017700000001",
            "0x7f000001",
            "127.0.0.1.",
            "0x7f.1.",
            "0",
            "0x",
            "1.2.3.4.5",
            "a.0x1",
            "",
        ] {
            check(text, None).await;
        }
    }
}
