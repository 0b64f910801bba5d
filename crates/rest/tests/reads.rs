//! Lists, gets and watches: their parameters, and what a client accepts.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;

use object::{GroupResource, Meta, Value, value};
use rest::{Limits, WatchCache};
use storage::memory::MemoryStore;
use storage::{Found, Page, RangeQuery, Revision, Store, WatchRequest, WatchStream, Write, Written};
use support::{MAPS, Server, ask_for, map, one};

async fn with_maps(gates: &[&str], limits: Limits) -> Server {
    let server = Server::with(Vec::new(), gates, limits).await;
    for name in ["a", "b", "c"] {
        let mut object = map(Value::map());
        object.set_meta_str("name", name);
        assert_eq!(server.ask("POST", MAPS, object).await.0, 201);
    }
    server
}

/// Continue tokens that start at //a and at ../a, and what is said of them.
const OUTSIDE: [(&str, &str); 2] = [
    (
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLy9hIn0",
        "invalid continue token: continue key is not valid: //a",
    ),
    (
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vYSJ9",
        "invalid continue token: continue key is not valid: ../a",
    ),
];

#[tokio::test]
async fn lists_follow_their_parameters() {
    let cached = with_maps(&[], Limits::default()).await;
    let without = vec![GroupResource::new("", "configmaps")];
    let limits = Limits { watch_cache: WatchCache { enabled: true, without }, ..Limits::default() };
    let uncached = with_maps(&[], limits).await;
    let (_, first) = cached.ask("GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    let token = first.str_at(&["metadata", "continue"]).to_string();
    let refused = "specifying resource version is not allowed when using continue";
    for (server, query, code, items, message) in [
        (&cached, "limit=2", 200, 2, ""),
        (&cached, "limit=2&resourceVersion=0", 200, 3, ""),
        (&uncached, "limit=2&resourceVersion=0", 200, 2, ""),
        (&uncached, "limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan", 200, 2, ""),
        (&cached, &format!("continue={token}"), 200, 1, ""),
        (&cached, &format!("continue={token}&resourceVersion=0"), 200, 1, ""),
        (&cached, &format!("continue={token}&resourceVersion=2"), 400, 0, refused),
        (&cached, &format!("continue={token}&resourceVersion=x"), 400, 0, refused),
        // {"v":"meta.k8s.io/v1","rv":-1,"start":…}: /a as kube-apiserver writes it, a as older ones did, then keys outside.
        (&cached, "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiL2FcdTAwMDAifQ", 200, 2, ""),
        (&cached, "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9", 200, 2, ""),
        (&cached, OUTSIDE[0].0, 400, 0, OUTSIDE[0].1),
        (&cached, OUTSIDE[1].0, 400, 0, OUTSIDE[1].1),
    ] {
        let (got, list) = server.ask("GET", &format!("{MAPS}?{query}"), Value::Null).await;
        let shown = (got, list.list_at(&["items"]).len(), list.str_at(&["message"]));
        assert_eq!(shown, (code, items, message), "{query}");
    }
}

/// A store whose watches hear nothing, as when etcd is slow; reads and writes work.
struct Deaf(Arc<MemoryStore>);

#[async_trait::async_trait]
impl Store for Deaf {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> storage::Result<Found> {
        self.0.get(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> storage::Result<Page> {
        self.0.range(query).await
    }

    async fn write(&self, write: Write) -> storage::Result<Written> {
        self.0.write(write).await
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, storage::RefusedWrites> {
        self.0.write_all(writes).await
    }

    fn write_limits(&self) -> storage::WriteLimits {
        self.0.write_limits()
    }

    async fn watch(&self, _: WatchRequest) -> storage::Result<WatchStream> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn progress(&self) -> storage::Result<Revision> {
        self.0.progress().await
    }

    async fn compact(&self, revision: Revision) -> storage::Result<()> {
        self.0.compact(revision).await
    }

    async fn status(&self) -> storage::Result<storage::Status> {
        self.0.status().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_present_is_read_from_the_store_when_the_cache_is_behind() {
    let store = Arc::new(MemoryStore::new());
    let behind = |gates| Server::on(Arc::new(Deaf(store.clone())), Vec::new(), gates, Limits::default());
    let (falls_back, refuses) = (behind(&[]).await, behind(&["ConsistentListFromCacheSkipTimeoutFallback"]).await);
    let before = store.progress().await.unwrap();
    let writer = Server::on(store.clone(), Vec::new(), &[], Limits::default()).await;
    for name in ["a", "b", "c"] {
        let mut object = map(Value::map());
        object.set_meta_str("name", name);
        assert_eq!(writer.ask("POST", MAPS, object).await.0, 201);
    }
    let now = store.progress().await.unwrap();
    let late = format!("Timeout: Too large resource version: {now}, current: {before}");
    for (server, query, code, items, message) in [
        (&falls_back, "", 200, 3, ""),
        (&falls_back, "limit=2", 200, 2, ""),
        (&falls_back, "resourceVersion=0", 200, 0, ""),
        (&falls_back, &format!("resourceVersion={now}"), 504, 0, &*late),
        (&refuses, "", 429, 0, &late),
        (&refuses, "resourceVersion=0", 200, 0, ""),
    ] {
        let (got, list) = server.ask("GET", &format!("{MAPS}?{query}"), Value::Null).await;
        let shown = (got, list.list_at(&["items"]).len(), list.str_at(&["message"]));
        assert_eq!(shown, (code, items, message), "{query}");
    }
    let (_, first) = falls_back.ask("GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    let token = first.str_at(&["metadata", "continue"]);
    let (code, rest) = falls_back.ask("GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((code, rest.list_at(&["items"]).len()), (200, 1), "the next page is read from the store too");
    let path = format!("{MAPS}/a");
    let (code, mut object) = falls_back.ask("GET", &path, Value::Null).await;
    assert_eq!((code, object.name()), (200, "a"));
    assert_eq!(falls_back.ask("GET", &format!("{path}?resourceVersion={now}"), Value::Null).await.0, 504);
    object.set(&["data", "key"], "value");
    assert_eq!(falls_back.ask("PUT", &path, object).await.0, 200);
    assert_eq!(falls_back.ask("DELETE", &path, Value::Null).await.0, 200);
    assert_eq!(falls_back.ask("GET", &path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn lists_are_divided_among_shards() {
    let server = with_maps(&["ShardedListAndWatch"], Limits::default()).await;
    let range = |start: &str, end: &str| format!("shardRange(object.metadata.uid, '{start}', '{end}')");
    let (low, high) = ("0x0000000000000000", "0x8000000000000000");
    let mut found = 0;
    for selector in [range(low, high), range(high, "0x10000000000000000")] {
        let (code, list) = server.ask("GET", &format!("{MAPS}?shardSelector={selector}"), Value::Null).await;
        assert_eq!((code, list.str_at(&["metadata", "shardInfo", "selector"])), (200, selector.as_str()));
        found += list.list_at(&["items"]).len();
    }
    assert_eq!(found, 3);
    let (code, status) = server.ask("GET", &format!("{MAPS}?shardSelector=all"), Value::Null).await;
    assert_eq!(code, 500, "{status:?}");
    assert!(status.str_at(&["message"]).starts_with("invalid shard selector: "), "{status:?}");
}

#[tokio::test]
async fn what_a_client_accepts_is_honoured_or_refused() {
    let server = with_maps(&["CBORServingAndStorage"], Limits::default()).await;
    let all = "only the following media types are accepted: application/json, application/yaml, \
               application/vnd.kubernetes.protobuf, application/cbor";
    let streams = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq";
    let table = "as=Table;g=meta.k8s.io;v=v1";
    let include = "Unable to convert to Table as requested: includeObject: Invalid value: \"all\": must be 'Metadata', \
                   'Object', 'None', or empty";
    let export = "the export parameter, deprecated since v1.14, is no longer supported";
    let (list, watch) = (MAPS.to_string(), format!("{MAPS}?watch=1&timeoutSeconds=1"));
    for (url, accept, code, message) in [
        (&list, format!("application/vnd.kubernetes.protobuf;{table}"), 406, all),
        (&list, format!("application/cbor;{table}"), 406, all),
        (&list, format!("application/yaml;{table}"), 200, ""),
        (&watch, "application/yaml".into(), 406, streams),
        (&format!("{watch}&includeObject=all"), format!("application/json;{table}"), 400, include),
        (&format!("{MAPS}/a?export=true"), String::new(), 400, export),
        (&format!("{MAPS}/a?export=false"), String::new(), 200, ""),
    ] {
        let (got, _, body) = ask_for(&server.0, "GET", url, Value::Null, &accept).await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(got, code, "{url} {accept}: {text}");
        let status = codec::yaml::decode(&body, None, &mut codec::Notes::ignore()).unwrap();
        assert_eq!(status.str_at(&["message"]), message, "{url} {accept}: {text}");
    }
}

#[tokio::test]
async fn cbor_objects_have_their_type() {
    let server = with_maps(&["CBORServingAndStorage"], Limits::default()).await;
    let (code, headers, body) = ask_for(&server.0, "GET", &format!("{MAPS}/a"), Value::Null, "application/cbor").await;
    assert_eq!((code, headers["content-type"].to_str().unwrap()), (200, "application/cbor"));
    let object = codec::cbor::decode(&body, None, &mut codec::Notes::ignore()).unwrap();
    assert_eq!((object.api_version(), object.kind()), ("v1", "ConfigMap"));
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0");
    let (_, headers, body) = ask_for(&server.0, "GET", &watch, Value::Null, "application/cbor").await;
    assert_eq!(headers["content-type"].to_str().unwrap(), "application/cbor-seq");
    // Each of the three events has its object's kind.
    let kinds = body.windows(b"ConfigMap".len()).filter(|window| window == b"ConfigMap").count();
    assert_eq!(kinds, 3);
}

#[tokio::test]
async fn owners_that_repeat_are_removed_with_a_warning() {
    let server = with_maps(&[], Limits::default()).await;
    let owner = value!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "u"});
    let mut object = map(Value::map());
    object.set(&["metadata", "ownerReferences"], vec![owner.clone(), owner.clone()]);
    let again = value!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": (owner)}]);
    for (method, url, body, warning) in [
        ("POST", MAPS.to_string(), object.clone(), "duplicate entries; API server dedups"),
        ("PUT", one(""), object, "duplicate entries; API server dedups"),
        ("JSON", one(""), again, "duplicate entries after mutating admission happens; API server dedups"),
    ] {
        let (code, headers, body) = ask_for(&server.0, method, &url, body, "").await;
        assert!(code < 300, "{method}: {code}");
        let warnings: Vec<&str> = headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(warnings.len(), 1, "{method}: {warnings:?}");
        assert!(warnings[0].contains(warning), "{method}: {warnings:?}");
        let object = codec::json::decode(&body, None, &mut codec::Notes::ignore()).unwrap();
        assert_eq!(object.list_at(&["metadata", "ownerReferences"]).len(), 1, "{method}");
    }
}
