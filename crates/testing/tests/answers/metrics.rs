//! What kube-apiserver shows on `/metrics` is shown here, or data/metrics.txt of the crate apiserver says why not.

use std::collections::HashMap;

use http_body_util::BodyExt;
use testing::Server;

use super::{case, check, delete, get, patch, send};

const METRICS: &str = include_str!("../../../apiserver/data/metrics.txt");

/// The first requests of a server.
async fn work(server: &Server) -> String {
    let client = server.client().await.unwrap();
    let maps = super::MAPS;
    let as_alice = [("impersonate-user", "alice"), ("accept", "application/json")];
    for case in [
        send("POST", maps, r#"{"metadata": {"name": "c"}, "data": {"a": "b"}}"#, 201, ""),
        patch(super::MAP, "merge-patch+json", r#"{"data": {"a": "c"}}"#, 200, ""),
        get(maps, "application/json", 200, ""),
        get(&format!("{maps}?watch=1&timeoutSeconds=1"), "application/json", 200, ""),
        case("GET", maps, &as_alice, "", 403, ""),
        delete(super::MAP, 200, ""),
    ] {
        check(&client, case).await;
    }
    let response = client.send(get("/metrics", "*/*", 200, "").request).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_upstream_are_shown_or_listed() {
    let server = Server::builder().bare().start().await.unwrap();
    let shown = work(&server).await;
    let types: HashMap<&str, &str> =
        shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut wrong = Vec::new();
    for line in METRICS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, kind, rest) = (words.next().unwrap(), words.next().unwrap(), words.next());
        let matches = match (types.get(name), rest) {
            (Some(shown), None | Some("seldom")) => *shown == kind,
            (None, Some("seldom" | "none")) => true,
            _ => false,
        };
        if !matches {
            wrong.push(format!("{line}: shown as {:?}", types.get(name)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    server.stop().await;
}
