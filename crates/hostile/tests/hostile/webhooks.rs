//! Webhooks that lie, hang or send too much: the request gets an error, and nothing of the server is held afterwards.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use hostile::{ADMIN, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::peer::Peer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const WRITES: usize = 4;
/// What the server may keep of all the answers that it was sent.
const KEPT_MAX_KIB: u64 = 96 << 10;

/// What a webhook does instead of answering.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// It does not speak TLS.
    Garbage,
    /// It ends the connection after the handshake.
    HangUp,
    /// The head of a response, then a byte now and then.
    SlowBytes,
    /// A body that does not end.
    Endless,
    /// A header that does not end.
    EndlessHeader,
    Redirect,
    /// Another uid, and a body of three megabytes that is a valid review otherwise.
    Large,
    /// An answer that says it is compressed and is not.
    Compressed,
}

async fn serve(lie: Lie) -> (u16, String) {
    let Peer { listener, acceptor, port, certificate } = Peer::bind("localhost").await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(tell(lie, stream, acceptor.clone()));
        }
    });
    (port, STANDARD.encode(certificate))
}

/// Errors end the connection, which is what the server does when it has had enough.
async fn tell(lie: Lie, mut stream: TcpStream, acceptor: TlsAcceptor) -> std::io::Result<()> {
    if let Lie::Garbage = lie {
        stream.write_all(&[0x42; 64]).await?;
        return stream.read(&mut [0; 1024]).await.map(drop);
    }
    let mut stream = acceptor.accept(stream).await?;
    if let Lie::HangUp = lie {
        return stream.shutdown().await;
    }
    read_request(&mut stream).await?;
    let head = |rest: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n{rest}\r\n\r\n")
    };
    match lie {
        Lie::SlowBytes => {
            stream.write_all(head("content-length: 1000").as_bytes()).await?;
            loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Lie::Endless => {
            stream.write_all(head("content-length: 1000000000").as_bytes()).await?;
            loop {
                stream.write_all(&[b'a'; 65536]).await?;
            }
        }
        Lie::EndlessHeader => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
            loop {
                stream.write_all(&[b'a'; 65536]).await?;
            }
        }
        Lie::Redirect => {
            stream
                .write_all(b"HTTP/1.1 307 Moved\r\nlocation: https://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await?;
        }
        Lie::Large => {
            let response = json!({"uid": "another", "allowed": true, "warnings": ["w".repeat(3 << 20)]});
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            let body = review.to_string();
            stream.write_all(head(&format!("content-length: {}", body.len())).as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
        }
        Lie::Compressed => {
            stream.write_all(head("content-encoding: gzip\r\ncontent-length: 4").as_bytes()).await?;
            stream.write_all(b"nope").await?;
        }
        Lie::Garbage | Lie::HangUp => {}
    }
    stream.flush().await?;
    stream.read(&mut [0; 1024]).await.map(drop)
}

/// Reads until the review's last brace.
async fn read_request(stream: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let length = text.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
        if count == 0 || length.is_some_and(|length: usize| body >= length) {
            return Ok(());
        }
    }
}

fn configuration(port: u16, bundle: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "liar"},
        "webhooks": [{
            "name": "liar.hooks.example", "timeoutSeconds": 1, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://localhost:{port}/"), "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        }],
    })
}

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_that_lie_fail_the_request_and_nothing_else() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_writes = WRITES;
            config.serving.priority_and_fairness = false;
        })
    })
    .await;
    target.allow("alice", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])).await;
    let map = |name: String| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let call = "Internal error occurred: failed calling webhook \"liar.hooks.example\": ";
    let before = memory_kib();
    let cases = [
        (Lie::Garbage, "first record does not look like a TLS handshake"),
        (Lie::HangUp, "EOF"),
        (Lie::SlowBytes, "context deadline exceeded"),
        (Lie::Endless, "the response is larger than 8388608 bytes"),
        (Lie::EndlessHeader, ""),
        (Lie::Redirect, "the server responded with the status code 307"),
        (Lie::Large, "received invalid webhook response: expected response.uid="),
        (Lie::Compressed, ""),
    ];
    for (lie, expected) in cases {
        let (port, bundle) = serve(lie).await;
        let made = target.ask(ADMIN, "POST", CONFIGURATIONS, configuration(port, &bundle).to_string()).await;
        assert_eq!(made.code, 201, "{}", made.message());
        let asked =
            (0..WRITES).map(|at| target.ask("alice", "POST", MAPS, map(format!("{lie:?}-{at}").to_lowercase())));
        for answer in join_all(asked).await {
            let message = answer.message();
            assert_eq!(answer.code, 500, "{lie:?}: {message}");
            assert!(message.starts_with(call) && message.contains(expected), "{lie:?}: {message}");
        }
        let gone = target.ask(ADMIN, "DELETE", &format!("{CONFIGURATIONS}/liar"), "").await;
        assert_eq!(gone.code, 200, "{}", gone.message());
        // All seats are free again.
        let asked =
            (0..WRITES).map(|at| target.ask("alice", "POST", MAPS, map(format!("{lie:?}-{at}").to_lowercase())));
        for answer in join_all(asked).await {
            assert_eq!(answer.code, 201, "{lie:?}: {}", answer.message());
        }
    }
    let kept = memory_kib().saturating_sub(before);
    assert!(kept < KEPT_MAX_KIB, "{kept} KiB are kept");
}
