//! Clients that hold on to what they got: bodies that do not end, responses that are not read, connections that say nothing.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use hostile::{ADMIN, MALLORY, Target, request};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const READS: usize = 6;
const WRITES: usize = 4;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A server with few seats and without priority and fairness, and alice, who may do everything but is not exempt from limits.
async fn crowded() -> Target {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_reads = READS;
            config.serving.max_writes = WRITES;
            config.serving.priority_and_fairness = false;
            config.request_timeout = Duration::from_secs(20);
        })
    })
    .await;
    target.allow("alice", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])).await;
    target
}

/// A user without any role sends bodies that never end; other users can still write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_bodies_hold_no_seat() {
    let target = crowded().await;
    let slow = join_all((0..3 * WRITES).map(|_| async {
        let mut stream = target.connect(&[b"http/1.1"]).await;
        let head = format!(
            "POST {REVIEW} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {MALLORY}\r\ncontent-type: application/json\r\n\
             content-length: 1000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }))
    .await;
    for at in 0..2 * WRITES {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")}});
        let answer = target.ask("alice", "POST", MAPS, map.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
    }
    // A body that has stopped arriving is given up.
    let answered = join_all(slow.into_iter().map(|mut stream| async move {
        let mut start = [0; 12];
        tokio::time::timeout(Duration::from_secs(30), stream.read_exact(&mut start)).await.unwrap().unwrap();
        assert_eq!(&start, b"HTTP/1.1 504");
    }));
    answered.await;
}

/// A client that opens many lists and reads none of them: others can still read, and its connection is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_hold_no_seat() {
    let target = crowded().await;
    let filling = "x".repeat(400_000);
    for at in 0..3 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")}, "data": {"a": filling}});
        assert_eq!(target.ask(ADMIN, "POST", MAPS, map.to_string()).await.code, 201);
    }
    let stream = target.connect(&[b"h2"]).await;
    // Streams get a window of one byte, so no response can be sent.
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1)
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..4 * READS {
        let list = request("alice", "GET", MAPS).body(Full::new(Bytes::new())).unwrap();
        open.push(sender.clone().send_request(list).await.unwrap());
    }
    let codes: Vec<u16> = open.iter().map(|response| response.status().as_u16()).collect();
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    for _ in 0..2 * READS {
        assert_eq!(target.ask("alice", "GET", &format!("{MAPS}?limit=1"), "").await.code, 200);
    }
    let closed = tokio::time::timeout(Duration::from_secs(60), connection).await;
    assert!(closed.is_ok(), "the connection stays open though nothing is read");
    drop(open);
}

/// How a client keeps the server from sending.
#[derive(Clone, Copy, Debug)]
pub enum Unread {
    /// So many streams of one HTTP/2 connection, whose window is zero.
    Streams(usize),
    /// So many HTTP/1.1 connections that are not read.
    Connections(usize),
}

/// Opens requests whose answers are not read; what is returned keeps them open.
pub async fn open_unread(target: &Target, how: Unread, path: &str) -> Vec<Box<dyn std::any::Any>> {
    let mut open: Vec<Box<dyn std::any::Any>> = Vec::new();
    match how {
        Unread::Streams(count) => {
            let stream = target.connect(&[b"h2"]).await;
            let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(0)
                .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            for _ in 0..count {
                sender.ready().await.unwrap();
                let asked = sender.send_request(request("alice", "GET", path).body(Full::default()).unwrap());
                open.push(Box::new(asked.await.unwrap()));
            }
        }
        Unread::Connections(count) => {
            for _ in 0..count {
                let mut stream = target.connect(&[b"http/1.1"]).await;
                let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.read_exact(&mut [0; 12]).await.unwrap();
                open.push(Box::new(stream));
            }
        }
    }
    open
}

/// Watches and lists that nobody reads, by a user with rights in one namespace: another user of the same priority level is served,
/// and the answers that are not read go on when they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_hold_no_seat() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_reads = 40;
            config.serving.max_writes = 20;
        })
    })
    .await;
    for user in ["alice", "bob"] {
        target.allow(user, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])).await;
    }
    let filling = "x".repeat(900_000);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": filling}});
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map.to_string()).await.code, 201);
    let revision = "resourceVersion=0&resourceVersionMatch=NotOlderThan";
    let watches = [
        format!("{MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&{revision}"),
        format!("{MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&{revision}&labelSelector=a!=b"),
        format!("{MAPS}?watch=true"),
        MAPS.to_string(),
    ];
    for path in &watches {
        for how in [Unread::Streams(90), Unread::Connections(60)] {
            let open = tokio::time::timeout(Duration::from_secs(30), open_unread(&target, how, path)).await;
            let open = open.unwrap_or_else(|_| panic!("{how:?} {path}: requests wait for those that are not read"));
            for at in 0..20 {
                let answer = target.ask("bob", "GET", &format!("{MAPS}?limit=1"), "").await;
                assert_eq!(answer.code, 200, "{how:?} {path} {at}: {}", answer.message());
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m"}});
                let dry = format!("{MAPS}?dryRun=All");
                assert_eq!(target.ask("bob", "POST", &dry, map.to_string()).await.code, 201, "{how:?} {path} {at}");
            }
            drop(open);
        }
    }
}

/// A watch that is begun with its seat and read later has everything it should.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_read_late_is_whole() {
    let target = Target::start().await;
    for at in 0..3 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")}, "data": {"a": "x".repeat(50_000)}});
        assert_eq!(target.ask(ADMIN, "POST", MAPS, map.to_string()).await.code, 201);
    }
    for seconds in [1, -1] {
        let path = format!(
            "{MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds={seconds}"
        );
        let answer = target.ask(ADMIN, "GET", &path, "").await;
        let text = String::from_utf8_lossy(&answer.body);
        let types: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_string())
            .collect();
        assert_eq!(types, ["ADDED", "ADDED", "ADDED", "BOOKMARK"], "{seconds}");
    }
}

/// Health checks answer while every seat is taken, and so do requests of administrators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_checks_and_administrators_need_no_seat() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_reads = 1;
            config.serving.max_writes = 1;
        })
    })
    .await;
    let every = |path: &'static str, user: &'static str, method: &'static str, body: &'static str| {
        let target = &target;
        async move {
            let answers = join_all((0..40).map(|_| target.ask(user, method, path, body))).await;
            answers.iter().map(|answer| answer.code).collect::<std::collections::BTreeSet<u16>>()
        }
    };
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    let (probes, reads, writes) = tokio::join!(
        every("/livez", MALLORY, "GET", ""),
        every("/api/v1/configmaps", ADMIN, "GET", ""),
        every(REVIEW, ADMIN, "POST", review),
    );
    assert_eq!((probes, reads, writes), ([200].into(), [200].into(), [201].into()));
}

/// Connections that say nothing after TLS, or half of what HTTP/2 begins with, are closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed() {
    let target = Target::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let cases: &[(&[&[u8]], &[u8])] = &[
        (&[b"http/1.1"], b""),
        (&[b"h2"], b""),
        (&[], b""),
        (&[], &preface[..10]),
        (&[b"h2"], &preface[..10]),
        (&[b"h2"], preface),
        (&[b"http/1.1"], b"GET / HT"),
    ];
    let target = &target;
    let closed = join_all(cases.iter().map(|(protocols, said)| async move {
        let mut stream = target.connect(protocols).await;
        stream.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(45), stream.read_to_end(&mut rest)).await;
        (protocols, said, closed.is_ok())
    }))
    .await;
    for (protocols, said, closed) in closed {
        assert!(closed, "{protocols:?} {said:?}");
    }
}
