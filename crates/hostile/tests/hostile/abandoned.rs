//! Clients that go away while their request is carried out.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use hostile::{ADMIN, Target, request};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// Repairs give back after a minute what has no owner. Nothing here is left to them.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

/// Creates objects with less time than that takes, and others over connections that are closed meanwhile.
async fn create_and_leave(target: &Target, path: &str, objects: Vec<Value>) {
    let (timed, cut) = objects.split_at(objects.len() / 2);
    let session = target.session().await;
    let timed = timed.iter().enumerate().map(|(at, object)| {
        let path = format!("{path}?timeout={}us", 50 * (1 + at % 100));
        let session = &session;
        async move { session.ask(ADMIN, "POST", &path, object.to_string()).await.code }
    });
    let codes: BTreeSet<u16> = stream::iter(timed).buffer_unordered(10).collect().await;
    assert!(codes.contains(&504), "some requests had too little time: {codes:?}");
    for (at, batch) in cut.chunks(10).enumerate() {
        let stream = TokioIo::new(target.connect(&[b"h2"]).await);
        let (sender, connection) = http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let sent: Vec<_> = batch
            .iter()
            .map(|object| request(ADMIN, "POST", path).body(Full::new(object.to_string().into())).unwrap())
            .map(|request| {
                let mut sender = sender.clone();
                tokio::spawn(async move { sender.send_request(request).await.is_ok() })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(300 * at as u64)).await;
        connection.abort();
        sent.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// What the server counts of requests that it works on, without those that are never limited.
async fn under_way(target: &Target) -> Vec<String> {
    const COUNTED: [&str; 5] = [
        "apiserver_flowcontrol_current_executing_requests{",
        "apiserver_flowcontrol_current_executing_seats{",
        "apiserver_flowcontrol_current_inqueue_requests{",
        "apiserver_current_inflight_requests{request_kind=\"mutating\"}",
        "ferrokube_unfinished_body_bytes",
    ];
    let text = target.ask(ADMIN, "GET", "/metrics", "").await.body;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| COUNTED.iter().any(|name| line.starts_with(name)));
    let lines = lines.filter(|line| !line.contains("exempt") && !line.ends_with(" 0"));
    lines.map(str::to_string).collect()
}

/// Requests whose streams are reset, or whose connections are closed, at any time: their seats, and the memory of their bodies, are
/// free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_up_requests_hold_nothing() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_reads = 40;
            config.serving.max_writes = 20;
        })
    })
    .await;
    target.allow("alice", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])).await;
    let map = |name: &str, bytes: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x".repeat(bytes)}});
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map("large", 300_000).to_string()).await.code, 201);
    let asks = [
        ("GET", MAPS.to_string(), String::new()),
        ("GET", format!("{MAPS}?watch=true&resourceVersion=0"), String::new()),
        ("POST", format!("{MAPS}?dryRun=All"), map("new", 300_000).to_string()),
        ("PUT", format!("{MAPS}/large"), map("large", 300_000).to_string()),
        ("DELETE", format!("{MAPS}/large?dryRun=All"), String::new()),
    ];
    for round in 0..40u64 {
        let stream = TokioIo::new(target.connect(&[b"h2"]).await);
        let (sender, connection) = http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let sent: Vec<_> = asks
            .iter()
            .cycle()
            .take(30)
            .map(|(method, path, body)| request("alice", method, path).body(Full::new(body.clone().into())).unwrap())
            .map(|request| tokio::spawn(sender.clone().send_request(request)))
            .collect();
        tokio::time::sleep(Duration::from_micros(250 * round)).await;
        sent.iter().for_each(tokio::task::JoinHandle::abort);
        if round % 2 == 0 {
            connection.abort();
        }
    }
    let target = &target;
    eventually(|| async move {
        let left = under_way(target).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

/// The names of all objects of a collection.
async fn names(target: &Target, path: &str) -> Vec<String> {
    let list = target.ask(ADMIN, "GET", path, "").await.json();
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_string())
        .collect()
}

/// Waits until what is looked for is right.
async fn eventually<F: Future<Output = Result<(), String>>>(look: impl Fn() -> F) {
    let began = Instant::now();
    while let Err(wrong) = look().await {
        assert!(began.elapsed() < SETTLED_WITHIN, "{wrong}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Requests that end early take no address and no port for longer than their Service is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_up_creations_take_no_addresses() {
    const PORTS: usize = 100;
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.own_service.cluster_ip_range = "10.96.0.0/24".into();
            config.own_service.node_port_range.size = PORTS as u16;
        })
    })
    .await;
    let service = |name: String| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    create_and_leave(&target, SERVICES, (0..90).map(|at| service(format!("s{at}"))).collect()).await;
    let target = &target;
    eventually(|| async move {
        let list = target.ask(ADMIN, "GET", SERVICES, "").await.json();
        let used = list["items"].as_array().unwrap().iter().map(|item| item["spec"]["clusterIP"].as_str().unwrap());
        let used: BTreeSet<String> = used.map(str::to_string).collect();
        let taken: BTreeSet<String> = names(target, ADDRESSES).await.into_iter().collect();
        if used == taken { Ok(()) } else { Err(format!("{} addresses for {} services", taken.len(), used.len())) }
    })
    .await;
    // What has no node port can have one.
    let there = names(target, SERVICES).await.len() - 1;
    for at in there..PORTS {
        let answer = target.ask(ADMIN, "POST", SERVICES, service(format!("t{at}")).to_string()).await;
        assert_eq!(answer.code, 201, "{at}: {}", answer.message());
    }
    let answer = target.ask(ADMIN, "POST", SERVICES, service("one-more".into()).to_string()).await;
    assert_eq!((answer.code, answer.message().contains("range is full")), (500, true), "{}", answer.message());
}

/// The names of created config maps by the codes that the audit log has for them.
fn audited(log: &Path) -> BTreeSet<(String, u64)> {
    let text = std::fs::read_to_string(log).unwrap();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = events.filter(|event| {
        event["stage"] == "ResponseComplete"
            && event["verb"] == "create"
            && event["objectRef"]["resource"] == "configmaps"
    });
    let code = |event: &Value| event["responseStatus"]["code"].as_u64().unwrap_or_default();
    ended.map(|event| (event["objectRef"]["name"].as_str().unwrap_or("").to_string(), code(&event))).collect()
}

/// What was stored is in the audit log as stored, whatever the client was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_up_creations_are_audited_with_their_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let (target, log) = Target::audited(folder.path()).await;
    let map = |at| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")}});
    create_and_leave(&target, MAPS, (0..200).map(map).collect()).await;
    let (target, log) = (&target, &log);
    eventually(|| async move {
        let stored: BTreeSet<String> = names(target, MAPS).await.into_iter().collect();
        let created: BTreeSet<String> =
            audited(log).into_iter().filter(|(_, code)| *code == 201).map(|(name, _)| name).collect();
        let wrong: Vec<&String> = stored.symmetric_difference(&created).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("stored or audited as stored, but not both: {wrong:?}")) }
    })
    .await;
}

/// Owner references name objects. A name that looks like a path leads nowhere, and keeps nothing from being collected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_owners_are_no_paths() {
    let target = Target::start_with(|builder| builder.configure(|config| config.standalone = true)).await;
    let owned = |name: &str, kind: &str, owner: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": format!("{name}-owner")}]}})
    };
    let paths = ["default/configmaps?watch=1", "default/pods/p/log", "default%2Fconfigmaps", ".."];
    for (at, owner) in paths.into_iter().enumerate() {
        let map = owned(&format!("odd{at}"), "Namespace", owner);
        assert_eq!(target.ask(ADMIN, "POST", MAPS, map.to_string()).await.code, 201, "{owner}");
    }
    // The collector is at work on those when it comes to this one.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(target.ask(ADMIN, "POST", MAPS, owned("orphan", "ConfigMap", "gone").to_string()).await.code, 201);
    let target = &target;
    eventually(|| async move {
        let left = names(target, MAPS).await;
        if left.contains(&"orphan".to_string()) { Err(format!("{left:?} are left")) } else { Ok(()) }
    })
    .await;
    let left = names(target, MAPS).await;
    assert_eq!(left.iter().filter(|name| name.starts_with("odd")).count(), paths.len(), "{left:?}");
}
