//! The verbs on the in-memory store: patches, server-side apply and what they do when another write comes first; requests
//! keep their catalog; verbs that a resource does not have.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use admission::{Attributes, Plugin};
use async_trait::async_trait;
use object::{Meta, Status, Value, value};
use rest::Api;
use support::{MAPS, Server, ask, ask_for, map, one};

#[tokio::test]
async fn applies_create_merge_and_conflict() {
    let server = Server::new(Vec::new()).await;
    let cases = [
        ("one", "", value!({"a": "1"}), 201, value!({"a": "1"})),
        ("one", "", value!({"a": "1"}), 200, value!({"a": "1"})),
        ("two", "", value!({"b": "2"}), 200, value!({"a": "1", "b": "2"})),
        ("two", "", value!({"a": "2", "b": "2"}), 409, Value::Null),
        ("two", "&force=true", value!({"a": "2"}), 200, value!({"a": "2"})),
        ("one", "", value!({}), 200, value!({"a": "2"})),
        ("one", "&dryRun=All", value!({"c": "3"}), 200, value!({"a": "2", "c": "3"})),
        ("one", "", value!({"d": "4"}), 200, value!({"a": "2", "d": "4"})),
    ];
    let mut before = String::new();
    for (at, (manager, query, data, code, want)) in cases.into_iter().enumerate() {
        let url = one(&format!("?fieldManager={manager}{query}"));
        let (got, object) = server.ask("APPLY", &url, map(data)).await;
        assert_eq!((got, object.field("data")), (code, &want), "{at}: {object:?}");
        if at == 1 {
            assert_eq!(object.resource_version(), before, "applying the same again changes nothing");
        }
        before = object.resource_version().to_string();
    }
    let (code, status) = server.ask("APPLY", &one(""), map(Value::map())).await;
    assert_eq!(code, 422, "an apply needs a field manager: {status:?}");
}

#[tokio::test]
async fn patches_are_of_what_is_there() {
    let server = Server::new(Vec::new()).await;
    let merge = value!({"data": {"b": "2"}});
    assert_eq!(server.ask("MERGE", &one(""), merge.clone()).await.0, 404);
    assert_eq!(server.ask("POST", MAPS, map(value!({"a": "1"}))).await.0, 201);
    let add = value!([{"op": "add", "path": "/data/c", "value": "3"}]);
    let test = value!([{"op": "test", "path": "/data/c", "value": "4"}]);
    let stale = value!({"metadata": {"resourceVersion": "1"}});
    for (method, patch, code, keys) in [
        ("MERGE", merge, 200, 2),
        ("JSON", add, 200, 3),
        ("JSON", test, 422, 0),
        ("STRATEGIC", value!({"data": {"a": null}}), 200, 2),
        ("MERGE", stale, 409, 0),
        ("MERGE", value!({"metadata": {"name": "other"}}), 400, 0),
    ] {
        let (got, object) = server.ask(method, &one(""), patch.clone()).await;
        let found = object.field("data").as_map().map_or(0, |data| data.len());
        assert_eq!((got, found), (code, keys), "{method} {patch:?}: {object:?}");
    }
}

/// Merges `other: x` into the object while the first change of it is validated.
#[derive(Default)]
struct Meanwhile {
    api: OnceLock<Weak<Api>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Plugin for Meanwhile {
    fn name(&self) -> &'static str {
        "Meanwhile"
    }

    async fn validate(&self, _: &Attributes<'_>, _: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        if old.is_some() && self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let api = self.api.get().unwrap().upgrade().unwrap();
            let (code, _) = Box::pin(ask(&api, "MERGE", &one(""), value!({"data": {"other": "x"}}))).await;
            assert_eq!(code, 200);
        }
        Ok(())
    }
}

#[tokio::test]
async fn writes_are_tried_again_when_another_comes_first() {
    for (method, query, body, code, want) in [
        ("APPLY", "?fieldManager=f", map(value!({"mine": "1"})), 200, value!({"a": "1", "mine": "1", "other": "x"})),
        ("MERGE", "", value!({"data": {"mine": "1"}}), 200, value!({"a": "1", "mine": "1", "other": "x"})),
        ("PUT", "", map(value!({"mine": "1"})), 200, value!({"mine": "1"})),
        ("DELETE", "", Value::Null, 200, Value::Null),
    ] {
        let plugin = Arc::new(Meanwhile::default());
        let server = Server::new(vec![plugin.clone()]).await;
        plugin.api.set(Arc::downgrade(&server.0)).unwrap();
        assert_eq!(server.ask("POST", MAPS, map(value!({"a": "1"}))).await.0, 201);
        let (got, answer) = server.ask(method, &one(query), body).await;
        assert_eq!((got, answer.field("data")), (code, &want), "{method}: {answer:?}");
        let (_, stored) = server.ask("GET", &one(""), Value::Null).await;
        assert_eq!(stored.field("data"), &want, "{method}");
        assert_eq!(plugin.asked.load(Ordering::SeqCst), 3, "{method}: twice for itself, once for the other");
    }
    // A write that says which version it is of is not.
    let plugin = Arc::new(Meanwhile::default());
    let server = Server::new(vec![plugin.clone()]).await;
    plugin.api.set(Arc::downgrade(&server.0)).unwrap();
    let (_, mut made) = server.ask("POST", MAPS, map(value!({"a": "1"}))).await;
    made.set(&["data", "mine"], "1");
    assert_eq!(server.ask("PUT", &one(""), made).await.0, 409);
}

/// Which verbs there are, by the part of a resource that the path names.
#[tokio::test]
async fn paths_without_the_verb_are_refused() {
    let server = Server::new(Vec::new()).await;
    for (method, path, want) in [
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("POST", &one(""), 405),
        ("HEAD", &one(""), 405),
        ("OPTIONS", MAPS, 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/configmaps", 200),
        ("GET", "/api/v1/configmaps/m", 404),
        ("GET", &one("/status"), 404),
        ("GET", "/api/v1/namespaces/ns/pods/p/binding", 405),
        ("GET", "/api/v1/namespaces/ns/bindings", 405),
        ("GET", "/api/v1/namespaces/ns/bindings/a", 404),
        ("GET", "/api/v1/namespaces/ns/pods/p/nothing", 404),
        ("GET", "/api/v1/namespaces/ns/namespaces", 404),
        ("GET", "/api/v1/namespaces/ns/nothings", 404),
        ("GET", "/api/v1/proxy/namespaces/ns/configmaps/m", 404),
        ("POST", "/api/v1/watch/namespaces/ns/configmaps", 405),
    ] {
        assert_eq!(server.ask(method, path, Value::Null).await.0, want, "{method} {path}");
    }
}

#[tokio::test]
async fn requests_keep_the_catalog_they_began_with() {
    let server = Server::new(Vec::new()).await;
    let snapshot = server.0.snapshot();
    let maps = snapshot.catalog.get("", "v1", "configmaps").unwrap().clone();
    server.0.catalog.change(&[], std::slice::from_ref(&maps.resource));
    assert!(snapshot.catalog.get("", "v1", "configmaps").is_some());
    assert!(server.0.snapshot().catalog.get("", "v1", "configmaps").is_none());
    assert_eq!(server.ask("GET", MAPS, Value::Null).await.0, 404);
    maps.withdrawn.wait().await;
}

/// Warns from both halves of admission, and repeats an owner.
struct Warns;

#[async_trait]
impl Plugin for Warns {
    fn name(&self) -> &'static str {
        "Warns"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        attributes.warn("mutating");
        let owner = value!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "u"});
        object.set(&["metadata", "ownerReferences"], vec![owner.clone(), owner]);
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        attributes.warn("validating");
        Err(Status::bad_request("refused"))
    }
}

/// Also where the request is refused: what decoding found, mutating admission, what it made to repeat, validating admission.
#[tokio::test]
async fn warnings_come_in_the_order_in_which_they_are_noticed() {
    let store = Arc::new(storage::memory::MemoryStore::new());
    let before = Server::on(store.clone(), Vec::new(), &[], rest::Limits::default()).await;
    assert_eq!(before.ask("POST", MAPS, map(Value::map())).await.0, 201);
    let server = Server::on(store, vec![Arc::new(Warns)], &[], rest::Limits::default()).await;
    let mut object = map(Value::map());
    object.set(&["more"], "x");
    let dotted = value!({"more": "x"});
    for (method, url, body) in
        [("POST", MAPS.to_string(), object.clone()), ("PUT", one(""), object.clone()), ("MERGE", one(""), dotted)]
    {
        let (code, headers, _) = ask_for(&server.0, method, &url, body, "").await;
        let warnings = headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_string());
        let warnings: Vec<String> = warnings.collect();
        assert_eq!((code, warnings.len()), (400, 4), "{method}: {warnings:?}");
        let want = ["unknown field", "mutating", "duplicate entries after mutating admission", "validating"];
        for (warning, want) in warnings.iter().zip(want) {
            assert!(warning.contains(want), "{method}: {warnings:?}");
        }
    }
}
