//! A server whose etcd goes away and comes back.

use std::time::{Duration, Instant};

use apiserver::{Config, StoreConfig, start};
use bytes::Bytes;
use difftest::Client;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
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
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (status, text) = send(client, "POST", CONFIG_MAPS, Some(body)).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_outlives_its_etcd() {
    let Some(mut cluster) = Cluster::single() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "admin-token,admin,admin-uid,\"system:masters\"\n").unwrap();
    let config = Config {
        data_dir: folder.path().join("data"),
        port: 0,
        token_auth_file: Some(tokens),
        disable_admission_plugins: vec!["ServiceAccount".into()],
        store: StoreConfig {
            etcd_servers: cluster.endpoints(),
            healthcheck_timeout: Duration::from_millis(500),
            readycheck_timeout: Duration::from_millis(500),
            ..StoreConfig::default()
        },
        ..Config::default()
    };
    let server = start(config).await.unwrap();
    let client = Client::new(server.address, "admin-token").unwrap();
    until(&client, "/readyz", 200).await;
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
    let (_, events) = watching.await.unwrap();
    let event: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &second));
    server.stop(Duration::ZERO).await;
}
