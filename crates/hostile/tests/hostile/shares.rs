//! What clients share: one that takes as much as it can leaves others what they need.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;

use bytes::Bytes;
use futures::stream::{self, Stream};
use futures::{FutureExt, StreamExt};
use hostile::{ADMIN, MALLORY, Target, request};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::task::JoinSet;

use crate::seats::{Unread, open_unread};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// What docs/security.md says of unfinished bodies.
const UNFINISHED_BYTES_MAX: f64 = 192.0 * 1024.0 * 1024.0;
const SECURITY: &str = include_str!("../../../../docs/security.md");

pub type Unfinished = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>>;

/// Sends so many bodies of so many bytes that do not end, over one connection; each gives the code of its answer, if it gets one.
async fn send_unfinished(target: &Target, bodies: usize, bytes: usize, sent: &mut JoinSet<Option<u16>>) {
    let stream = TokioIo::new(target.connect(&[b"h2"]).await);
    let (mut sender, connection) = http2::handshake::<_, _, Unfinished>(TokioExecutor::new(), stream).await.unwrap();
    sent.spawn(connection.map(|_| None));
    let begun = Bytes::from(vec![b' '; bytes]);
    for _ in 0..bodies {
        let frames = stream::iter([Ok(Frame::data(begun.clone()))]).chain(stream::pending());
        let asked = request(MALLORY, "POST", REVIEW).body(StreamBody::new(frames.boxed() as _)).unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(asked);
        sent.spawn(async move { answer.await.ok().map(|answer| answer.status().as_u16()) });
    }
}

/// A metric of the server without labels.
pub async fn metric(target: &Target, name: &str) -> f64 {
    let text = target.ask(ADMIN, "GET", "/metrics", "").await.body;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse().unwrap()
}

/// A user without any role sends bodies that do not end over many connections: they are refused beyond what one user may have, and
/// nobody else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_bodies_take_no_memory_from_others() {
    const CONNECTIONS: usize = 12;
    const BODIES: usize = 95;
    const BYTES: usize = 250_000;
    let target = Target::start().await;
    target.allow("bob", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}])).await;
    let filling = "x".repeat(BYTES);
    let (mut sent, mut most) = (JoinSet::new(), 0f64);
    for at in 0..CONNECTIONS {
        send_unfinished(&target, BODIES, BYTES, &mut sent).await;
        for user in [ADMIN, "bob"] {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{user}-{at}")}, "data": {"a": filling}});
            let answer = target.ask(user, "POST", MAPS, map.to_string()).await;
            assert_eq!(answer.code, 201, "{user} {at}: {}", answer.message());
        }
        most = most.max(metric(&target, "ferrokube_unfinished_body_bytes").await);
    }
    let mut codes = BTreeMap::new();
    while let Some(code) = sent.try_join_next() {
        *codes.entry(code.unwrap()).or_insert(0) += 1;
    }
    assert!(codes.get(&Some(429)) > Some(&100), "{codes:?}");
    assert!((UNFINISHED_BYTES_MAX / 3.0..UNFINISHED_BYTES_MAX).contains(&most), "{most} bytes were held");
}

/// How many objects are written again and again.
const BUSY: usize = 8;

/// What one client does to use up a limit that is shared.
#[derive(Clone, Copy, Debug)]
enum Hog {
    /// Bodies that do not end.
    Bodies,
    /// Connections over which nothing is said.
    Connections,
    /// Answers that are not read, from this path on.
    Unread(&'static str),
    /// More versions of a few objects than are kept.
    Versions,
    /// The objects in every encoding.
    Encodings,
    /// Requests with bad credentials.
    Strangers,
}

/// The rows of docs/security.md that clients share, by their beginning, with who uses them up.
const SHARED: &[(&str, &[Hog])] = &[
    ("unfinished bodies", &[Hog::Bodies]),
    ("HTTP/2 windows", &[Hog::Connections, Hog::Bodies]),
    ("requests being worked on", &[Hog::Unread(""), Hog::Unread("?watch=true&resourceVersion=0"), Hog::Bodies]),
    ("old versions kept for watchers", &[Hog::Versions]),
    ("other encodings of objects", &[Hog::Encodings]),
    ("answers that were not read yet", &[Hog::Unread("/large"), Hog::Unread("?watch=true&resourceVersion=0")]),
    ("log lines about requests", &[Hog::Strangers]),
    // These two need a client at another address, which module `connections` has, and so it tests long headers.
    ("connections", &[]),
    ("requests whose headers have begun to arrive", &[]),
    ("headers of more than 16 KiB", &[]),
    // As etcd's quota, this one belongs to all; module `space` tests what goes on beyond it.
    ("bytes in the embedded store", &[]),
    // The oldest changes go, for whatever reason there are too many: `crates/history/tests/model.rs` tests it.
    ("bytes of the history", &[]),
];
/// Those of which everybody has an own one.
const OWN: &[&str] = &["the connection", "the request", "the line"];

/// The table of limits: what is limited, and who shares that.
fn limits() -> Vec<(&'static str, &'static str)> {
    let rows = SECURITY.lines().skip_while(|line| !line.ends_with("| shared by |")).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| (row.split(" | ").next().unwrap(), row.rsplit(" | ").next().unwrap())).collect()
}

/// Every limit that clients share has its hog below.
#[test]
fn every_shared_limit_is_tested() {
    let limits = limits();
    assert!(limits.len() > SHARED.len(), "{limits:?}");
    for (what, by) in &limits {
        let is_tested = SHARED.iter().any(|(tested, _)| what.starts_with(tested));
        assert_ne!(is_tested, OWN.contains(by), "{what} is shared by {by}");
    }
    for (tested, _) in SHARED {
        assert!(limits.iter().any(|(what, _)| what.starts_with(tested)), "{tested} is not in docs/security.md");
    }
}

impl Hog {
    /// Takes as much as it gets, and keeps it until what this returns is dropped.
    async fn take(self, target: &Target) -> Vec<Box<dyn Any>> {
        let mut held: Vec<Box<dyn Any>> = Vec::new();
        match self {
            Hog::Bodies => {
                let mut sent = JoinSet::new();
                for _ in 0..6 {
                    send_unfinished(target, 95, 250_000, &mut sent).await;
                }
                held.push(Box::new(sent));
            }
            Hog::Connections => {
                for _ in 0..150 {
                    held.push(Box::new(target.connect(&[b"h2"]).await));
                }
            }
            Hog::Unread(path) => {
                for _ in 0..2 {
                    held.extend(open_unread(target, Unread::Streams(90), &format!("{MAPS}{path}")).await);
                }
            }
            Hog::Versions => {
                let session = &target.session().await;
                let writes = stream::iter(0..2_100).map(|at| async move {
                    let change = json!({"data": {"at": at.to_string()}}).to_string();
                    session.ask("carol", "PATCH", &format!("{MAPS}/busy{}", at % BUSY), change).await.code
                });
                let codes: Vec<u16> = writes.buffer_unordered(BUSY).collect().await;
                assert!(codes.iter().all(|code| *code == 200));
            }
            Hog::Encodings => {
                for accept in ["application/vnd.kubernetes.protobuf", "application/cbor", "application/yaml"] {
                    for path in ["", "/large", "?watch=true&resourceVersion=0&timeoutSeconds=1"] {
                        target
                            .send(request("carol", "GET", &format!("{MAPS}{path}")).header("accept", accept), "")
                            .await;
                    }
                }
            }
            Hog::Strangers => {
                for _ in 0..50 {
                    assert_eq!(target.ask("nobody's", "GET", MAPS, "").await.code, 401);
                }
            }
        }
        held
    }
}

/// Whatever one client takes, another that asks for little gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hogs_take_nothing_from_the_polite() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.serving.max_reads = 40;
            config.serving.max_writes = 20;
        })
    })
    .await;
    for user in ["alice", "bob", "carol"] {
        target.allow(user, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])).await;
    }
    let map = |name: &str, bytes: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x".repeat(bytes)}});
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map("large", 900_000).to_string()).await.code, 201);
    for at in 0..BUSY {
        assert_eq!(target.ask(ADMIN, "POST", MAPS, map(&format!("busy{at}"), 10).to_string()).await.code, 201);
    }
    let begun = target.ask("bob", "POST", MAPS, map("polite", 10).to_string()).await;
    let begun = begun.json()["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    let resumed =
        format!("{MAPS}?watch=true&resourceVersion={begun}&timeoutSeconds=1&fieldSelector=metadata.name=polite");
    for (limit, hogs) in SHARED {
        for hog in *hogs {
            let held = hog.take(&target).await;
            let mut changed = map("polite", 10);
            changed["data"]["b"] = json!(format!("{limit}: {hog:?}"));
            let polite = [
                ("POST", format!("{MAPS}?dryRun=All"), map("new", 600_000).to_string(), 201),
                ("PUT", format!("{MAPS}/polite"), changed.to_string(), 200),
                ("GET", format!("{MAPS}/large"), String::new(), 200),
                ("GET", format!("{MAPS}?limit=1"), String::new(), 200),
                ("GET", resumed.clone(), String::new(), 200),
            ];
            for (method, path, body, code) in polite {
                let answer = target.ask("bob", method, &path, body).await;
                assert_eq!(answer.code, code, "{limit} {hog:?}: {method} {path}: {:.200}", answer.message());
                if path == resumed {
                    let text = String::from_utf8_lossy(&answer.body);
                    assert!(text.starts_with(r#"{"type":"MODIFIED""#), "{limit} {hog:?}: {text:.200}");
                }
            }
            drop(held);
        }
    }
}
