//! Streams through exec to a kubelet that sends and receives in this process: what a megabyte costs, and what an idle stream
//! costs. The same bytes through a relay in this process, without TLS, show what the machine can do.

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
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                        X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let port = serve_kubelet().await?;
    register(&target, port).await?;
    let seconds = arguments.seconds;
    let mut lines = measured(None, "a megabyte through a relay without TLS", seconds, relayed().await?).await?;
    let stream = exec(&target, "flood").await?;
    lines.extend(measured(Some(&target), "a megabyte through exec", seconds, stream).await?);
    let before = target.memory().server;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(exec(&target, "idle").await?);
    }
    let server = target.memory().server.saturating_sub(before);
    lines.push(Line::new(format!("{IDLE} idle execs: memory"), Figure::Memory(Memory { server, store: 0 })));
    target.stop().await;
    Ok(lines)
}

/// Reads for so long; a request is a megabyte.
async fn measured(
    target: Option<&Target>,
    name: &str,
    seconds: u64,
    mut stream: impl AsyncRead + Unpin,
) -> Result<Vec<Line>, String> {
    let cpu = || target.map_or_else(Cpu::default, Target::cpu);
    let (began, before) = (Instant::now(), cpu());
    let mut buffer = vec![0; MEGABYTE];
    let mut megabytes = 0;
    while began.elapsed() < Duration::from_secs(seconds) {
        stream.read_exact(&mut buffer).await.map_err(|error| format!("{name}: {error}"))?;
        megabytes += 1;
    }
    let rate = Figure::BytesPerSecond((megabytes * MEGABYTE) as f64 / began.elapsed().as_secs_f64());
    let mut lines = vec![Line::new(format!("{name}: throughput"), rate)];
    if target.is_some() {
        let cpu = cpu().since(before).per(megabytes as u64);
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

/// An exec that has been upgraded.
async fn exec(target: &Target, command: &str) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, String> {
    let text = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect(("127.0.0.1", target.port)).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut tls = difftest::trusting()?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
    let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.map_err(text)?;
    let head = format!(
        "POST /api/v1/namespaces/default/pods/streams/exec?command={command}&stdout=true HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {TOKEN}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.map_err(text)?;
    let head = read_head(&mut stream).await?;
    if !head.starts_with("HTTP/1.1 101") {
        return Err(format!("exec is refused: {head}"));
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

/// A kubelet on a free port. An exec of `flood` sends for as long as it is read, any other nothing.
async fn serve_kubelet() -> Result<u16, String> {
    let (port, _) = tls::listen(&[], |mut stream| async move {
        let Ok(head) = read_head(&mut stream).await else { return };
        if stream.write_all(SWITCHED.as_bytes()).await.is_err() {
            return;
        }
        match head.contains("command=flood") {
            true => flood(stream).await,
            false => drop(stream.read_u8().await),
        }
    })
    .await?;
    Ok(port)
}

async fn flood(mut stream: impl AsyncWrite + Unpin) {
    let zeros = vec![0; 64 * 1024];
    while stream.write_all(&zeros).await.is_ok() {}
}

/// The same flood through a relay of two TCP connections.
async fn relayed() -> Result<TcpStream, String> {
    let text = |error: std::io::Error| error.to_string();
    let (source, relay) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
    let (source, relay) = (source.map_err(text)?, relay.map_err(text)?);
    let (behind, before) = (source.local_addr().map_err(text)?, relay.local_addr().map_err(text)?);
    tokio::spawn(async move {
        if let Ok((stream, _)) = source.accept().await {
            flood(stream).await;
        }
    });
    tokio::spawn(async move {
        let (Ok((mut client, _)), Ok(mut backend)) = (relay.accept().await, TcpStream::connect(behind).await) else {
            return;
        };
        // It ends when the client has read enough.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
    });
    TcpStream::connect(before).await.map_err(text)
}
