//! kube-rs against the server: a watcher, a reflector that starts with a streaming list, and server-side apply.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeMap;
use std::time::Duration;

use clients::TestServer;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Config, ResourceExt};

const SOON: Duration = Duration::from_secs(20);

async fn client(server: &TestServer) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("key".to_string(), value.to_string())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_string());
    map
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_made_changed_and_removed() {
    let server = TestServer::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let made = maps.create(&PostParams::default(), &config_map("one", "1")).await.unwrap();
    assert!(made.uid().is_some());
    let again = maps.create(&PostParams::default(), &config_map("one", "1")).await.unwrap_err();
    assert!(matches!(again, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists"));
    let mut changed = config_map("one", "2");
    changed.metadata.resource_version = made.resource_version();
    maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    let stale = maps.replace("one", &PostParams::default(), &changed).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.reason == "Conflict"));
    for at in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("page-{at}"), "x")).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(4)));
    let token = first.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().limit(10).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.len(), 4);
    let metadata = maps.get_metadata("one").await.unwrap();
    assert_eq!(metadata.name_any(), "one");
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
    server.stop().await;
}

/// Shortly before its end a watch says where to go on, though nothing has happened that concerns the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_a_bookmark() {
    let server = TestServer::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let watch = WatchParams::default().labels("app=none").timeout(3);
    let events = maps.watch(&watch, &start).await.unwrap();
    let other = maps.create(&PostParams::default(), &config_map("other", "1")).await.unwrap();
    let all: Vec<WatchEvent<ConfigMap>> = tokio::time::timeout(SOON, events.try_collect()).await.unwrap().unwrap();
    let [WatchEvent::Bookmark(mark)] = all.as_slice() else { panic!("{all:?}") };
    let number = |revision: &str| revision.parse::<i64>().unwrap();
    assert!(number(&mark.metadata.resource_version) >= number(&other.resource_version().unwrap()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_follows_from_a_streaming_list() {
    let server = TestServer::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    for at in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("old-{at}"), "0")).await.unwrap();
    }
    let (reader, writer) = reflector::store();
    let watched = watcher(maps.clone(), watcher::Config::default().streaming_lists());
    let mut events = reflector(writer, watched).default_backoff().boxed();
    // The initial list ends where the server says so, and then everything is in the store.
    loop {
        match tokio::time::timeout(SOON, events.try_next()).await.unwrap().unwrap() {
            Some(Event::InitDone) => break,
            Some(_) => {}
            None => panic!("the watch ended"),
        }
    }
    assert_eq!(reader.state().len(), 20);
    maps.create(&PostParams::default(), &config_map("new", "1")).await.unwrap();
    let patch = Patch::Merge(serde_json::json!({"data": {"key": "2"}}));
    maps.patch("new", &PatchParams::default(), &patch).await.unwrap();
    maps.delete("old-3", &DeleteParams::default()).await.unwrap();
    let seen = |reader: &reflector::Store<ConfigMap>| {
        let new = reader.get(&ObjectRef::new("new").within("default"));
        let gone = reader.get(&ObjectRef::new("old-3").within("default")).is_none();
        gone && new.and_then(|map| map.data.clone()).is_some_and(|data| data["key"] == "2")
    };
    while !seen(&reader) {
        tokio::time::timeout(SOON, events.try_next()).await.expect("the change arrives").unwrap();
    }
    assert_eq!(reader.state().len(), 20);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appliers_own_their_fields() {
    let server = TestServer::start().await;
    let deployments: Api<Deployment> = Api::namespaced(client(&server).await, "default");
    let wanted = |replicas: i32| {
        Patch::Apply(serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
                },
            },
        }))
    };
    let apply = async |manager: &str, replicas, force: bool| {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        deployments.patch("web", &params, &wanted(replicas)).await
    };
    let made = apply("one", 1, false).await.unwrap();
    let same = apply("one", 1, false).await.unwrap();
    assert_eq!(made.resource_version(), same.resource_version(), "nothing changed, so nothing is written");
    let refused = apply("two", 2, false).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(
        (status.code, status.message.as_str()),
        (409, r#"Apply failed with 1 conflict: conflict with "one": .spec.replicas"#)
    );
    let taken = apply("two", 2, true).await.unwrap();
    let managers: Vec<String> = taken.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    assert_eq!(managers, ["one", "two"]);
    assert_eq!(taken.spec.replicas, Some(2));
    server.stop().await;
}
