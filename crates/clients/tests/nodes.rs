//! Connections that go through to a node: a kubelet made of a few lines, and what clients get from it.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::sync::Arc;

use bytes::Bytes;
use clients::TestServer;
use difftest::Client;
use http::Request;
use http_body_util::Full;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(client: &Client, method: &str, path: &str, body: serde_json::Value) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "x")
        .header("authorization", "Bearer admin-token")
        .header("content-type", if method == "PATCH" { "application/merge-patch+json" } else { "application/json" });
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = client.send(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
}

/// Answers logs with the path they were asked for, and echoes what comes over an upgraded connection.
async fn kubelet() -> (u16, tokio::task::JoinHandle<()>) {
    let made = rcgen::generate_simple_self_signed(vec!["node".to_string()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.cert.der().to_vec())], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(!head.to_lowercase().contains("authorization:"), "our clients' credentials stay with us");
            let path = head.split(' ').nth(1).unwrap().to_string();
            if head.to_lowercase().contains("upgrade: spdy/3.1") {
                let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n";
                stream.write_all(switch).await.unwrap();
                let mut ping = [0; 4];
                stream.read_exact(&mut ping).await.unwrap();
                stream.write_all(&ping).await.unwrap();
                let _ = stream.flush().await;
            } else {
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ = stream.flush().await;
            }
            let _ = stream.shutdown().await;
        }
    });
    (port, serving)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_through_to_the_kubelet() {
    let server = TestServer::start().await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let (port, serving) = kubelet().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    assert_eq!(send(&client, "POST", "/api/v1/nodes", node).await.0, 201);
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    assert_eq!(send(&client, "PATCH", "/api/v1/nodes/n/status", status).await.0, 200);
    let pod = |name: &str, node: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "nginx"}]}})
    };
    assert_eq!(send(&client, "POST", PODS, pod("p", "n")).await.0, 201);
    assert_eq!(send(&client, "POST", PODS, pod("lost", "nowhere")).await.0, 201);

    let (code, log) = send(&client, "GET", &format!("{PODS}/p/log?tailLines=3"), json!(null)).await;
    assert_eq!((code, log.as_str()), (200, "/containerLogs/default/p/c?tailLines=3"));
    let (code, said) = send(&client, "GET", "/api/v1/nodes/n/proxy/metrics/cadvisor?x=y", json!(null)).await;
    assert!(code == 400 && said.contains("address not allowed"), "a node on this machine is not proxied to: {said}");
    let (code, said) = send(&client, "GET", &format!("{PODS}/p/log?container=other"), json!(null)).await;
    assert!(code == 400 && said.contains("container other is not valid for pod p"), "{said}");
    let (code, said) = send(&client, "GET", &format!("{PODS}/lost/log"), json!(null)).await;
    assert!(code == 404 && said.contains("nowhere"), "{said}");

    let mut stream = client.connect(&[b"http/1.1"]).await.unwrap();
    let head = format!(
        "POST {PODS}/p/exec?command=ls&stdout=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\n\
         connection: Upgrade\r\nupgrade: SPDY/3.1\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101") && answer.to_lowercase().contains("upgrade: spdy/3.1"), "{answer}");
    stream.write_all(b"ping").await.unwrap();
    let mut pong = [0; 4];
    stream.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"ping");

    serving.abort();
    let _ = serving.await;
    let (code, said) = send(&client, "GET", &format!("{PODS}/p/log"), json!(null)).await;
    assert!(code == 500 && said.contains("connect: connection refused"), "{code} {said}");
    server.stop().await;
}
