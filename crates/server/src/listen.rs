//! The listener: connections in, requests through the chain, and an orderly end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use flow::Flow;
use futures::future::BoxFuture;
use http::{StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use streams::{Cork, WokenTasks};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::Server;
use crate::arrival::ArrivingBody;
use crate::chain::HttpResponse;
use crate::connections::{ConnectionPlace, Connections};
use crate::extended_connect;
use crate::host;
use crate::lifecycle::Phase;
use crate::peer::{Peer, Timeouts};
use crate::polls::{PollMeter, measured};
use crate::target::Escaping;
use crate::tls::Handshake;

/// How long the TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many streams a client may reset before they were answered: the bound on a rapid-reset flood.
const MAX_PENDING_RESETS: usize = 50;
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// How many headers a request may have: a front proxy sends one for each group of the user.
const MAX_HEADERS: usize = 1000;
/// How much of a body one stream may send before it is read: nearly all objects fit.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// How much of an answer is buffered for a client that reads slowly.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// How long connections may take to close after they were asked to.
const GOODBYE: Duration = Duration::from_secs(2);

/// With the least window of HTTP/2 for each, that is 2 GiB of what nobody has read yet.
const MAX_CONNECTIONS: usize = 32 * 1024;
/// Connections that wait to be accepted, as tokio has it by default.
const BACKLOG: u32 = 1024;

/// How connections are served.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// `--http2-max-streams-per-connection`: requests that one HTTP/2 connection may have open.
    pub max_streams: u32,
    /// `--goaway-chance`: how likely a request over HTTP/2 makes the server ask for a new connection, so that clients
    /// spread over the servers behind a load balancer again.
    pub goaway_chance: f64,
    /// `--shutdown-send-retry-after`: while the last requests finish, new ones are answered with 429 and Retry-After instead of
    /// being refused a connection.
    pub answer_while_leaving: bool,
    /// `--permit-port-sharing`: several servers may listen on the same address and port.
    pub share_port: bool,
    pub timeouts: Timeouts,
    /// How many connections there may be at the same time; an address may have as many as are free for all. Further ones are closed.
    pub max_connections: usize,
    /// Measures how long requests keep their worker thread, which tests do.
    pub poll_meter: Option<Arc<dyn PollMeter>>,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            max_streams: 100,
            goaway_chance: 0.0,
            answer_while_leaving: false,
            share_port: false,
            timeouts: Timeouts::default(),
            max_connections: MAX_CONNECTIONS,
            poll_meter: None,
        }
    }
}

/// A socket that accepts connections.
pub struct Listener {
    socket: TcpListener,
    tls: Arc<Handshake>,
    options: ConnectionOptions,
}

impl Listener {
    pub async fn bind(address: SocketAddr, tls: Arc<Handshake>, options: ConnectionOptions) -> io::Result<Listener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // SO_REUSEADDR: a restarted server can bind while connections of the old one are in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(options.share_port)?;
        socket.bind(address)?;
        Ok(Listener { socket: socket.listen(BACKLOG)?, tls, options })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts and serves connections until shutdown has closed them all.
    pub fn run(self, server: Arc<Server>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let options = Arc::new(self.options);
            let connections = Connections::new(options.max_connections);
            let mut phase = server.lifecycle.follow();
            let last = options.answer_while_leaving;
            let closes = move |phase: &Phase| match phase {
                Phase::Serving | Phase::Draining => false,
                Phase::Leaving { .. } => !last,
                Phase::Over => true,
            };
            // Every connection holds a sender, so `recv` returns when all connections are closed.
            let (open, mut closed) = mpsc::channel::<()>(1);
            loop {
                let accepted = tokio::select! {
                    accepted = self.socket.accept() => accepted,
                    _ = phase.wait_for(closes) => break,
                };
                match accepted {
                    Ok((stream, address)) => {
                        let Some(place) = connections.open(address.ip()) else {
                            server.metrics.connection_refused();
                            continue;
                        };
                        let connection =
                            Connection { server: server.clone(), options: options.clone(), place, _open: open.clone() };
                        tokio::spawn(connection.serve(stream, address, TlsAcceptor::from(self.tls.current())));
                    }
                    Err(error) => {
                        // Most likely there are no file descriptors left; wait for connections to close.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
            drop(self.socket);
            drop(open);
            let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
            let _ = tokio::time::timeout(GOODBYE, closed.recv()).await;
        })
    }
}

/// The intervals that Go's listeners set.
const KEEP_ALIVE: socket2::TcpKeepalive =
    socket2::TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(15));

/// How a connection ended.
type ConnectionEnd = Result<(), Box<dyn std::error::Error + Send + Sync>>;

struct Connection {
    server: Arc<Server>,
    options: Arc<ConnectionOptions>,
    place: ConnectionPlace,
    _open: mpsc::Sender<()>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, address: SocketAddr, acceptor: TlsAcceptor) {
        let _ = stream.set_nodelay(true);
        // TCP keepalive, as Go sets it, detects clients that are gone; watches and streams may be idle for hours.
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE);
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.server.metrics.handshake_failed();
                return tracing::debug!(%error, "TLS handshake failed");
            }
            Err(_) => {
                self.server.metrics.handshake_failed();
                return tracing::debug!("TLS handshake took too long");
            }
        };
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|one| one.clone().into_owned()).collect();
        let peer = Peer::new(address, certificates, self.options.timeouts);
        let service = service_fn(|mut request: http::Request<hyper::body::Incoming>| {
            let chance = self.options.goaway_chance;
            if chance > 0.0 && request.version() == Version::HTTP_2 && rand::random::<f64>() < chance {
                peer.go_away();
            }
            let (server, peer) = (self.server.clone(), peer.clone());
            let meter = self.options.poll_meter.clone();
            // Boxed because hyper moves the future several times, and this one holds everything that a request can need.
            Box::pin(async move {
                // hyper counts them over HTTP/1 only; over HTTP/2 a header can be one byte that stands for an earlier one.
                if request.headers().len() > MAX_HEADERS {
                    return Ok(too_many_headers());
                }
                if let Some(refusal) = host::refusal(&request) {
                    return Ok(refusal);
                }
                let is_websocket = extended_connect::accept(&mut request);
                let request = request.map(ArrivingBody::Connection);
                let mut response = match meter {
                    None => server.serve(request, peer).await,
                    Some(meter) => Box::pin(measured(meter, server, request, peer)).await,
                };
                if is_websocket {
                    extended_connect::answer(&mut response);
                }
                Ok::<_, Infallible>(response)
            })
        });
        // As in Go, HTTP/2 is spoken where TLS agreed on it and nowhere else: not because a client begins with it.
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = Escaping::new(stream, is_http2, peer.clone(), self.place.head());
        if is_http2 {
            let (cork, woken) = (Cork::new(stream), Arc::new(WokenTasks::default()));
            let executor = RequestExecutor { flow: self.server.seats.flow().cloned(), woken: woken.clone() };
            let window = self.place.window();
            let builder = http2_builder(executor, self.options.max_streams, window.bytes());
            let serving = pin!(builder.serve_connection(TokioIo::new(cork.clone()), service));
            let leave = http2::Connection::graceful_shutdown;
            self.run(serving, |it, cx| cork.poll_connection(&woken, it, cx).map(|end| Ok(end??)), leave, &peer).await;
        } else {
            let serving = pin!(http1_builder().serve_connection(TokioIo::new(stream), service).with_upgrades());
            let leave = http1::UpgradeableConnection::graceful_shutdown;
            self.run(serving, |it, cx| it.poll(cx).map(|end| Ok(end?)), leave, &peer).await;
        }
    }

    /// Serves a connection until it ends, or has to.
    async fn run<C>(
        &self,
        mut serving: Pin<&mut C>,
        poll: impl Fn(Pin<&mut C>, &mut Context<'_>) -> Poll<ConnectionEnd>,
        graceful_shutdown: impl Fn(Pin<&mut C>),
        peer: &Peer,
    ) {
        let mut phase = self.server.lifecycle.follow();
        let mut asked_to_leave = false;
        let shut_down = async {
            let mut phase = self.server.lifecycle.follow();
            let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
            tokio::time::sleep(GOODBYE).await;
        };
        let idle = peer.idle();
        tokio::pin!(shut_down, idle);
        let ended = loop {
            tokio::select! {
                // The connection is polled first, so that `idle` knows of the bytes that arrived.
                biased;
                ended = poll_fn(|cx| poll(serving.as_mut(), cx)) => break Some(ended),
                () = peer.sent_away(), if !asked_to_leave => asked_to_leave = true,
                _ = phase.wait_for(Phase::is_leaving), if !asked_to_leave => asked_to_leave = true,
                () = &mut idle => break None,
                () = peer.closed() => break Some(Ok(())),
                () = &mut shut_down => break Some(Ok(())),
            }
            graceful_shutdown(serving.as_mut());
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                // A client that sent nothing for this long may not react to a GOAWAY either, so it is not waited for any longer.
                graceful_shutdown(serving.as_mut());
                let ending = poll_fn(|cx| poll(serving.as_mut(), cx));
                tokio::time::timeout(GOODBYE, ending).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

fn too_many_headers() -> HttpResponse {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

/// Spawns a task for each HTTP/2 request and tells priority and fairness, and the connection, which of them have not run yet.
#[derive(Clone)]
struct RequestExecutor {
    flow: Option<Arc<Flow>>,
    woken: Arc<WokenTasks>,
}

impl<F> hyper::rt::Executor<F> for RequestExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, request: F) {
        let unstarted = self.flow.as_ref().map(|flow| flow.spawned());
        tokio::spawn(self.woken.task(async move {
            drop(unstarted);
            request.await
        }));
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // hyper's time for headers would count the wait for the next request too; `Peer::idle` counts both.
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_headers(MAX_HEADERS);
    builder
}

fn http2_builder(executor: RequestExecutor, max_streams: u32, window_bytes: u32) -> http2::Builder<RequestExecutor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_concurrent_streams(max_streams)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES.min(window_bytes))
        .initial_connection_window_size(window_bytes)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}
