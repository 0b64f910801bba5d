//! Clients that open connections and say little, or begin requests and do not end them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, FuturesUnordered};
use hostile::{ADMIN, MALLORY, Target, request};
use http_body_util::StreamBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::shares::{Unfinished, metric};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Another address of this machine than the one that other requests come from.
const HOG: &str = "127.0.0.2:0";
const PATIENCE: Duration = Duration::from_secs(30);
/// What docs/security.md says of connections, of heads that have not arrived, and of unfinished bodies.
const HEAD_BYTES_OF_ONE: usize = 64 << 20;
const UNFINISHED_BYTES_OF_ONE: f64 = (96 << 20) as f64;

async fn connect(target: &Target) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(HOG.parse::<SocketAddr>().unwrap()).unwrap();
    socket.connect(target.address()).await.unwrap()
}

async fn connect_tls(target: &Target, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut config = difftest::trusting().unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, connect(target).await).await.unwrap()
}

/// Waits until something holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waited).await.is_ok(), "{what}");
}

/// Connections that say nothing are closed beyond what one address may have, and other addresses have theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_leave_room_for_others() {
    const MAX: usize = 40;
    const OPENED: usize = 200;
    let target =
        Target::start_with(|builder| builder.configure(|config| config.serving.connections.max_connections = MAX))
            .await;
    let mut hog = Vec::new();
    for _ in 0..OPENED {
        hog.push(connect(&target).await);
    }
    until("connections are refused", async || {
        metric(&target, "ferrokube_refused_connections_total").await >= (OPENED - MAX / 2) as f64
    })
    .await;
    let map = json!({"metadata": {"name": "polite"}}).to_string();
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map).await.code, 201);
    drop(hog);
    // Whoever has closed its connections can open others.
    let refused = async || metric(&target, "ferrokube_refused_connections_total").await;
    until("connections are accepted again", async || {
        let before = refused().await;
        let _opened = connect(&target).await;
        refused().await == before
    })
    .await;
}

/// Headers of a request that do not end, over HTTP/2.
fn unfinished_headers(bytes: usize) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // A header that does not enter the table, whose value is so long.
    let mut block = b"\x00\x01x\x7f".to_vec();
    let mut rest = bytes - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
    block.resize(block.len() + bytes - 1, b'a');
    for (at, piece) in block.chunks(16_000).enumerate() {
        sent.extend(&(piece.len() as u32).to_be_bytes()[1..]);
        sent.extend([if at == 0 { 1 } else { 9 }, 0, 0, 0, 0, 1]);
        sent.extend(piece);
    }
    sent
}

/// Waits until the server has closed a connection.
async fn closed(stream: &mut TlsStream<TcpStream>) {
    let mut answer = [0; 4096];
    while stream.read(&mut answer).await.is_ok_and(|read| read > 0) {}
}

/// A client without credentials sends headers that do not end over many connections: beyond what one address may have, they are closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_heads_are_bounded_by_address() {
    let target = Target::start().await;
    let long = 390_000;
    let first = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(long)).into_bytes();
    for (protocol, sent) in [(&b"http/1.1"[..], first), (b"h2", unfinished_headers(900_000))] {
        let allowed = HEAD_BYTES_OF_ONE / sent.len();
        let mut open = Vec::new();
        for _ in 0..allowed + 20 {
            let mut stream = connect_tls(&target, protocol).await;
            // Where it is refused, the connection may be gone before all is written.
            let _ = stream.write_all(&sent).await;
            open.push(stream);
        }
        let mut closing: FuturesUnordered<_> = open.iter_mut().map(closed).collect();
        let first = tokio::time::timeout(PATIENCE, closing.next()).await;
        assert!(first.is_ok(), "{} heads of {} bytes are held", allowed + 20, sent.len());
        // Another address may send long headers meanwhile.
        let asked = request(ADMIN, "GET", MAPS).header("x-long", "a".repeat(200_000));
        assert_eq!(target.send(asked, "").await.code, 200);
        drop(closing);
    }
}

/// A user's long headers count as long as their requests last, with the bodies that have not arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_headers_are_bounded_by_user() {
    const LONG: usize = 500_000;
    let target = Target::start().await;
    target.allow(MALLORY, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}])).await;
    for (method, path) in [("POST", REVIEW), ("GET", &format!("{MAPS}?watch=true")[..])] {
        let (mut refused, mut senders) = (FuturesUnordered::new(), Vec::new());
        for _ in 0..3 {
            let stream = TokioIo::new(target.connect(&[b"h2"]).await);
            let (mut sender, connection) =
                http2::handshake::<_, _, Unfinished>(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            for _ in 0..90 {
                let body = match method {
                    "POST" => StreamBody::new(stream::pending().boxed() as _),
                    _ => StreamBody::new(stream::empty().boxed() as _),
                };
                let asked = request(MALLORY, method, path).header("x-long", "a".repeat(LONG)).body(body).unwrap();
                sender.ready().await.unwrap();
                refused.push(sender.send_request(asked));
            }
            senders.push(sender);
        }
        let mut answers = Vec::new();
        let first = tokio::time::timeout(PATIENCE, async {
            while let Some(answer) = refused.next().await {
                let answer = answer.unwrap();
                if answer.status() == 429 {
                    return;
                }
                answers.push(answer);
            }
        });
        assert!(first.await.is_ok(), "{method}: nothing is refused");
        assert!(metric(&target, "ferrokube_unfinished_body_bytes").await <= UNFINISHED_BYTES_OF_ONE);
        let map = json!({"metadata": {"generateName": "polite-"}}).to_string();
        assert_eq!(target.ask(ADMIN, "POST", MAPS, map).await.code, 201, "{method}");
        // The connections end with their last request.
        drop((refused, answers, senders));
        until("what is gone is not counted", async || metric(&target, "ferrokube_unfinished_body_bytes").await == 0.0)
            .await;
    }
}
