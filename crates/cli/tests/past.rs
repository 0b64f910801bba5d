//! A whole server that keeps a history: who made a change, what is encrypted, what discovery says, and the commands.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use apiserver::HistoryConfig;
use object::{Meta, Value, value};
use support::{Client, Node, ask};

const RANGE: &str = "10.7.0.0/24";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

const ENCRYPTION: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm:
      keys:
      - {name: one, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}
  - identity: {}
";

async fn start() -> Node {
    Node::start_with(&[], RANGE, |config| {
        let path = config.data_dir.join("encryption.yaml");
        std::fs::write(&path, ENCRYPTION).unwrap();
        config.store.encryption_config = Some(path);
        let age = Duration::from_secs(86_400);
        config.store.history = Some(HistoryConfig { age, bytes: 1 << 30, exceptions: Default::default() });
    })
    .await
}

/// The names that discovery has for the subresource of config maps.
async fn listed(client: &mut Client) -> Vec<Value> {
    let list = ask(client, "GET", "/api/v1", &Value::Null).await;
    let resources = list.list_at(&["resources"]).iter();
    resources.filter(|resource| resource.str_at(&["name"]) == "configmaps/history").cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_have_their_users_and_secrets_stay_secret() {
    let node = start().await;
    let mut client = node.client().await;
    ask(&mut client, "POST", MAPS, &value!({"metadata": {"name": "m"}, "data": {"a": "1"}})).await;
    let secret = value!({"metadata": {"name": "s"}, "stringData": {"a": "marzipan"}});
    let mut secret = ask(&mut client, "POST", SECRETS, &secret).await;
    secret.set(&["data", "a"], "bm91Z2F0");
    ask(&mut client, "PUT", &format!("{SECRETS}/s"), &secret).await;
    ask(&mut client, "DELETE", &format!("{SECRETS}/s"), &Value::Null).await;

    let list = ask(&mut client, "GET", &format!("{SECRETS}/s/history"), &Value::Null).await;
    let items = list.list_at(&["items"]);
    let seen: Vec<(&str, &str)> = items.iter().map(|item| (item.str_at(&["user"]), item.str_at(&["verb"]))).collect();
    assert_eq!(seen, [("kubernetes-admin", "delete"), ("kubernetes-admin", "update"), ("kubernetes-admin", "create")]);
    assert!(items.iter().all(|item| item.str_at(&["auditID"]).len() == 36), "{list:?}");
    // As it was before the update.
    let created = items[2].str_at(&["revision"]);
    let exact = format!("{SECRETS}/s?resourceVersion={created}&resourceVersionMatch=Exact");
    let was = ask(&mut client, "GET", &exact, &Value::Null).await;
    assert_eq!(was.str_at(&["data", "a"]), "bWFyemlwYW4=");
    for (path, wanted) in files(&node.directory().join("history")) {
        let text = String::from_utf8_lossy(&wanted).into_owned();
        assert!(!text.contains("marzipan") && !text.contains("bWFyemlwYW4"), "{path}");
    }
    let everything = ask(&mut client, "GET", "/history/changes?namespace=default&resource=secrets", &Value::Null).await;
    let seen: Vec<(&str, &str)> = everything
        .list_at(&["items"])
        .iter()
        .map(|item| (item.str_at(&["operation"]), item.str_at(&["object", "name"])))
        .collect();
    assert_eq!(seen, [("Created", "s"), ("Updated", "s"), ("Deleted", "s")]);
    let [part] = &listed(&mut client).await[..] else { panic!("one subresource") };
    assert_eq!(part.str_at(&["kind"]), "ChangeList");
    assert_eq!(part.list_at(&["verbs"]), [Value::from("create"), Value::from("get")]);
    assert!(client.text("/metrics").await.contains("\nferrokube_history_recording 1\n"));
    node.stop().await;
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_history_discovery_does_not_name_it() {
    let node = Node::start(&[], RANGE).await;
    let mut client = node.client().await;
    assert_eq!(listed(&mut client).await, []);
    ask(&mut client, "POST", MAPS, &value!({"metadata": {"name": "m"}})).await;
    assert_eq!(client.ask("GET", &format!("{MAPS}/m/history"), &Value::Null).await.0, 404);
    assert!(!node.directory().join("history").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_ask_and_bring_back() {
    let node = start().await;
    let mut client = node.client().await;
    let object = value!({"metadata": {"name": "m", "labels": {"x": "y"}}, "data": {"a": "1"}});
    let mut stored = ask(&mut client, "POST", MAPS, &object).await;
    stored.set(&["data", "a"], "2");
    ask(&mut client, "PUT", &format!("{MAPS}/m"), &stored).await;
    for (arguments, wanted) in [
        (&["history", "cm/m"][..], &["kubernetes-admin", "replace /data/a \"2\"", "Created"][..]),
        (&["history", "configmaps/m", "--user", "nobody-else"], &["no changes are recorded"]),
        (&["blame", "configmap/m"], &[".data.a: \"2\"", ".metadata.labels.x: \"y\""]),
        (&["diff", "configmaps/m", "--from", "-0s"], &[]),
    ] {
        let said = run(&node, arguments).await.unwrap();
        assert!(wanted.iter().all(|text| said.contains(text)), "{arguments:?}: {said}");
    }
    assert!(run(&node, &["undelete", "configmaps/m"]).await.unwrap_err().contains("exists"));
    ask(&mut client, "DELETE", &format!("{MAPS}/m"), &Value::Null).await;
    let said = run(&node, &["undelete", "configmaps/m", "--dry-run"]).await.unwrap();
    assert!(said.contains("nothing was stored"), "{said}");
    assert_eq!(client.ask("GET", &format!("{MAPS}/m"), &Value::Null).await.0, 404);
    run(&node, &["undelete", "configmaps/m"]).await.unwrap();
    let back = ask(&mut client, "GET", &format!("{MAPS}/m"), &Value::Null).await;
    assert_eq!((back.str_at(&["data", "a"]), back.str_at(&["metadata", "labels", "x"])), ("2", "y"));
    assert_ne!(back.uid(), stored.uid());
    for (arguments, why) in [
        (&["restore-at", "configmaps/m", "--at=-200000h"][..], "does not have the state"),
        (&["history", "nonsense/m"], "no resource nonsense"),
        (&["history", "configmaps"], "which object"),
        (&["history", "configmaps/.."], "invalid resource name"),
    ] {
        let said = run(&node, arguments).await.unwrap_err();
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    let at = run(&node, &["restore-at", "configmaps/m", "--at=-0s"]).await.unwrap();
    assert!(at.contains("nothing had to be changed"), "{at}");
    let mut changed = back.clone();
    changed.set(&["data", "a"], "3");
    ask(&mut client, "PUT", &format!("{MAPS}/m"), &changed).await;
    let list = ask(&mut client, "GET", &format!("{MAPS}/m/history"), &Value::Null).await;
    let first = list.list_at(&["items"]).last().unwrap().str_at(&["time"]).to_string();
    let said = run(&node, &["diff", "--from", &first]).await.unwrap();
    assert!(said.contains("configmaps default/m"), "{said}");
    let said = run(&node, &["changes", "--resource=configmaps", "-A"]).await.unwrap();
    assert!(said.contains("Deleted") && said.contains("configmaps default/m"), "{said}");
    let revision = back.str_at(&["metadata", "resourceVersion"]);
    let wanted = value!({"revision": revision});
    ask(&mut client, "POST", &format!("{MAPS}/m/history"), &wanted).await;
    assert_eq!(ask(&mut client, "GET", &format!("{MAPS}/m"), &Value::Null).await.str_at(&["data", "a"]), "2");
    node.stop().await;
}

/// Runs a command; what it printed, or why it failed.
async fn run(node: &Node, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokube"));
    command.args(arguments).arg("--data-dir").arg(node.directory()).arg(format!("--server={}", node.url()));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
