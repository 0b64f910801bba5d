//! Users who store more than there is room for.

use std::time::{Duration, Instant};

use hostile::{ADMIN, Target, request};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const QUOTA: u64 = 4 << 20;
/// The store looks for room every two seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

async fn ready_is(target: &Target, code: u16) -> String {
    let began = Instant::now();
    loop {
        let answer = target.ask(ADMIN, "GET", "/readyz?verbose", "").await;
        if answer.code == code {
            return String::from_utf8_lossy(&answer.body).into_owned();
        }
        assert!(began.elapsed() < NOTICED_WITHIN, "readyz stays {}", answer.code);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A full store refuses what grows in etcd's words, and everything that makes room or is small works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_deletes() {
    let target = Target::start_with(|builder| builder.configure(|config| config.store.quota_bytes = Some(QUOTA))).await;
    let map =
        |name: &str, bytes: usize| json!({"metadata": {"name": name}, "data": {"a": "x".repeat(bytes)}}).to_string();
    let mut created = 0;
    let refused = loop {
        let answer = target.ask(ADMIN, "POST", MAPS, map(&format!("map-{created}"), 200_000)).await;
        if answer.code != 201 {
            break answer;
        }
        created += 1;
        assert!(created < 100, "the quota is not kept");
    };
    assert_eq!((refused.code, refused.message().as_str()), (500, "etcdserver: mvcc: database space exceeded"));
    let shown = ready_is(&target, 500).await;
    assert!(shown.contains("[-]storage-space failed") && shown.contains("[+]etcd ok"), "{shown}");
    for path in ["/livez", "/healthz", "/readyz?exclude=storage-space"] {
        assert_eq!(target.ask(ADMIN, "GET", path, "").await.code, 200, "{path}");
    }
    // A deletion that waits for a finalizer is a change that grows a little.
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let path = format!("{MAPS}/map-0");
    let mut patch = request(ADMIN, "PATCH", &path);
    let merge = http::HeaderValue::from_static("application/merge-patch+json");
    patch.headers_mut().unwrap().insert("content-type", merge);
    let answer = target.send(patch, held.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.message());
    assert_eq!(target.ask(ADMIN, "DELETE", &path, "").await.code, 200);
    assert!(target.ask(ADMIN, "GET", &path, "").await.json()["metadata"]["deletionTimestamp"].is_string());
    for number in 1..5 {
        assert_eq!(target.ask(ADMIN, "DELETE", &format!("{MAPS}/map-{number}"), "").await.code, 200, "{number}");
    }
    ready_is(&target, 200).await;
    assert_eq!(target.ask(ADMIN, "POST", MAPS, map("again", 200_000)).await.code, 201);
}
