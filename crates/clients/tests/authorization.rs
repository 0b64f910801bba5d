//! Requests that try to do more than their user was authorized for: through another scope, by creating with an update, by
//! watching more than the named object, by upgrading a read.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::time::Duration;

use bytes::Bytes;
use clients::TestServer;
use difftest::Client;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// One connection of one user.
struct User {
    token: &'static str,
    sender: SendRequest<Full<Bytes>>,
}

impl User {
    async fn connect(server: &TestServer, token: &'static str) -> User {
        let client = Client::new(server.running.address, token).unwrap();
        let stream = client.connect(&[b"http/1.1"]).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        User { token, sender }
    }

    async fn response(&mut self, method: &str, path: &str, body: &Value) -> http::Response<hyper::body::Incoming> {
        let kind = match method {
            "APPLY" => "application/apply-patch+yaml",
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(if method == "APPLY" || method == "PATCH" { "PATCH" } else { method.split(' ').next().unwrap() })
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind);
        if method.ends_with(" UPGRADE") {
            request = request.header("connection", "Upgrade").header("upgrade", "websocket");
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.sender.ready().await.unwrap();
        self.sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let response = self.response(method, path, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let message =
            serde_json::from_slice::<Value>(&bytes).ok().and_then(|v| v["message"].as_str().map(str::to_string));
        (code, message.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Gives alice these rules in a namespace of her own.
async fn grant(admin: &mut User, namespace: &str, rules: Value) {
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    assert_eq!(admin.ask("POST", "/api/v1/namespaces", &made).await.0, 201);
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "r"}, "rules": rules});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}]});
    for (resource, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/{resource}");
        assert_eq!(admin.ask("POST", &path, &object).await.0, 201);
    }
}

/// Every resource and subresource, addressed in the scope that it does not have, does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_exist_only_in_their_scope() {
    let server = TestServer::start().await;
    let mut admin = User::connect(&server, "admin-token").await;
    let catalog = server.running.api.catalog.load_full();
    let mut checked = 0;
    for resource in catalog.resources() {
        let id = &resource.resource;
        let root = if id.group.is_empty() {
            format!("/api/{}", id.version)
        } else {
            format!("/apis/{}/{}", id.group, id.version)
        };
        let wrong = if resource.namespaced { String::new() } else { "/namespaces/default".to_string() };
        let mut paths = vec![format!("{root}{wrong}/{}/x", id.resource)];
        if !resource.namespaced || !resource.serves("list") {
            paths.push(format!("{root}{wrong}/{}", id.resource));
        }
        for part in &resource.subresources {
            paths.push(format!("{root}{wrong}/{}/x/{}", id.resource, part.name));
            paths.push(format!("{root}{wrong}/{}/default/{}", id.resource, part.name));
        }
        for path in &paths {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let (code, message) = admin.ask(method, path, &json!({})).await;
                assert_eq!(
                    (code, message.as_str()),
                    (404, "the server could not find the requested resource"),
                    "{method} {path}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_in_a_namespace_says_nothing_about_namespaces() {
    let server = TestServer::start().await;
    let mut admin = User::connect(&server, "admin-token").await;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    grant(&mut admin, "ns1", all).await;
    let mut alice = User::connect(&server, "user-token").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}});
    for (method, path, want) in [
        ("GET", "/api/v1/namespaces/ns1/namespaces", 404),
        ("GET", "/api/v1/namespaces/ns1/namespaces?watch=1", 404),
        ("GET", "/api/v1/watch/namespaces/ns1/namespaces", 404),
        ("GET", "/api/v1/namespaces/ns1/namespaces/kube-system", 404),
        ("POST", "/api/v1/namespaces/ns1/namespaces", 404),
        ("DELETE", "/api/v1/namespaces/ns1/namespaces", 404),
        ("DELETE", "/api/v1/namespaces/ns1/namespaces/kube-node-lease", 404),
        ("PUT", "/api/v1/namespaces/ns1/namespaces/kube-node-lease", 404),
        ("PUT", "/api/v1/namespaces/ns1/namespaces/kube-node-lease/finalize", 404),
        ("PATCH", "/api/v1/namespaces/ns1/namespaces/kube-node-lease/status", 404),
        ("APPLY", "/api/v1/namespaces/ns1/namespaces/kube-node-lease?fieldManager=m", 404),
        ("GET", "/api/v1/namespaces/ns1/nodes/n/proxy/metrics", 404),
        ("GET", "/api/v1/proxy/namespaces/ns1/pods/p", 404),
        ("GET", "/api/v1/namespaces/ns1/pods/p/status/more", 404),
        ("GET", "/api/v1/namespaces", 403),
        ("GET", "/api/v1/namespaces/ns1", 200),
        ("GET", "/api/v1/namespaces/kube-system", 403),
        ("GET", "/api/v1/namespaces/ns1/pods", 200),
    ] {
        let (code, message) = alice.ask(method, path, &namespace).await;
        assert_eq!(code, want, "{method} {path}: {message}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_creates_needs_create() {
    let server = TestServer::start().await;
    let mut admin = User::connect(&server, "admin-token").await;
    let changes = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "update", "patch"]}]);
    grant(&mut admin, "ns1", changes).await;
    let mut alice = User::connect(&server, "user-token").await;
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}, "spec": {}});
    assert_eq!(admin.ask("POST", "/api/v1/namespaces/ns1/configmaps", &map("there")).await.0, 201);
    let refused = |resource: &str, group: &str| {
        format!(
            "{resource}{}{group} \"x\" is forbidden: User \"alice\" cannot create resource \"{resource}\" in API group \"{group}\" in the namespace \"ns1\"",
            if group.is_empty() { "" } else { "." }
        )
    };
    let maps = "/api/v1/namespaces/ns1/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns1/leases";
    for (method, path, body, code, message) in [
        ("APPLY", format!("{maps}/x?fieldManager=m"), map("x"), 403, refused("configmaps", "")),
        ("APPLY", format!("{maps}/x?fieldManager=m&dryRun=All"), map("x"), 403, refused("configmaps", "")),
        ("PUT", format!("{leases}/x"), lease.clone(), 403, refused("leases", "coordination.k8s.io")),
        ("APPLY", format!("{maps}/there?fieldManager=m&force=true"), map("there"), 200, String::new()),
        ("PUT", format!("{maps}/there"), map("there"), 200, String::new()),
    ] {
        let (got, said) = alice.ask(method, &path, &body).await;
        assert_eq!(got, code, "{method} {path}: {said}");
        if code != 200 {
            assert_eq!(said, message, "{method} {path}");
        }
    }
    assert_eq!(admin.ask("PUT", &format!("{leases}/x"), &lease).await.0, 201);
    server.stop().await;
}

/// A role for one secret watches that one, however the watch is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_one_name_show_no_other() {
    let server = TestServer::start().await;
    let mut admin = User::connect(&server, "admin-token").await;
    let one =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["sec-a"], "verbs": ["watch", "list"]}]);
    grant(&mut admin, "ns1", one).await;
    let secrets = "/api/v1/namespaces/ns1/secrets";
    for name in ["sec-a", "sec-b"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        assert_eq!(admin.ask("POST", secrets, &secret).await.0, 201);
    }
    let named = "/api/v1/watch/namespaces/ns1/secrets/sec-a";
    for (path, want) in [
        (format!("{named}?timeoutSeconds=1"), 200),
        (format!("{named}?watch=true&timeoutSeconds=1"), 200),
        (format!("{named}?watch=false&timeoutSeconds=1"), 200),
        (format!("{named}?fieldSelector=metadata.name%3Dsec-a&timeoutSeconds=1"), 200),
        (format!("{named}?fieldSelector=metadata.name%3Dsec-b&timeoutSeconds=1"), 400),
        (format!("{named}?fieldSelector=type%3DOpaque&timeoutSeconds=1"), 400),
        (format!("{secrets}?watch=1&fieldSelector=metadata.name%3Dsec-a&timeoutSeconds=1"), 200),
        (format!("{secrets}?fieldSelector=metadata.name%3Dsec-a"), 200),
        ("/api/v1/watch/namespaces/ns1/secrets/sec-b?timeoutSeconds=1".to_string(), 403),
        ("/api/v1/watch/namespaces/ns1/secrets?timeoutSeconds=1".to_string(), 403),
        (format!("{secrets}?watch=1&timeoutSeconds=1"), 403),
    ] {
        let mut alice = User::connect(&server, "user-token").await;
        let (code, text) = alice.ask("GET", &path, &Value::Null).await;
        assert_eq!(code, want, "{path}: {text}");
        assert!(!(code == 200 && text.contains("sec-b")), "{path}: {text}");
        assert!(code != 200 || text.contains("sec-a"), "{path}: {text}");
    }
    server.stop().await;
}

/// A timeout that no clock can count is a long one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_may_ask_for_any_timeout() {
    let server = TestServer::start().await;
    for seconds in ["9223372036854775807", "9223372036854775", "-1", "0"] {
        let mut admin = User::connect(&server, "admin-token").await;
        let path = format!("/api/v1/namespaces?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        let mut response = admin.response("GET", &path, &Value::Null).await;
        assert_eq!(response.status(), 200, "{seconds}");
        let frame = tokio::time::timeout(Duration::from_secs(10), response.frame()).await.unwrap();
        assert!(frame.unwrap().unwrap().into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""), "{seconds}");
    }
    server.stop().await;
}

/// Upgrading a GET runs commands just as a POST does, so both need `create`; and admission sees every connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_need_create_and_are_admitted() {
    let server = TestServer::start().await;
    let mut admin = User::connect(&server, "admin-token").await;
    let reads = json!([{"apiGroups": [""], "resources": ["pods", "pods/exec", "pods/attach", "pods/portforward"], "verbs": ["get"]}]);
    grant(&mut admin, "ns1", reads).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    assert_eq!(admin.ask("POST", "/api/v1/namespaces/ns1/pods", &pod).await.0, 201);
    let path = |part: &str| format!("/api/v1/namespaces/ns1/pods/p/{part}");
    for part in ["exec?command=ls&stdout=1", "attach?stdout=1", "portforward?ports=80"] {
        for method in ["GET", "GET UPGRADE"] {
            let (code, message) = alice_once(&server, method, &path(part)).await;
            assert_eq!((code, message.as_str()), (403, r#"pods "p" is forbidden: "#), "{method} {part}");
        }
        let (code, message) = admin.ask("GET", &path(part), &Value::Null).await;
        assert_eq!((code, message.as_str()), (400, "pod p does not have a host assigned"), "{part}");
        assert_eq!(admin.ask("DELETE", &path(part), &Value::Null).await.0, 405, "{part}");
        let (code, message) = admin.ask("POST", &format!("{}&dryRun=All", path(part)), &Value::Null).await;
        assert_eq!((code, message.as_str()), (400, "dryRun is not supported"));
    }
    let (code, message) = admin.ask("GET", "/api/v1/namespaces/ns1/pods/proxy-x:80/proxy/", &Value::Null).await;
    assert_eq!((code, message.as_str()), (404, r#"pods "proxy-x" not found"#));
    server.stop().await;

    // A plugin that refuses every operation refuses connections too; logs are reads.
    let server = TestServer::start_with(|config| config.enable_admission_plugins = vec!["AlwaysDeny".into()]).await;
    let mut admin = User::connect(&server, "admin-token").await;
    for (path, want) in [
        ("/api/v1/namespaces/default/pods/p/exec", 403),
        ("/api/v1/namespaces/default/pods/p/attach", 403),
        ("/api/v1/namespaces/default/pods/p/portforward", 403),
        ("/api/v1/namespaces/default/pods/p/proxy/x", 403),
        ("/api/v1/namespaces/default/services/s/proxy/x", 403),
        ("/api/v1/nodes/n/proxy/metrics", 403),
        ("/api/v1/namespaces/default/pods/p/log", 404),
    ] {
        let (code, message) = admin.ask("GET", path, &Value::Null).await;
        assert_eq!(code, want, "{path}: {message}");
    }
    server.stop().await;
}

async fn alice_once(server: &TestServer, method: &str, path: &str) -> (u16, String) {
    User::connect(server, "user-token").await.ask(method, path, &Value::Null).await
}
