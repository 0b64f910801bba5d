//! A server whose etcd goes away and comes back, in whole or in part.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::Path;
use std::time::{Duration, Instant};

use apiserver::{Config, Running, StoreConfig, start};
use bytes::Bytes;
use difftest::Client;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use storage::Store;
use storage_etcd::EtcdStore;
use storage_etcd::testing::Cluster;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(client: &Client, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", client.address().to_string())
        .header("authorization", "Bearer admin-token")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.map(|body| body.to_string()).unwrap_or_default())))
        .unwrap();
    let response = client.send(request).await.unwrap();
    (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
}

async fn create(client: &Client, name: &str) -> Value {
    let (status, text) = send(client, "POST", CONFIG_MAPS, Some(config_map(name))).await;
    assert_eq!(status, 201, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Asks until the answer has this status.
async fn until(client: &Client, path: &str, wanted: u16) -> String {
    let began = Instant::now();
    loop {
        let (status, text) = send(client, "GET", path, None).await;
        if status == wanted {
            return text;
        }
        assert!(began.elapsed() < PATIENCE, "{path} still answers {status}: {text}");
    }
}

/// Starts a server on an etcd.
async fn serve(folder: &Path, store: StoreConfig) -> (Running, Client) {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, "admin-token,admin,admin-uid,\"system:masters\"\n").unwrap();
    let config = Config {
        data_dir: folder.join("data"),
        port: 0,
        token_auth_file: Some(tokens),
        disable_admission_plugins: vec!["ServiceAccount".into()],
        store: StoreConfig {
            healthcheck_timeout: Duration::from_millis(500),
            readycheck_timeout: Duration::from_millis(500),
            ..store
        },
        ..Config::default()
    };
    let server = start(config).await.unwrap();
    let client = Client::new(server.address, "admin-token").unwrap();
    until(&client, "/readyz", 200).await;
    (server, client)
}

/// A request that needs a store that is away gets 504 within its timeout. Upstream's timeout filter leaves the kind out.
async fn is_told(client: &Client, method: &str, path: &str, body: Option<Value>) {
    let began = Instant::now();
    let (status, text) = send(client, method, &format!("{path}?timeout=1s"), body).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &told["status"], &told["reason"]), (504, &json!("Failure"), &json!("Timeout")), "{text}");
    assert!(began.elapsed() < Duration::from_secs(5), "{method} {path} took {:?}", began.elapsed());
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_outlives_its_etcd() {
    let Some(mut cluster) = Cluster::single() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = StoreConfig { etcd_servers: cluster.endpoints(), ..StoreConfig::default() };
    let (server, client) = serve(folder.path(), store).await;
    let first = create(&client, "first").await;
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap().to_string();

    cluster.kill(0);
    let verbose = until(&client, "/readyz?verbose", 500).await;
    for line in ["[-]etcd failed: reason withheld", "[-]etcd-readiness failed: reason withheld", "[+]ping ok"] {
        assert!(verbose.contains(line), "{verbose}");
    }
    // What needs no fresh state is still answered from memory.
    let (status, _) = send(&client, "GET", &format!("{CONFIG_MAPS}?resourceVersion=0"), None).await;
    assert_eq!(status, 200);
    is_told(&client, "POST", CONFIG_MAPS, Some(config_map("lost"))).await;
    is_told(&client, "DELETE", &format!("{CONFIG_MAPS}/first"), None).await;
    is_told(&client, "GET", CONFIG_MAPS, None).await;
    // A watch that begins now sees what happens later.
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=8&fieldSelector=metadata.name%3Dsecond"
    );
    let watching = tokio::spawn({
        let client = client.clone();
        async move { send(&client, "GET", &path, None).await }
    });
    cluster.revive(0);
    until(&client, "/readyz", 200).await;
    let second = create(&client, "second").await;
    let (status, text) = send(&client, "GET", &format!("{CONFIG_MAPS}/second"), None).await;
    assert_eq!((status, serde_json::from_str::<Value>(&text).unwrap()), (200, second.clone()));
    // An etcd that hangs is no better than none, until it goes on.
    cluster.hang(0);
    until(&client, "/readyz", 500).await;
    is_told(&client, "POST", CONFIG_MAPS, Some(config_map("hung"))).await;
    is_told(&client, "GET", CONFIG_MAPS, None).await;
    cluster.go_on(0);
    until(&client, "/readyz", 200).await;
    create(&client, "third").await;
    let (_, events) = watching.await.unwrap();
    let event: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &second));
    server.stop(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_needs_two_of_three() {
    let Some(mut cluster) = Cluster::of_three() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = StoreConfig { etcd_servers: cluster.endpoints(), ..StoreConfig::default() };
    let (server, client) = serve(folder.path(), store).await;
    create(&client, "all").await;
    cluster.kill(0);
    create(&client, "two").await;
    until(&client, "/readyz", 200).await;
    cluster.kill(1);
    until(&client, "/readyz", 500).await;
    is_told(&client, "POST", CONFIG_MAPS, Some(config_map("one"))).await;
    is_told(&client, "GET", CONFIG_MAPS, None).await;
    cluster.revive(1);
    until(&client, "/readyz", 200).await;
    create(&client, "again").await;
    let (status, text) = send(&client, "GET", CONFIG_MAPS, None).await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let items = list["items"].as_array().unwrap();
    let names: Vec<&str> = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    assert_eq!(status, 200);
    assert!(["all", "two", "again"].iter().all(|name| names.contains(name)), "{names:?}");
    server.stop(Duration::ZERO).await;
}

/// `--etcd-servers-overrides`: events have an etcd of their own, which may go away without harm to the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_can_have_an_etcd_of_their_own() {
    let (Some(main), Some(mut apart)) = (Cluster::single(), Cluster::single()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let servers = apart.endpoints().join(";");
    let overrides = [format!("/events#{servers}"), format!("apps/deployments#{servers}")];
    let store =
        StoreConfig { etcd_servers: main.endpoints(), etcd_overrides: overrides.to_vec(), ..StoreConfig::default() };
    let (server, client) = serve(folder.path(), store).await;
    create(&client, "here").await;
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "there"},
        "involvedObject": {"namespace": "default"}});
    let (status, text) = send(&client, "POST", EVENTS, Some(event.clone())).await;
    assert_eq!(status, 201, "{text}");
    let revision = |text: &str| serde_json::from_str::<Value>(text).unwrap()["metadata"]["resourceVersion"].clone();
    // Lists and watches go where the objects are.
    let (_, listed) = send(&client, "GET", EVENTS, None).await;
    assert_eq!(revision(&listed), revision(&text));
    for (cluster, key, there) in [
        (&main, "/registry/configmaps/default/here", true),
        (&main, "/registry/events/default/there", false),
        (&apart, "/registry/events/default/there", true),
        (&apart, "/registry/configmaps/default/here", false),
    ] {
        let store = EtcdStore::connect(storage_etcd::EtcdOptions::at(cluster.endpoints())).await.unwrap();
        assert_eq!(store.get(key.as_bytes(), None).await.unwrap().entry.is_some(), there, "{key}");
    }
    let sizes = until(&client, "/metrics", 200).await;
    for line in ["etcd-0", "etcd-1"].map(|id| format!("apiserver_storage_size_bytes{{storage_cluster_id=\"{id}\"}} ")) {
        assert!(sizes.contains(&line), "{line}");
    }
    for line in [
        "etcd_requests_total{group=\"\",operation=\"create\",resource=\"configmaps\"} ",
        "apiserver_resource_objects{group=\"\",resource=\"events\"} 1\n",
    ] {
        assert_eq!(sizes.matches(line).count(), 1, "{line}");
    }
    apart.kill(0);
    let verbose = until(&client, "/readyz?verbose", 500).await;
    let failed = |name: &str| format!("[-]{name} failed: reason withheld");
    for line in [failed("etcd-override-0"), failed("etcd-override-readiness-0"), "[+]etcd ok".into()] {
        assert!(verbose.contains(&line), "{verbose}");
    }
    assert!(!verbose.contains("etcd-override-1"), "the same servers are one etcd: {verbose}");
    create(&client, "still").await;
    is_told(&client, "POST", EVENTS, Some(event.clone())).await;
    apart.revive(0);
    until(&client, "/readyz", 200).await;
    let (status, _) = send(&client, "GET", &format!("{EVENTS}/there"), None).await;
    assert_eq!(status, 200);
    server.stop(Duration::ZERO).await;
}
