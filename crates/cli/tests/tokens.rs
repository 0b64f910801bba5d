//! Service accounts' tokens through a whole server: issued, reviewed, used, and ended with what they are bound to.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use object::{Meta, Value, value};
use support::{Client, Node};

const RANGE: &str = "10.8.0.0/24";
const NAMESPACE: &str = "/api/v1/namespaces/default";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_survive_a_restart_and_end_with_their_pod() {
    let mut node = Node::spawn(RANGE);
    let mut admin = node.client().await;
    let account = value!({"metadata": {"name": "bot"}});
    assert_eq!(admin.ask("POST", &format!("{NAMESPACE}/serviceaccounts"), &account).await.0, 201);
    let pod = value!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "bot", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]
    }});
    assert_eq!(admin.ask("POST", &format!("{NAMESPACE}/pods"), &pod).await.0, 201);
    let plain = issue(&mut admin, value!({})).await;
    let bound = issue(&mut admin, value!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}})).await;

    // The key is kept in the data directory: tokens stay valid when the server is started again.
    node.kill_and_start_again(RANGE);
    let mut admin = node.client().await;
    for token in [&plain, &bound] {
        let (code, answer) =
            node.stranger().await.ask_as(token, "GET", &format!("{NAMESPACE}/pods"), &Value::Null).await;
        let user = "User \"system:serviceaccount:default:bot\" cannot list resource \"pods\"";
        assert!(code == 403 && answer.str_at(&["message"]).contains(user), "{answer:?}");
    }
    let status = review(&mut admin, &bound, value!([])).await;
    assert_eq!(status.at(&["user", "extra", "authentication.kubernetes.io/pod-name"]), &value!(["p"]));
    assert_eq!(status.field("audiences"), &value!(["https://kubernetes.default.svc"]));

    let gone = format!("{NAMESPACE}/pods/p?gracePeriodSeconds=0");
    assert_eq!(admin.ask("DELETE", &gone, &Value::Null).await.0, 200);
    // Other audiences: an answer of a moment ago must not be remembered.
    let audiences = value!(["https://kubernetes.default.svc", "other"]);
    let status = review(&mut admin, &bound, audiences.clone()).await;
    assert_eq!(status.str_at(&["error"]), "[invalid bearer token, service account token has been invalidated]");
    assert_eq!(review(&mut admin, &plain, audiences).await.field("authenticated").as_bool(), Some(true));
}

async fn issue(admin: &mut Client, spec: Value) -> String {
    let request = value!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let (code, answer) = admin.ask("POST", &format!("{NAMESPACE}/serviceaccounts/bot/token"), &request).await;
    assert_eq!((code, answer.name()), (201, "bot"), "{answer:?}");
    answer.str_at(&["status", "token"]).to_string()
}

async fn review(admin: &mut Client, token: &str, audiences: Value) -> Value {
    let review = value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences}
    });
    admin.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review).await.1.field("status").clone()
}
