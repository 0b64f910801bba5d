//! Watches over WebSocket, on HTTP/1.1 and as an extended CONNECT on HTTP/2.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use bytes::Bytes;
use clients::TestServer;
use difftest::Client;
use http::{Request, StatusCode};
use http_body_util::{Empty, Full};
use hyper::client::conn::http2;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(client: &Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let request = Request::post(MAPS)
        .header("host", "x")
        .header("authorization", "Bearer admin-token")
        .header("content-type", "application/json");
    let response = client.send(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    assert_eq!(response.status(), 201);
}

/// The next message: its opcode and payload.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> (u8, Vec<u8>) {
    let (first, second) = (stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap());
    let length = match second {
        126 => usize::from(stream.read_u16().await.unwrap()),
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

/// Every event is a text message of its own; a ping is answered, a close ends the watch.
async fn check_watch(client: &Client, stream: &mut (impl AsyncRead + AsyncWrite + Unpin), names: [&str; 2]) {
    for name in names {
        create(client, name).await;
    }
    for name in names {
        let (first, payload) = message(stream).await;
        let event: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(
            (first, &event["type"], &event["object"]["metadata"]["name"]),
            (0x81, &json!("ADDED"), &json!(name))
        );
        assert_eq!(payload.last(), Some(&b'\n'));
    }
    stream.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'p']).await.unwrap();
    assert_eq!(message(stream).await, (0x8a, b"p".to_vec()));
    stream.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(message(stream).await, (0x88, vec![0x03, 0xe8]));
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_messages() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let ask = |headers: &str| {
        format!(
            "GET {MAPS}?watch=true&resourceVersion=1&fieldSelector=metadata.name!=kube-root-ca.crt HTTP/1.1\r\nhost: x\r\n\
             authorization: Bearer admin-token\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n{headers}\r\n"
        )
    };
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (headers, code) in [
        ("origin: http://x\r\n".to_string(), "400"),
        (key.to_string(), "403"),
        (format!("{key}origin: http://x\r\nsec-websocket-protocol: a, b\r\n"), "400"),
    ] {
        let mut stream = client.connect(&[b"http/1.1"]).await.unwrap();
        stream.write_all(ask(&headers).as_bytes()).await.unwrap();
        let answer = head(&mut stream).await;
        assert!(answer.starts_with(&format!("http/1.1 {code}")), "{headers}: {answer}");
    }
    let mut stream = client.connect(&[b"http/1.1"]).await.unwrap();
    stream.write_all(ask(&format!("{key}origin: http://x\r\n")).as_bytes()).await.unwrap();
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("http/1.1 101") && answer.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
    check_watch(&client, &mut stream, ["a", "b"]).await;

    let stream = TokioIo::new(client.connect(&[b"h2"]).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    // Only after the server's settings have come does the client know that it may connect so.
    let before = Request::get("https://x/version").header("authorization", "Bearer admin-token");
    let before = before.body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(before).await.unwrap().status(), 200);
    let request =
        Request::connect(format!("https://x{MAPS}?watch=true&resourceVersion=1&fieldSelector=metadata.name=c"))
            .extension(Protocol::from_static("websocket"))
            .header("authorization", "Bearer admin-token")
            .header("sec-websocket-version", "13")
            .header("origin", "https://x");
    let mut response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    create(&client, "c").await;
    let (first, payload) = message(&mut stream).await;
    assert!(first == 0x81 && String::from_utf8(payload).unwrap().contains("ADDED"));
    drop((stream, response, sender));
    server.stop().await;
}

/// Parameters of lists beyond upstream's (docs/lists.md) hold for messages, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_filtered() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let mut stream = client.connect(&[b"http/1.1"]).await.unwrap();
    let query = "authorized=true&filter=object.metadata.name%3D%3D%27e%27&fields=metadata.name";
    let ask = format!(
        "GET {MAPS}?watch=true&{query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\norigin: http://x\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.starts_with("http/1.1 101"));
    for name in ["d", "e"] {
        create(&client, name).await;
    }
    let (_, payload) = message(&mut stream).await;
    let event: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(event["object"]["metadata"]["name"], "e");
    assert!(event["object"]["metadata"]["managedFields"].is_null(), "{event}");
    drop(stream);
    server.stop().await;
}
