//! Requests that compute: they let others run in between. And answers that nobody reads: they take nothing from other users.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use bytes::Bytes;
use cpu_time::ThreadTime;
use hostile::{ADMIN, Target, request};
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const PROTO: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL_PROTO: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// For how long a request may keep a worker from its other tasks, in CPU time. Code that is not optimized takes many times longer.
const POLL_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 150 } else { 10 });

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Notes the longest CPU time between two of its own polls, for as long as it runs on the same thread. What is done away from the
/// workers lets this go on in another thread.
async fn watch_polls(longest: Arc<AtomicU64>) {
    let mut last: Option<(ThreadId, Duration)> = None;
    loop {
        let (thread, now) = (std::thread::current().id(), ThreadTime::now().as_duration());
        if let Some((before, began)) = last
            && before == thread
        {
            longest.fetch_max(u64::try_from((now - began).as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        last = Some((thread, ThreadTime::now().as_duration()));
        tokio::task::yield_now().await;
    }
}

fn config_map(name: &str, keys: usize, value: &str) -> Value {
    let data: serde_json::Map<String, Value> = (0..keys).map(|at| (format!("key{at}"), json!(value))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "a"}}, "data": data})
}

/// The paths that are asked for, each with an Accept header.
fn expensive() -> Vec<(String, &'static str)> {
    let terms = |term: fn(usize) -> String| (0..5_000).map(term).collect::<Vec<_>>().join(",");
    let mut all = Vec::new();
    let selectors = [
        terms(|at| format!("k{at}!=v")),
        terms(|at| format!("app!=v{at}")),
        format!("app+in+(b,{})", terms(|at| format!("v{at}"))),
    ];
    for selector in selectors {
        all.push((format!("{MAPS}?limit=1&labelSelector={selector}"), ""));
        // Of which no object is one.
        all.push((format!("{MAPS}?labelSelector={selector},missing"), ""));
    }
    let unnamed = (0..2_000).map(|at| format!("metadata.name!=n{at}")).collect::<Vec<_>>().join(",");
    all.push((format!("{MAPS}?fieldSelector={unnamed}"), ""));
    for accept in ["", "application/yaml", TABLE, PARTIAL, PROTO] {
        all.push((format!("{MAPS}/large"), accept));
    }
    for accept in ["", "application/yaml", TABLE, PARTIAL_LIST, PROTO, PARTIAL_PROTO] {
        all.push((MAPS.to_string(), accept));
        all.push((format!("{MAPS}?pretty=true&includeObject=Object&labelSelector=app=a"), accept));
    }
    for accept in ["", TABLE, PARTIAL] {
        all.push((format!("{MAPS}?watch=true&timeoutSeconds=1"), accept));
        all.push((format!("{MAPS}?watch=true&timeoutSeconds=1&labelSelector=app!=a"), accept));
    }
    all
}

/// Every answer is made in pieces, or away from the workers, so that other requests go on meanwhile.
#[test]
fn no_read_keeps_a_worker_from_other_requests() {
    let (serving, asking) = (runtime(), runtime());
    let target = serving.block_on(Target::start());
    asking.block_on(async {
        let session = target.session().await;
        for at in 0..600 {
            let map = config_map(&format!("m{at}"), 10, &"x".repeat(100)).to_string();
            assert_eq!(session.ask(ADMIN, "POST", MAPS, map).await.code, 201);
        }
        for name in ["large", "larger"] {
            let map = config_map(name, 4_000, &"line\n".repeat(40)).to_string();
            assert_eq!(session.ask(ADMIN, "POST", MAPS, map).await.code, 201);
        }
    });
    let longest = Arc::new(AtomicU64::new(0));
    serving.spawn(watch_polls(longest.clone()));
    let mut slow = Vec::new();
    for (path, accept) in expensive() {
        longest.store(0, Ordering::Relaxed);
        let answer = asking.block_on(target.send(request(ADMIN, "GET", &path).header("accept", accept), ""));
        assert_eq!(answer.code, 200, "{path:.100} {accept}: {}", answer.message());
        let took = Duration::from_micros(longest.load(Ordering::Relaxed));
        if took > POLL_MAX {
            slow.push(format!("{path:.100} {accept}: {took:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
    serving.shutdown_background();
}

/// A connection over which no response can be sent: its streams have a window of one byte.
async fn deaf(target: &Target) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(target.connect(&[b"h2"]).await);
    let (sender, connection) =
        http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(1).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// One user asks for more than it reads, and is refused; others are not, and neither is that user when it reads again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_take_nothing_from_other_users() {
    let target = Target::start().await;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    target.allow("alice", rules.clone()).await;
    target.allow("bob", rules).await;
    let map = config_map("large", 1, &"x".repeat(900_000)).to_string();
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map).await.code, 201);
    let large = format!("{MAPS}/large");
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..3 {
        let sender = deaf(&target).await;
        for _ in 0..80 {
            let get = request("alice", "GET", &large).body(Full::new(Bytes::new())).unwrap();
            let response = sender.clone().send_request(get).await.unwrap();
            refused += usize::from(response.status() == 429);
            open.push(response);
        }
        open.push(
            sender.clone().send_request(request("bob", "GET", &large).body(Full::default()).unwrap()).await.unwrap(),
        );
        assert_eq!(open.last().unwrap().status(), 200);
    }
    assert!((1..200).contains(&refused), "{refused} of 240 are refused");
    let answer = target.ask("bob", "GET", &large, "").await;
    assert_eq!((answer.code, answer.body.len() > 900_000), (200, true));
    drop(open);
    let again = async {
        while target.ask("alice", "GET", &large, "").await.code != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
}
