//! A whole server brings back a namespace with everything that was in it.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::HistoryConfig;
use object::{Meta, Value, value};
use support::{Client, Node, ask};

const RANGE: &str = "10.7.0.0/24";
const NAMESPACES: &str = "/api/v1/namespaces";
const SHOP: &str = "/api/v1/namespaces/shop";

async fn start() -> Node {
    Node::start_with(&[], RANGE, |config| {
        config.standalone = true;
        let age = Duration::from_secs(86_400);
        config.store.history = Some(HistoryConfig { age, bytes: 1 << 30, exceptions: Default::default() });
    })
    .await
}

/// Collections of the namespace, and an object of each.
fn objects() -> Vec<(&'static str, Value)> {
    let labels = value!({"app": "web"});
    let template =
        value!({"metadata": {"labels": (labels.clone())}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = |name: &str| {
        value!({"metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"selector": {"matchLabels": (labels.clone())}, "template": (template.clone())}})
    };
    let mut set = workload("set");
    set.set(&["spec", "serviceName"], "headless");
    let pod = value!({"metadata": {"name": "web-1-a", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1", "serviceAccountName": "robot"}});
    let rule = value!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    let rbac = "rbac.authorization.k8s.io";
    let metric =
        value!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3});
    let job = value!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let claim = value!({"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}});
    vec![
        (
            "api/v1 configmaps",
            value!({"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}, "data": {"a": "1"}}),
        ),
        ("api/v1 secrets", value!({"metadata": {"name": "key"}, "stringData": {"a": "1"}})),
        ("api/v1 serviceaccounts", value!({"metadata": {"name": "robot", "annotations": {"a": "b"}}})),
        ("api/v1 resourcequotas", value!({"metadata": {"name": "few"}, "spec": {"hard": {"configmaps": "200"}}})),
        (
            "api/v1 limitranges",
            value!({"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "9Gi"}}]}}),
        ),
        (
            "api/v1 services",
            value!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "selector": (labels.clone()), "ports": [{"port": 80}]}}),
        ),
        (
            "api/v1 services",
            value!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
        ),
        ("api/v1 persistentvolumeclaims", value!({"metadata": {"name": "data"}, "spec": claim})),
        (
            "api/v1 replicationcontrollers",
            value!({"metadata": {"name": "rc"}, "spec": {"selector": (labels.clone()), "template": (template.clone())}}),
        ),
        ("api/v1 podtemplates", value!({"metadata": {"name": "pt"}, "template": (template.clone())})),
        ("apis/apps/v1 deployments", workload("web")),
        ("apis/apps/v1 replicasets", workload("web-1")),
        ("api/v1 pods", pod),
        ("apis/apps/v1 statefulsets", set),
        ("apis/apps/v1 daemonsets", workload("everywhere")),
        ("apis/batch/v1 jobs", value!({"metadata": {"name": "once"}, "spec": {"template": (job.clone())}})),
        (
            "apis/batch/v1 cronjobs",
            value!({"metadata": {"name": "often"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": job}}}}),
        ),
        (
            "apis/policy/v1 poddisruptionbudgets",
            value!({"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        ),
        ("apis/autoscaling/v2 horizontalpodautoscalers", value!({"metadata": {"name": "hpa"}, "spec": metric})),
        (
            "apis/networking.k8s.io/v1 networkpolicies",
            value!({"metadata": {"name": "np"}, "spec": {"podSelector": {}}}),
        ),
        (
            "apis/networking.k8s.io/v1 ingresses",
            value!({"metadata": {"name": "in"}, "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}),
        ),
        ("apis/rbac.authorization.k8s.io/v1 roles", value!({"metadata": {"name": "reader"}, "rules": [rule]})),
        (
            "apis/rbac.authorization.k8s.io/v1 rolebindings",
            value!({"metadata": {"name": "readers"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"}, "subjects": [{"apiGroup": rbac, "kind": "User", "name": "anne"}]}),
        ),
    ]
}

fn collection(place: &str) -> String {
    let (version, resource) = place.split_once(' ').unwrap();
    format!("/{version}/namespaces/shop/{resource}")
}

/// An object without what differs between two lives of it. Uids of owners become names.
fn lasting(object: &Value, names: &BTreeMap<String, String>) -> Value {
    let mut object = object.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        object.remove(&["metadata", field]);
    }
    object.remove(&["status"]);
    let mut owners = object.owner_references().to_vec();
    for owner in &mut owners {
        let name = names.get(owner.str_at(&["uid"])).expect("an owner that is there").clone();
        owner.set(&["uid"], name);
    }
    if !owners.is_empty() {
        object.set(&["metadata", "ownerReferences"], owners);
    }
    if object.kind() == "Job" {
        for path in [&["spec", "selector"][..], &["spec", "template", "metadata", "labels"], &["metadata", "labels"]] {
            object.remove(path);
        }
    }
    object
}

/// Everything of the namespace, by collection and name.
async fn everything(client: &mut Client) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (place, _) in objects() {
        let list = ask(client, "GET", &collection(place), &Value::Null).await;
        for item in list.list_at(&["items"]) {
            let mut item = item.clone();
            item.set(&["kind"], list.kind().trim_end_matches("List"));
            found.insert(format!("{place}/{}", item.name()), item);
        }
    }
    found
}

fn lasting_of_all(found: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let names = found.iter().map(|(name, object)| (object.uid().to_string(), name.clone())).collect();
    found.iter().map(|(name, object)| (name.clone(), lasting(object, &names))).collect()
}

async fn fill(client: &mut Client) {
    ask(client, "POST", NAMESPACES, &value!({"metadata": {"name": "shop", "labels": {"team": "a"}}})).await;
    let volume = value!({"metadata": {"name": "pv-1"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"}, "claimRef": {"namespace": "shop", "name": "data"}}});
    let mut volume = ask(client, "POST", "/api/v1/persistentvolumes", &volume).await;
    let mut uids: BTreeMap<&str, String> = BTreeMap::new();
    for (place, mut object) in objects() {
        let owner = match place {
            "apis/apps/v1 replicasets" => Some(("apps/v1", "Deployment", "web", "apis/apps/v1 deployments")),
            "api/v1 pods" => Some(("apps/v1", "ReplicaSet", "web-1", "apis/apps/v1 replicasets")),
            _ => None,
        };
        if let Some((version, kind, name, of)) = owner {
            let owner = value!({"apiVersion": version, "kind": kind, "name": name, "uid": (uids[of].clone()),
                "controller": true, "blockOwnerDeletion": true});
            object.set(&["metadata", "ownerReferences"], vec![owner]);
        }
        let stored = ask(client, "POST", &collection(place), &object).await;
        uids.insert(place, stored.uid().to_string());
    }
    volume.set(&["spec", "claimRef", "uid"], uids["api/v1 persistentvolumeclaims"].clone());
    ask(client, "PUT", "/api/v1/persistentvolumes/pv-1", &volume).await;
    for at in 0..60 {
        let map = value!({"metadata": {"name": (format!("m{at}"))}, "data": {"n": (at.to_string())}});
        ask(client, "POST", &collection("api/v1 configmaps"), &map).await;
    }
}

async fn delete_namespace(client: &mut Client) {
    ask(client, "DELETE", SHOP, &Value::Null).await;
    // Finalizers are in the way until their controllers have removed them: there is none of either here.
    for path in ["configmaps/kept", "persistentvolumeclaims/data"].map(|part| [SHOP, "/", part].concat()) {
        loop {
            let (code, mut kept) = client.ask("GET", &path, &Value::Null).await;
            if code == 404 {
                break;
            }
            if kept.is_deleting() {
                kept.remove(&["metadata", "finalizers"]);
                let (code, answer) = client.ask("PUT", &path, &kept).await;
                assert!(code < 300 || code == 404 || code == 409, "{answer:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The pod is on a node, which nobody runs here.
    let now = value!({"gracePeriodSeconds": 0});
    client.ask("DELETE", &format!("{SHOP}/pods/web-1-a"), &now).await;
    while client.ask("GET", SHOP, &Value::Null).await.0 != 404 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_comes_back_with_everything_that_was_in_it() {
    let node = start().await;
    let mut client = node.client().await;
    fill(&mut client).await;
    let before = everything(&mut client).await;
    delete_namespace(&mut client).await;

    let wanted = value!({"contents": true, "onlyMissing": true});
    let tried = ask(&mut client, "POST", &format!("{SHOP}/history?dryRun=All"), &wanted).await;
    assert!(tried.list_at(&["items"]).len() > 80, "{tried:?}");
    assert_eq!(client.ask("GET", SHOP, &Value::Null).await.0, 404, "nothing was stored");
    let done = ask(&mut client, "POST", &format!("{SHOP}/history"), &wanted).await;
    let after = everything(&mut client).await;
    let (was, is) = (lasting_of_all(&before), lasting_of_all(&after));
    for (name, was) in &was {
        assert_eq!(is.get(name), Some(was), "{name}");
    }
    assert_eq!(is.len(), was.len());
    // A claim has the volume that it had, and the volume knows it.
    let volume = ask(&mut client, "GET", "/api/v1/persistentvolumes/pv-1", &Value::Null).await;
    let claim = &after["api/v1 persistentvolumeclaims/data"];
    assert_eq!(volume.str_at(&["spec", "claimRef", "uid"]), claim.uid());
    assert_eq!(
        after["api/v1 pods/web-1-a"].owner_references()[0].str_at(&["uid"]),
        after["apis/apps/v1 replicasets/web-1"].uid()
    );
    for (name, object) in &after {
        let uid = before.get(name).map(Meta::uid);
        assert_ne!(Some(object.uid()), uid, "{name} is another object");
    }
    assert_eq!(ask(&mut client, "GET", SHOP, &Value::Null).await.str_at(&["metadata", "labels", "team"]), "a");
    let created = done.list_at(&["counts"]).iter().find(|count| count.str_at(&["operation"]) == "Create").unwrap();
    assert!(created.field("count").as_int().unwrap() > 80, "{created:?}");
    // It is all there, so nothing is left to do.
    let revision = done.str_at(&["metadata", "resourceVersion"]);
    let again = value!({"contents": true, "revision": revision});
    let again = ask(&mut client, "POST", &format!("{SHOP}/history"), &again).await;
    let changed = again.list_at(&["items"]).iter().filter(|item| item.str_at(&["operation"]) != "None");
    assert_eq!(changed.count(), 0, "{again:?}");
    node.stop().await;
}

/// One object that cannot be made keeps all others of its step from being made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_made_whole_or_not_at_all() {
    let node = start().await;
    let mut client = node.client().await;
    let services = format!("{SHOP}/services");
    ask(&mut client, "POST", NAMESPACES, &value!({"metadata": {"name": "shop"}})).await;
    let service = value!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let mut service = ask(&mut client, "POST", &services, &service).await;
    for at in 0..20 {
        let map = value!({"metadata": {"name": (format!("m{at}"))}});
        ask(&mut client, "POST", &collection("api/v1 configmaps"), &map).await;
    }
    let deleted = ask(&mut client, "GET", &format!("{SHOP}/configmaps"), &Value::Null).await;
    let revision = deleted.str_at(&["metadata", "resourceVersion"]).to_string();
    ask(&mut client, "DELETE", &format!("{SHOP}/configmaps"), &Value::Null).await;
    ask(&mut client, "DELETE", &format!("{services}/web"), &Value::Null).await;
    // Its address is another's now.
    service.set_meta_str("name", "thief");
    service.remove(&["metadata", "resourceVersion"]);
    ask(&mut client, "POST", &services, &service).await;
    let wanted = value!({"contents": true, "revision": (revision.as_str()), "resources": ["configmaps", "services"]});
    let (code, answer) = client.ask("POST", &format!("{SHOP}/history"), &wanted).await;
    assert_eq!(code, 422, "{answer:?}");
    let message = answer.str_at(&["message"]);
    assert!(message.starts_with("services shop/web: ") && message.contains("none of the 2"), "{message}");
    let maps = ask(&mut client, "GET", &format!("{SHOP}/configmaps"), &Value::Null).await;
    assert!(maps.list_at(&["items"]).len() <= 1, "only that of the authorities: {maps:?}");
    // The rest alone.
    let wanted = value!({"contents": true, "revision": revision, "resources": ["configmaps"]});
    ask(&mut client, "POST", &format!("{SHOP}/history"), &wanted).await;
    let maps = ask(&mut client, "GET", &format!("{SHOP}/configmaps"), &Value::Null).await;
    assert!(maps.list_at(&["items"]).len() >= 20);
    node.stop().await;
}

/// A user with few rights can bring back what the user could create, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_grants_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "anna-token,anna,anna-uid,\"\"\n").unwrap();
    let node = Node::start_with(&[], RANGE, |config| {
        config.token_auth_file = Some(tokens);
        let age = Duration::from_secs(86_400);
        config.store.history = Some(HistoryConfig { age, bytes: 1 << 30, exceptions: Default::default() });
    })
    .await;
    let (mut admin, mut anna) = (node.client().await, node.stranger().await);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let group = "rbac.authorization.k8s.io";
    let resources = ["configmaps", "roles", "rolebindings", "secrets"];
    let histories = resources.map(|resource| [resource, "/history"].concat());
    let rules = |named: &[&str]| {
        value!([
            {"apiGroups": ["", group], "resources": (named.iter().map(|name| Value::from(*name)).collect::<Vec<_>>()),
                "verbs": ["get", "list", "create", "update"]},
            {"apiGroups": ["", group], "resources": (histories.iter().map(|name| Value::from(name.as_str())).collect::<Vec<_>>()),
                "verbs": ["get", "create"]},
        ])
    };
    let binding = |name: &str, role: Value| value!({"metadata": {"name": name}, "roleRef": role, "subjects": [{"apiGroup": group, "kind": "User", "name": "anna"}]});
    let own = value!({"apiGroup": group, "kind": "Role", "name": "own"});
    let mut role = value!({"metadata": {"name": "own"}});
    role.set(&["rules"], rules(&["configmaps", "roles", "rolebindings"]));
    let mut role = ask(&mut admin, "POST", &format!("{rbac}/roles"), &role).await;
    ask(&mut admin, "POST", &format!("{rbac}/rolebindings"), &binding("own", own)).await;
    let power = value!({"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"});
    let all = value!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    for (collection, object) in [
        (format!("{rbac}/rolebindings"), binding("power", power)),
        (format!("{rbac}/roles"), value!({"metadata": {"name": "power"}, "rules": all})),
        ("/api/v1/namespaces/default/configmaps".into(), value!({"metadata": {"name": "power"}})),
        ("/api/v1/namespaces/default/secrets".into(), value!({"metadata": {"name": "power"}})),
    ] {
        ask(&mut admin, "POST", &collection, &object).await;
        let path = format!("{collection}/power");
        ask(&mut admin, "DELETE", &path, &Value::Null).await;
        let wanted = if collection.ends_with("configmaps") { 200 } else { 403 };
        for part in ["/history?dryRun=All", "/history"] {
            let (code, answer) = anna.ask_as("anna-token", "POST", &format!("{path}{part}"), &Value::Null).await;
            // A dry run says what would be refused.
            let refused = answer.list_at(&["items"]).iter().any(|item| !item.str_at(&["error"]).is_empty());
            let code = if refused { 403 } else { code };
            assert_eq!(code, wanted, "{path}{part}: {answer:?}");
        }
        let (code, _) = admin.ask("GET", &path, &Value::Null).await;
        assert_eq!(code, if wanted == 200 { 200 } else { 404 }, "{path}");
    }
    // A right that is lost is lost for the past.
    role.set(&["rules"], value!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]));
    ask(&mut admin, "PUT", &format!("{rbac}/roles/own"), &role).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (method, part) in [("GET", "/history"), ("POST", "/history"), ("GET", "?at=-0s")] {
        let (code, answer) = anna.ask_as("anna-token", method, &format!("{maps}/power{part}"), &Value::Null).await;
        assert_eq!(code, 403, "{part}: {answer:?}");
    }
    node.stop().await;
}
