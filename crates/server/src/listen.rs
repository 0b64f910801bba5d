//! The listener: connections in, requests through the chain, and an orderly end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::Server;

/// How long a client may take to say hello.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// How many requests one HTTP/2 connection may have open: upstream's default.
const MAX_STREAMS: u32 = 250;
/// How many streams a client may reset before they were answered: the bound on a rapid-reset flood.
const MAX_PENDING_RESETS: usize = 50;
const MAX_HEADER_BYTES: u32 = 1 << 20;

/// A socket that accepts connections.
pub struct Listener {
    socket: TcpListener,
    tls: Arc<ServerConfig>,
}

/// Tells a listener to stop; dropping it does too.
pub struct Shutdown(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (Shutdown, watch::Receiver<bool>) {
        let (sender, receiver) = watch::channel(false);
        (Shutdown(sender), receiver)
    }

    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Listener {
    pub async fn bind(address: SocketAddr, tls: Arc<ServerConfig>) -> io::Result<Listener> {
        Ok(Listener { socket: TcpListener::bind(address).await?, tls })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until told to stop, then lets requests finish for at most `drain`.
    pub async fn serve(self, server: Arc<Server>, mut stop: watch::Receiver<bool>, drain: Duration) {
        let graceful = GracefulShutdown::new();
        let acceptor = TlsAcceptor::from(self.tls);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                _ = stop.wait_for(|stopped| *stopped) => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let watcher = graceful.watcher();
                    tokio::spawn(connection(stream, acceptor.clone(), server.clone(), watcher));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: give others time to close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.socket);
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    server: Arc<Server>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let certificates: Arc<[CertificateDer<'static>]> = match stream.get_ref().1.peer_certificates() {
        Some(chain) => chain.iter().map(|certificate| certificate.clone().into_owned()).collect(),
        None => Arc::new([]),
    };
    let service = service_fn(move |request| {
        let server = server.clone();
        let certificates = certificates.clone();
        async move { Ok::<_, Infallible>(server.serve(request, certificates).await) }
    });
    let builder = builder();
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(serving.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}
