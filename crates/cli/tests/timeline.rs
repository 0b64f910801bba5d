//! Many clients write over many kinds while the audit log is on; then every entry of the log and every change of the history are
//! compared: none is missing, none is invented.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apiserver::HistoryConfig;
use object::{Meta, Value, value};
use support::{Client, Node};

const RANGE: &str = "10.7.0.0/24";
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  omitStages: [RequestReceived]
";
const CLIENTS: usize = 6;
const ROUNDS: usize = 8;

/// Collections, and a field that each round changes.
const KINDS: [(&str, &[&str]); 8] = [
    ("/api/v1/namespaces/default/configmaps", &["data", "n"]),
    ("/api/v1/namespaces/default/secrets", &["stringData", "n"]),
    ("/api/v1/namespaces/default/serviceaccounts", &["metadata", "annotations", "n"]),
    ("/api/v1/namespaces/default/services", &["metadata", "labels", "n"]),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", &["spec", "holderIdentity"]),
    ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &["metadata", "labels", "n"]),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &["metadata", "labels", "n"]),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", &["description"]),
];

fn object(collection: &str, name: &str) -> Value {
    let mut object = value!({"metadata": {"name": name}});
    match collection.rsplit('/').next().unwrap() {
        "services" => object.set(&["spec"], value!({"clusterIP": "None", "ports": [{"port": 80}]})),
        "networkpolicies" => object.set(&["spec"], value!({"podSelector": {}})),
        "priorityclasses" => object.set(&["value"], 7),
        _ => {}
    }
    object
}

/// One client: creates, changes and deletes objects, and is refused now and then.
async fn write(mut client: Client, id: usize) {
    for round in 0..ROUNDS {
        let (collection, field) = KINDS[(id + round) % KINDS.len()];
        let name = format!("c{id}-{round}");
        let (code, mut stored) = client.ask("POST", collection, &object(collection, &name)).await;
        assert_eq!(code, 201, "{stored:?}");
        let path = format!("{collection}/{name}");
        for change in 0..2 {
            stored.set(field, format!("{id}.{round}.{change}"));
            let (code, answer) = client.ask("PUT", &path, &stored).await;
            assert_eq!(code, 200, "{answer:?}");
            stored = answer;
        }
        // Requests that change nothing: one that conflicts, one of what is there, one in a dry run, one that is refused.
        let mut old = stored.clone();
        old.set_meta_str("resourceVersion", "1");
        assert_eq!(client.ask("PUT", &path, &old).await.0, 409);
        assert_eq!(client.ask("POST", collection, &object(collection, &name)).await.0, 409);
        let (code, answer) = client.ask("DELETE", &format!("{path}?dryRun=All"), &Value::Null).await;
        assert_eq!(code, 200, "{answer:?}");
        assert!(client.ask("POST", collection, &object(collection, "not%a%name")).await.0 >= 400);
        if round % 2 == 0 {
            let (code, answer) = client.ask("DELETE", &path, &Value::Null).await;
            assert_eq!(code, 200, "{answer:?}");
        }
        if round % 4 == 2 {
            let (code, answer) = client.ask("POST", &format!("{path}/history"), &Value::Null).await;
            assert!(code < 300, "{answer:?}");
        }
    }
}

/// User, verb, resource and name of each change that a request made, by its audit ID.
type Timeline = BTreeMap<String, BTreeSet<(String, String, String, String)>>;

/// The writes that the audit log says have succeeded.
fn logged(log: &str) -> Timeline {
    let mut found = Timeline::new();
    for line in log.lines() {
        let event = codec::json::decode(line.as_bytes(), None, &mut codec::Notes::ignore()).unwrap();
        let text = |path: &[&str]| event.str_at(path).to_string();
        let is_write = ["create", "update", "patch", "delete", "deletecollection"].contains(&event.str_at(&["verb"]));
        let code = event.field("responseStatus").field("code").as_int().unwrap_or(0);
        let is_dry = event.str_at(&["requestURI"]).contains("dryRun=All");
        // A restore is written as the requests that it is made of.
        let is_restore = event.str_at(&["objectRef", "subresource"]) == "history";
        if !is_write || !(200..300).contains(&code) || is_dry || is_restore {
            continue;
        }
        let change = (
            text(&["user", "username"]),
            text(&["verb"]),
            text(&["objectRef", "resource"]),
            text(&["objectRef", "name"]),
        );
        assert!(found.entry(text(&["auditID"])).or_default().insert(change), "twice: {line}");
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_and_the_audit_log_tell_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let node = Node::start_with(&[], RANGE, |config| {
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, POLICY).unwrap();
        (config.audit.policy_file, config.audit.log_path) = (Some(policy), Some(log.clone()));
        let age = Duration::from_secs(86_400);
        config.store.history = Some(HistoryConfig { age, bytes: 1 << 30, exceptions: Default::default() });
    })
    .await;
    let mut clients = Vec::new();
    for id in 0..CLIENTS {
        clients.push(tokio::spawn(write(node.client().await, id)));
    }
    for client in clients {
        client.await.unwrap();
    }
    let mut client = node.client().await;
    let (mut recorded, mut token) = (Timeline::new(), String::new());
    loop {
        let part = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let (code, page) = client.ask("GET", &format!("/history/changes?since=-1h&limit=97{part}"), &Value::Null).await;
        let (code, page) = match code {
            // The history is younger than an hour.
            410 => client.ask("GET", &format!("/history/changes?limit=97{part}"), &Value::Null).await,
            _ => (code, page),
        };
        assert_eq!(code, 200, "{page:?}");
        for change in page.list_at(&["items"]) {
            let text = |path: &[&str]| change.str_at(path).to_string();
            // The server's own writes are no requests.
            if text(&["auditID"]).is_empty() {
                continue;
            }
            let what = (text(&["user"]), text(&["verb"]), text(&["object", "resource"]), text(&["object", "name"]));
            assert!(recorded.entry(text(&["auditID"])).or_default().insert(what), "twice: {change:?}");
        }
        token = page.str_at(&["metadata", "continue"]).to_string();
        if token.is_empty() {
            break;
        }
    }
    let logged = logged(&std::fs::read_to_string(&log).unwrap());
    let writes = CLIENTS * ROUNDS * 3 + CLIENTS * ROUNDS / 2 + CLIENTS * ROUNDS / 4;
    assert_eq!(logged.len(), writes);
    for (id, changes) in &logged {
        assert_eq!(recorded.get(id), Some(changes), "{id} is missing in the history");
    }
    for (id, changes) in &recorded {
        assert_eq!(logged.get(id), Some(changes), "{id} is not in the audit log");
    }
    node.stop().await;
}
