//! A kubelet that tries to reach what belongs to another node.

use hostile::{ADMIN, Answer, Target, request};
use serde_json::{Value, json};

const NS: &str = "/api/v1/namespaces/default";
const GROUPS: [&str; 2] = ["system:nodes", "system:authenticated"];

async fn as_user(target: &Target, user: &str, groups: &[&str], method: &str, path: &str) -> Answer {
    let mut builder = request(ADMIN, method, path).header("impersonate-user", user);
    for group in groups {
        builder = builder.header("impersonate-group", *group);
    }
    target.send(builder, String::new()).await
}

fn pod(name: &str, node: &str, secret: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": secret}}]}]
        }
    })
}

async fn create(target: &Target, path: &str, object: Value) {
    let answer = target.ask(ADMIN, "POST", path, object.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelets_reach_only_what_is_theirs() {
    let target = Target::start_with(|builder| builder).await;
    for secret in ["mine", "theirs", "mirrored"] {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
        create(&target, &format!("{NS}/secrets"), object).await;
    }
    create(&target, &format!("{NS}/pods"), pod("a", "n1", "mine", json!({}))).await;
    create(&target, &format!("{NS}/pods"), pod("b", "n2", "theirs", json!({}))).await;
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    create(&target, &format!("{NS}/pods"), pod("m", "n1", "mirrored", mirror)).await;
    let ask = async |method: &str, path: &str| {
        as_user(&target, "system:node:n1", &GROUPS, method, &format!("{NS}{path}")).await.code
    };
    for (method, path) in [
        ("GET", "/secrets/mine"),
        ("GET", "/secrets?fieldSelector=metadata.name%3Dmine"),
        ("GET", "/pods/a"),
        ("GET", "/pods?fieldSelector=spec.nodeName%3Dn1"),
    ] {
        assert_eq!(ask(method, path).await, 200, "{method} {path}");
    }
    for (method, path) in [
        ("GET", "/secrets/theirs"),
        ("GET", "/secrets/mirrored"),
        ("GET", "/secrets"),
        ("GET", "/secrets?watch=1"),
        ("GET", "/secrets?fieldSelector=metadata.name%3Dtheirs"),
        // The first of several selectors counts, for authorization and for the list.
        ("GET", "/secrets?fieldSelector=metadata.name%3Dtheirs&fieldSelector=metadata.name%3Dmine"),
        ("GET", "/secrets?fieldSelector=metadata.name!%3Dtheirs"),
        ("DELETE", "/secrets/mine"),
        ("DELETE", "/secrets?fieldSelector=metadata.name%3Dmine"),
        ("GET", "/pods"),
        ("GET", "/pods/b"),
        ("GET", "/pods?fieldSelector=spec.nodeName%3Dn2"),
        ("GET", "/pods?fieldSelector=spec.nodeName!%3Dn1"),
        ("GET", "/pods?fieldSelector=spec.nodeName"),
        ("DELETE", "/pods?fieldSelector=spec.nodeName%3Dn1"),
        ("GET", "/configmaps/mine"),
    ] {
        assert_eq!(ask(method, path).await, 403, "{method} {path}");
    }
    // Two requirements that contradict each other are allowed, and select nothing.
    let both = format!("{NS}/pods?fieldSelector=spec.nodeName%3Dn1,spec.nodeName%3Dn2");
    let answer = as_user(&target, "system:node:n1", &GROUPS, "GET", &both).await;
    assert_eq!((answer.code, answer.json()["items"].as_array().map(Vec::len)), (200, Some(0)));
    // A selector on a deprecated watch path is not applied to what is authorized.
    let watch = "/api/v1/watch/namespaces/default/pods?fieldSelector=spec.nodeName%3Dn1";
    assert_eq!(as_user(&target, "system:node:n1", &GROUPS, "GET", watch).await.code, 403);
    // The name alone makes no node, nor does the group.
    for (user, groups) in [("system:node:n1", &GROUPS[1..]), ("alice", &GROUPS[..]), ("system:node:", &GROUPS[..])] {
        let answer = as_user(&target, user, groups, "GET", &format!("{NS}/secrets/mine")).await;
        assert_eq!(answer.code, 403, "{user} {groups:?}");
    }
    // Access ends with the pod.
    let gone = target.ask(ADMIN, "DELETE", &format!("{NS}/pods/a?gracePeriodSeconds=0"), "").await;
    assert_eq!(gone.code, 200, "{}", gone.message());
    assert_eq!(ask("GET", "/secrets/mine").await, 403);
}
