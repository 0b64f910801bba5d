//! Emptying a server between tests, in process and by process: what was written is gone, what the server made is as it was, and
//! watches go on.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testing::{Process, Server, TestDefinitions};

const PATIENCE: Duration = Duration::from_secs(30);

fn definition() -> CustomResourceDefinition {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap()
}

fn widgets(client: &Client) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets");
    Api::namespaced_with(client.clone(), "default", &kind)
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Everything that a test can see of a server, but what the server keeps writing to say that it is there.
async fn contents(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
        "/api/v1/endpoints",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    ] {
        let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        for mut item in list["items"].as_array().unwrap().clone() {
            item["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            all.push(item);
        }
    }
    all
}

/// What tests leave behind: in namespaces of their own and in those of the server, with and without definitions.
async fn litter(client: &Client) {
    create(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": "n"}})).await;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "n");
    for number in 0..20 {
        create(&maps, json!({"metadata": {"name": format!("c{number}"), "finalizers": ["example.com/never"]}})).await;
    }
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}});
    create(&Api::<Service>::default_namespaced(client.clone()), service).await;
    create(&Api::<Secret>::namespaced(client.clone(), "kube-system"), json!({"metadata": {"name": "s"}})).await;
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    create(&definitions, serde_json::to_value(definition()).unwrap()).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    create(&widgets(client), widget).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_as_new_after_a_reset() {
    let server = Server::start().await.unwrap();
    let client = server.client().await.unwrap();
    let new = contents(&client).await;
    let mut before = 0;
    // The same names and node ports are free every time.
    for _ in 0..3 {
        litter(&client).await;
        let reverted = server.reset().await.unwrap();
        assert!(reverted.removed >= 24 && reverted.revision > before, "{reverted:?}");
        before = reverted.revision;
        assert_eq!(contents(&client).await, new);
        let gone = widgets(&client).list(&ListParams::default()).await.unwrap_err();
        assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
    }
    litter(&client).await;
    // The aggregator registers the definition's version a moment later.
    let services = Api::<APIService>::all(client.clone());
    let registered = await_condition(services, "v1.example.com", |service: Option<&APIService>| service.is_some());
    tokio::time::timeout(PATIENCE, registered).await.unwrap().unwrap();
    server.reset_but(TestDefinitions::Keep).await.unwrap();
    assert_eq!(widgets(&client).list(&ListParams::default()).await.unwrap().items.len(), 0);
    let left: Vec<String> =
        contents(&client).await.iter().filter(|object| !new.contains(object)).map(name_of).collect();
    assert_eq!(left, ["v1.example.com", "widgets.example.com"]);
    server.reset().await.unwrap();
    assert_eq!(contents(&client).await, new);
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_see_the_deletions_and_go_on() {
    let server = Server::start().await.unwrap();
    let client = server.client().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let known = maps.list(&ListParams::default()).await.unwrap();
    let watch = maps.watch(&WatchParams::default(), &known.metadata.resource_version.unwrap()).await.unwrap();
    let mut watch = std::pin::pin!(watch);
    create(&maps, json!({"metadata": {"name": "a"}})).await;
    server.reset().await.unwrap();
    create(&maps, json!({"metadata": {"name": "b"}})).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap() {
            WatchEvent::Added(map) => seen.push(format!("added {}", map.name_any())),
            WatchEvent::Deleted(map) => seen.push(format!("deleted {}", map.name_any())),
            WatchEvent::Modified(map) => seen.push(format!("modified {}", map.name_any())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["added a", "deleted a", "added b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_look_after_what_comes_later() {
    let server = Server::start().await.unwrap();
    let client = server.client().await.unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    for _ in 0..10 {
        create(&namespaces, json!({"metadata": {"name": "n"}})).await;
        server.reset().await.unwrap();
    }
    create(&namespaces, json!({"metadata": {"name": "n"}})).await;
    let accounts = Api::<ServiceAccount>::namespaced(client, "n");
    let is_there =
        kube::runtime::wait::await_condition(accounts, "default", |found: Option<&ServiceAccount>| found.is_some());
    tokio::time::timeout(PATIENCE, is_there).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_on_disk_is_not_emptied() {
    let server = Server::builder().on_disk().start().await.unwrap();
    assert!(server.reset().await.is_err());
}

/// Where `cargo test --workspace` leaves the program before the first test runs.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(std::path::Path::parent).unwrap().join("ferrokube")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_does_the_same() {
    let process =
        Process::builder().program(program()).flag("--feature-gates=MutatingAdmissionPolicy=true").start().await;
    let process = process.unwrap();
    let client = process.client().await.unwrap();
    let new = contents(&client).await;
    litter(&client).await;
    process.reset().await.unwrap();
    assert_eq!(contents(&client).await, new);
    let alice = process.client_for("alice & co", &["a=b", "c"]).await.unwrap();
    let refused = Api::<Secret>::all(alice).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("User \"alice & co\" cannot list"), "{refused}");
    let folder = process.kubeconfig_path().parent().unwrap().to_path_buf();
    assert!(folder.is_dir());
    drop(process);
    assert!(!folder.exists());
    let missing = Process::builder().program("/nowhere/ferrokube").start().await;
    assert!(missing.is_err());
}
