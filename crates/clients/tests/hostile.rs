//! Clients that mean harm, or behave as if they did. The server answers as upstream does, stays up, and gives back what
//! they made it hold.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clients::{Process, TestServer};
use difftest::Client;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(30);

/// How much of something: enough to notice what goes wrong, or all of it where `FERROKUBE_FULL` is set.
#[allow(clippy::disallowed_methods)]
fn scaled(quick: usize, full: usize) -> usize {
    if std::env::var_os("FERROKUBE_FULL").is_some() { full } else { quick }
}

fn request(method: &str, path: &str, kind: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", "Bearer admin-token")
        .header("content-type", kind)
        .body(Full::new(body.into()))
        .unwrap()
}

async fn ask(client: &Client, method: &str, path: &str, kind: &str, body: impl Into<Bytes>) -> (u16, String) {
    let response = client.send(request(method, path, kind, body)).await.unwrap();
    let text = String::from_utf8_lossy(response.body()).into_owned();
    let message = serde_json::from_str::<Value>(&text).ok().and_then(|v| v["message"].as_str().map(str::to_string));
    (response.status().as_u16(), message.unwrap_or(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_patches_have_bounds() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let json = "application/json";
    let object = |text: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"big"}},"data":{{"a":"{text}"}}}}"#)
    };
    let (code, message) = ask(&client, "POST", MAPS, json, object(&"x".repeat(3 * 1024 * 1024))).await;
    assert_eq!((code, message.as_str()), (413, "Request entity too large: limit is 3145728"));
    let (code, message) = ask(&client, "POST", MAPS, json, object(&"x".repeat(2 * 1024 * 1024))).await;
    assert_eq!(code, 422, "{message}");
    assert_eq!(ask(&client, "POST", MAPS, json, object("x")).await.0, 201);
    let one = format!("{MAPS}/big");
    let operations = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|at| format!(r#"{{"op":"add","path":"/data/k{at}","value":"x"}}"#)).collect();
        format!("[{}]", all.join(","))
    };
    let patch = "application/json-patch+json";
    assert_eq!(ask(&client, "PATCH", &one, patch, operations(10_000)).await.0, 200);
    let (code, message) = ask(&client, "PATCH", &one, patch, operations(10_001)).await;
    let want = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((code, message.as_str()), (413, format!("Request entity too large: {want}").as_str()));
    server.stop().await;
}

/// What is sent, and the code that comes back for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_yaml = "- ".repeat(50_000);
    let anchors = (0..40)
        .fold("a0: &a0 [x]\n".to_string(), |text, at| format!("{text}a{}: &a{} [*a{at}, *a{at}]\n", at + 1, at + 1));
    let proto = "application/vnd.kubernetes.protobuf";
    let cases: &[(&str, &str, &str, Vec<u8>, u16)] = &[
        ("POST", MAPS, "application/json", b"{".to_vec(), 400),
        ("POST", MAPS, "application/json", b"\xff\xfe".to_vec(), 400),
        ("POST", MAPS, "application/json", deep.into_bytes(), 400),
        ("POST", MAPS, "application/yaml", b"a: b: c".to_vec(), 400),
        ("POST", MAPS, "application/yaml", deep_yaml.into_bytes(), 400),
        ("POST", MAPS, "application/yaml", anchors.into_bytes(), 400),
        ("POST", MAPS, proto, b"k8s\0\xff\xff\xff\xff\xff".to_vec(), 400),
        ("POST", MAPS, proto, b"nonsense".to_vec(), 400),
        ("POST", MAPS, "application/nonsense", b"{}".to_vec(), 415),
        ("PATCH", &format!("{MAPS}/x"), "application/json-patch+json", b"{}".to_vec(), 404),
        ("PATCH", &format!("{MAPS}/x"), "application/nonsense", b"{}".to_vec(), 415),
        ("PATCH", &format!("{MAPS}/x?fieldManager=m"), "application/apply-patch+yaml", b"\t\t:".to_vec(), 400),
        ("GET", &format!("{MAPS}?labelSelector=%3D%3D%3D"), "", Vec::new(), 400),
        ("GET", &format!("{MAPS}?fieldSelector=x"), "", Vec::new(), 400),
        ("GET", &format!("{MAPS}?continue=%00"), "", Vec::new(), 400),
        ("GET", &format!("{MAPS}?limit=x"), "", Vec::new(), 400),
        ("GET", &format!("{MAPS}?timeout=x"), "", Vec::new(), 400),
        ("GET", &format!("{MAPS}/%2e%2e%2f"), "", Vec::new(), 404),
        ("GET", &format!("{MAPS}/{}", "x".repeat(20_000)), "", Vec::new(), 404),
        ("NONSENSE", MAPS, "", Vec::new(), 405),
        ("GET", "/apis/%ff/%ff/%ff", "", Vec::new(), 404),
    ];
    for (method, path, kind, body, want) in cases {
        let (code, message) = ask(&client, method, path, kind, body.clone()).await;
        assert_eq!(code, *want, "{method} {path} {kind}: {message}");
    }
    assert_eq!(ask(&client, "GET", "/readyz", "", "").await, (200, "ok".into()));
    server.stop().await;
}

/// Connections that never finish what they say are closed, and headers without end are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_endless_talkers_are_cut_off() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    // Nothing but a connection: the handshake has to come.
    let mut silent = tokio::net::TcpStream::connect(server.running.address).await.unwrap();
    let silence = tokio::time::timeout(SOON, silent.read_u8());
    // Headers that never end.
    let mut flood = client.connect(&[b"http/1.1"]).await.unwrap();
    flood.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let line = format!("x-flood: {}\r\n", "y".repeat(1000));
    let flooding = async {
        for _ in 0..5_000 {
            if flood.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
        let mut rest = Vec::new();
        let _ = flood.read_to_end(&mut rest).await;
        let said = String::from_utf8_lossy(&rest);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    };
    // A body that is promised and does not come.
    let slow = async {
        let mut slow = client.connect(&[b"http/1.1"]).await.unwrap();
        let head = format!(
            "POST {MAPS}?timeout=1s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\ncontent-length: 100\r\n\r\n{{"
        );
        slow.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        slow.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 504");
    };
    let (silence, flooded, slow) =
        tokio::join!(silence, tokio::time::timeout(SOON, flooding), tokio::time::timeout(SOON, slow));
    assert!(silence.expect("a silent connection is closed").is_err());
    flooded.expect("a flood of headers ends");
    slow.expect("a slow body ends");
    assert_eq!(ask(&client, "GET", "/readyz", "", "").await.0, 200);
    server.stop().await;
}

/// Streams that are opened and reset at once, over and over: the connection is given up, not the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_end_the_connection() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let stream = client.connect(&[b"h2"]).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_reset_streams(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..20_000 {
        let mut sender = sender.clone();
        if sender.is_closed() {
            break;
        }
        let sent = sender.send_request(request("GET", MAPS, "", ""));
        // Dropped before it is answered, which resets the stream.
        let _ = tokio::time::timeout(Duration::ZERO, sent).await;
        tokio::task::yield_now().await;
    }
    drop(sender);
    let _ = tokio::time::timeout(SOON, connection).await.expect("the connection ends");
    assert_eq!(ask(&client, "GET", "/readyz", "", "").await.0, 200);
    server.stop().await;
}

/// Thousands of watches at once over a few connections, each told about a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_by_the_thousand() {
    const STREAMS: usize = 100;
    let connections = scaled(20, 100);
    let server = Process::start(&[]).await;
    let client = Client::new(server.address, "admin-token").unwrap();
    let before = server.resident_bytes();
    let mut senders = Vec::new();
    let mut watches = Vec::new();
    for _ in 0..connections {
        let stream = client.connect(&[b"h2"]).await.unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..STREAMS {
            let opened = sender.send_request(request("GET", &format!("{MAPS}?watch=1&resourceVersion=1"), "", ""));
            watches.push(opened);
        }
        senders.push(sender);
    }
    let opened = tokio::time::timeout(SOON * 2, join_all(watches)).await.expect("all watches open");
    let mut bodies: Vec<_> = opened.into_iter().map(|response| response.unwrap().into_body()).collect();
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"news"}}"#;
    let began = Instant::now();
    assert_eq!(ask(&client, "POST", MAPS, "application/json", object).await.0, 201);
    let told = join_all(bodies.iter_mut().map(|body| async move {
        let mut text = Vec::new();
        while !text.windows(4).any(|window| window == b"news") {
            let frame = body.frame().await.expect("the watch goes on").unwrap();
            text.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }));
    tokio::time::timeout(SOON * 2, told).await.expect("everybody is told");
    let held = server.resident_bytes().saturating_sub(before);
    let count = (connections * STREAMS) as u64;
    println!("{count} watches: {} KiB each, told within {:?}", held / 1024 / count, began.elapsed());
    assert!(held < count * 40 * 1024, "{} MiB for {count} watches", held >> 20);
    drop(bodies);
    drop(senders);
    assert_eq!(ask(&client, "GET", "/readyz", "", "").await.0, 200);
    server.stop();
}

/// Twenty lists of many pods of 4 KB at once: they are joined from what is there, not built.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_lists_cost_no_memory() {
    let pods = scaled(1_000, 5_000);
    const LISTS: usize = 20;
    const MOST_BYTES: u64 = 30 * 1024 * 1024;
    let server = Process::start(&[]).await;
    let client = Client::new(server.address, "admin-token").unwrap();
    let stream = client.connect(&[b"h2"]).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let filling = "x".repeat(3_300);
    for first in (0..pods).step_by(50) {
        let made = (first..first + 50).map(|at| {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{at}","annotations":{{"fill":"{filling}"}}}},
                "spec":{{"containers":[{{"name":"c","image":"nginx"}}]}}}}"#
            );
            let mut sender = sender.clone();
            async move {
                let path = "/api/v1/namespaces/default/pods";
                sender.send_request(request("POST", path, "application/json", body)).await.unwrap().status().as_u16()
            }
        });
        assert!(join_all(made).await.iter().all(|code| *code == 201));
    }
    // The first list makes the renditions that all later ones share.
    assert!(read_list(&client).await > pods * 4_000);
    let before = server.resident_bytes();
    let (mut most, reading) = (0, join_all((0..LISTS).map(|_| read_list(&client))));
    tokio::pin!(reading);
    loop {
        tokio::select! {
            sizes = &mut reading => break assert!(sizes.iter().all(|size| *size > pods * 4_000)),
            () = tokio::time::sleep(Duration::from_millis(20)) => most = most.max(server.resident_bytes()),
        }
    }
    let risen = most.saturating_sub(before);
    println!("{LISTS} lists of {pods} pods at once: memory rose by {} KiB from {} MiB", risen / 1024, before >> 20);
    assert!(risen < MOST_BYTES, "memory rose by {} MiB", risen >> 20);
    server.stop();
}

/// Reads the list to its end without keeping it, and says how long it was.
async fn read_list(client: &Client) -> usize {
    let stream = client.connect(&[b"http/1.1"]).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request("GET", "/api/v1/namespaces/default/pods", "", "")).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    bytes
}
