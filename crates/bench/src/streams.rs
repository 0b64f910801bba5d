//! Streams to a kubelet that sends and receives in this process: what a megabyte costs in both directions, and what an idle
//! stream costs. The same bytes through a relay in this process, without TLS, show what the machine can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::Arguments;
use crate::client::Client;
use crate::report::{Figure, Line};
use crate::scenarios::{JSON, write};
use crate::target::{Cpu, Kind, Memory, TOKEN, Target};
use crate::tls;

const MEGABYTE: usize = 1 << 20;
const IDLE: usize = 1000;
const HEAD_MAX: usize = 16 * 1024;
const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";
const SPDY_PORTS: &str =
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n";
const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
/// How much a client or a kubelet sends in one frame: what Go's io.Copy reads at once.
const FRAME_BYTES: usize = 32 * 1024;

/// What a stream does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// The kubelet sends.
    Out,
    /// The client sends.
    In,
}

/// A way through the server.
struct Way {
    name: &'static str,
    direction: Direction,
    method: &'static str,
    path: &'static str,
    headers: String,
    /// What the client sends, again and again.
    sent: Vec<u8>,
}

fn ways() -> Vec<Way> {
    use Direction::{In, Out};
    let exec = |protocol: &str| format!("{WEBSOCKET}Sec-WebSocket-Protocol: {protocol}\r\n");
    let way =
        |name, direction, method, path, headers: String, sent| Way { name, direction, method, path, headers, sent };
    let (v5, ports) = (exec("v5.channel.k8s.io"), exec("SPDY/3.1+portforward.k8s.io"));
    let plain = || vec![0; 2 * FRAME_BYTES];
    vec![
        way("out of exec", Out, "POST", "exec?command=flood&stdout=true", SPDY.into(), Vec::new()),
        way("into exec", In, "POST", "exec?command=sink&stdin=true", SPDY.into(), plain()),
        way("out of exec by WebSocket", Out, "GET", "exec?command=frames&stdout=true", v5.clone(), Vec::new()),
        way(
            "into exec by WebSocket",
            In,
            "GET",
            "exec?command=frames-sink&stdin=true",
            v5,
            message(&[0; FRAME_BYTES + 1]),
        ),
        way("out of port-forward by WebSocket", Out, "GET", "portforward?ports=1", ports.clone(), Vec::new()),
        way("into port-forward by WebSocket", In, "GET", "portforward?ports=2", ports, message(&[0; FRAME_BYTES])),
    ]
}

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let port = serve_kubelet().await?;
    register(&target, port).await?;
    let seconds = arguments.seconds;
    let name = "a megabyte through a relay without TLS";
    let mut lines = measured(None, name, seconds, relayed().await?, None).await?;
    for way in ways() {
        let stream = open(&target, way.method, way.path, &way.headers).await?;
        let sent = (way.direction == Direction::In).then_some(&way.sent[..]);
        lines.extend(measured(Some(&target), &format!("a megabyte {}", way.name), seconds, stream, sent).await?);
    }
    let before = target.memory().server;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(open(&target, "POST", "exec?command=idle&stdout=true", SPDY).await?);
    }
    let server = target.memory().server.saturating_sub(before);
    lines.push(Line::new(format!("{IDLE} idle execs: memory"), Figure::Memory(Memory { server, store: 0 })));
    target.stop().await;
    Ok(lines)
}

/// Reads, or sends the same bytes again and again, for so long; a request is a megabyte.
async fn measured(
    target: Option<&Target>,
    name: &str,
    seconds: u64,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    sent: Option<&[u8]>,
) -> Result<Vec<Line>, String> {
    let cpu = || target.map_or_else(Cpu::default, Target::cpu);
    let (began, before) = (Instant::now(), cpu());
    let mut buffer = vec![0; MEGABYTE];
    let mut bytes = 0;
    while began.elapsed() < Duration::from_secs(seconds) {
        let passed = match sent {
            Some(sent) => stream.write_all(sent).await.map(|()| sent.len()),
            None => stream.read_exact(&mut buffer).await,
        };
        bytes += passed.map_err(|error| format!("{name}: {error}"))?;
    }
    let rate = Figure::BytesPerSecond(bytes as f64 / began.elapsed().as_secs_f64());
    let mut lines = vec![Line::new(format!("{name}: throughput"), rate)];
    if target.is_some() {
        let cpu = cpu().since(before).per((bytes / MEGABYTE) as u64);
        lines.push(Line::new(format!("{name}: CPU"), Figure::Cpu(cpu)));
    }
    Ok(lines)
}

/// A node that is this process, and a pod on it.
async fn register(target: &Target, port: u16) -> Result<(), String> {
    let client = Client::connect(target.port).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "streams"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "streams"}, "spec": {
        "nodeName": "streams", "containers": [{"name": "c", "image": "none"}],
    }});
    write(client.clone(), Method::POST, "/api/v1/nodes".into(), JSON, node.to_string().into()).await?;
    let pods = "/api/v1/namespaces/default/pods".into();
    write(client, Method::POST, pods, JSON, pod.to_string().into()).await.map(drop)
}

/// A stream that has been upgraded.
async fn open(
    target: &Target,
    method: &str,
    path: &str,
    headers: &str,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, String> {
    let text = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect(("127.0.0.1", target.port)).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut tls = difftest::trusting()?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
    let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.map_err(text)?;
    let head = format!(
        "{method} /api/v1/namespaces/default/pods/streams/{path} HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {TOKEN}\r\n{headers}Content-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.map_err(text)?;
    let head = read_head(&mut stream).await?;
    if !head.starts_with("HTTP/1.1 101") {
        return Err(format!("{path} is refused: {head}"));
    }
    Ok(stream)
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<String, String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX {
        head.push(stream.read_u8().await.map_err(|error| error.to_string())?);
    }
    String::from_utf8(head).map_err(|error| error.to_string())
}

/// A kubelet on a free port. `flood` sends for as long as it is read, `sink` reads, `frames` and `frames-sink` are the same in
/// SPDY frames, and any other command does nothing. Port 1 sends and port 2 reads.
async fn serve_kubelet() -> Result<u16, String> {
    let (port, _) = tls::listen(&[], |mut stream| async move {
        let Ok(head) = read_head(&mut stream).await else { return };
        let switched = if head.contains("/portForward/") { SPDY_PORTS } else { SPDY };
        let switched = format!("HTTP/1.1 101 Switching Protocols\r\n{switched}\r\n");
        if stream.write_all(switched.as_bytes()).await.is_err() {
            return;
        }
        let asks = |what: &str| head.lines().next().is_some_and(|line| line.contains(what));
        // It ends when the stream is closed, which is how every measurement ends.
        let _ = match () {
            () if asks("command=flood&") || asks("port=1") => flood(stream, &[0; 2 * FRAME_BYTES]).await,
            () if asks("command=sink&") || asks("port=2") => sink(stream).await,
            () if asks("command=frames&") => match accept(&mut stream).await {
                Ok(number) => flood(stream, &data(number)).await,
                Err(error) => Err(error),
            },
            () if asks("command=frames-sink&") => match accept(&mut stream).await {
                Ok(_) => sink(stream).await,
                Err(error) => Err(error),
            },
            () => stream.read_u8().await.map(drop),
        };
    })
    .await?;
    Ok(port)
}

async fn flood(mut stream: impl AsyncWrite + Unpin, bytes: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(bytes).await?;
    }
}

async fn sink(mut stream: impl AsyncRead + Unpin) -> std::io::Result<()> {
    let mut buffer = vec![0; 2 * FRAME_BYTES];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Accepts a command's two SPDY streams and returns the number of the second.
async fn accept(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<u32> {
    const SYN_STREAM: u32 = 0x8003_0001;
    const SYN_REPLY: u32 = 0x8003_0002;
    // A zlib stream with SPDY's dictionary; then, in every reply, a stored block with the number 0 of headers and an empty one.
    const BEGIN: [u8; 6] = [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];
    const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let (mut accepted, mut number) = (0, 0);
    while accepted < 2 {
        let (kind, length) = (stream.read_u32().await?, stream.read_u32().await? & 0x00ff_ffff);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body).await?;
        let (SYN_STREAM, Some(begin)) = (kind, body.first_chunk()) else { continue };
        number = u32::from_be_bytes(*begin);
        let headers = [if accepted == 0 { &BEGIN[..] } else { &[] }, &NO_HEADERS].concat();
        let length = 4 + headers.len() as u32;
        let head = [SYN_REPLY, length, number].map(u32::to_be_bytes).concat();
        stream.write_all(&[head, headers].concat()).await?;
        accepted += 1;
    }
    Ok(number)
}

/// A SPDY data frame.
fn data(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &(FRAME_BYTES as u32).to_be_bytes(), &[0; FRAME_BYTES]].concat()
}

/// A binary WebSocket message with a masking key of zeros.
fn message(payload: &[u8]) -> Vec<u8> {
    [&[0x82, 0xff][..], &(payload.len() as u64).to_be_bytes(), &[0; 4], payload].concat()
}

/// The same flood through a relay of two TCP connections.
async fn relayed() -> Result<TcpStream, String> {
    let text = |error: std::io::Error| error.to_string();
    let (source, relay) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
    let (source, relay) = (source.map_err(text)?, relay.map_err(text)?);
    let (behind, before) = (source.local_addr().map_err(text)?, relay.local_addr().map_err(text)?);
    tokio::spawn(async move {
        if let Ok((stream, _)) = source.accept().await {
            // It ends when the client has read enough.
            let _ = flood(stream, &[0; 2 * FRAME_BYTES]).await;
        }
    });
    tokio::spawn(async move {
        let (Ok((mut client, _)), Ok(mut backend)) = (relay.accept().await, TcpStream::connect(behind).await) else {
            return;
        };
        let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
    });
    TcpStream::connect(before).await.map_err(text)
}
