//! Servers for tests give out certificates and can be emptied: only to their administrator, and no other server can.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostile::{ADMIN, MALLORY, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::peer::Peer;

const RESET: &str = "/test-server/reset";
const USERS: &str = "/test-server/users?name=root&group=system:masters";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(30);

async fn test_server() -> Target {
    Target::start_with(|builder| builder.in_memory()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_have_no_such_paths() {
    let target = Target::start().await;
    for path in [RESET, USERS] {
        for method in ["POST", "GET"] {
            assert_eq!(target.ask(ADMIN, method, path, "").await.code, 404, "{method} {path}");
        }
    }
    let paths = target.ask(ADMIN, "GET", "/", "").await;
    assert!(!paths.message().contains("test-server"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_for_the_administrator() {
    let target = test_server().await;
    // Rights to every path are not enough: they would become rights to everything.
    target.allow("alice", json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}])).await;
    target.ask(ADMIN, "POST", MAPS, json!({"metadata": {"name": "a"}}).to_string()).await;
    for path in [RESET, USERS] {
        for user in ["alice", MALLORY, "", "nobody"] {
            let answer = target.ask(user, "POST", path, "").await;
            assert!(matches!(answer.code, 401 | 403), "{user} {path}: {}", answer.message());
        }
        assert_eq!(target.ask(ADMIN, "GET", path, "").await.code, 405, "{path}");
    }
    assert_eq!(target.ask(ADMIN, "POST", &format!("{RESET}?definitions=some"), "").await.code, 400);
    let long = "a".repeat(300);
    for query in ["", "name=", "name=a&group=", &format!("name={long}"), "name=a&clusterRole=a/b"] {
        assert_eq!(target.ask(ADMIN, "POST", &format!("/test-server/users?{query}"), "").await.code, 400, "{query}");
    }
    assert_eq!(target.ask(ADMIN, "GET", &format!("{MAPS}/a"), "").await.code, 200);
    assert_eq!(target.ask(ADMIN, "POST", RESET, "").await.code, 200);
    assert_eq!(target.ask(ADMIN, "GET", &format!("{MAPS}/a"), "").await.code, 404);
    // What allowed alice something is gone with everything else.
    assert_eq!(target.ask("alice", "POST", RESET, "").await.code, 403);
}

/// A webhook that says when it is asked, and allows when it is told to.
async fn slow_webhook(asked: UnboundedSender<()>, mut go: UnboundedReceiver<()>) -> Value {
    let Peer { listener, acceptor, port, certificate } = Peer::bind("localhost").await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut read = Vec::new();
            let review: Value = loop {
                assert!(stream.read_buf(&mut read).await.unwrap() > 0);
                let text = String::from_utf8_lossy(&read);
                let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                if let Ok(review) = serde_json::from_str(body) {
                    break review;
                }
            };
            asked.send(()).unwrap();
            go.recv().await.unwrap();
            let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": true}})
            .to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://localhost:{port}/"), "caBundle": STANDARD.encode(certificate)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    })
}

/// A write that was allowed before the server was emptied would be the next test's, in a namespace that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_began_before_is_not_stored_after() {
    let target = test_server().await;
    let (asked, mut was_asked) = unbounded_channel();
    let (go, told) = unbounded_channel();
    let webhook = slow_webhook(asked, told).await;
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    target.ask(ADMIN, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}}).to_string()).await;
    let made = target.ask(ADMIN, "POST", webhooks, webhook.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.message());
    let body = json!({"metadata": {"name": "late"}}).to_string();
    let write = target.ask(ADMIN, "POST", "/api/v1/namespaces/n/configmaps", body);
    let empty = async {
        tokio::time::timeout(PATIENCE, was_asked.recv()).await.unwrap().unwrap();
        assert_eq!(target.ask(ADMIN, "POST", RESET, "").await.code, 200);
        go.send(()).unwrap();
    };
    let (written, ()) = tokio::join!(write, empty);
    assert!(written.code >= 500, "{} {}", written.code, written.message());
    let maps = target.ask(ADMIN, "GET", "/api/v1/configmaps", "").await.json();
    let names: Vec<&Value> = maps["items"].as_array().unwrap().iter().map(|map| &map["metadata"]["name"]).collect();
    assert!(!names.contains(&&json!("late")), "{names:?}");
}
