//! Published vulnerabilities of kube-apiserver and of the HTTP server it uses, each as the attack it was. docs/security.md has the
//! table.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hostile::{ADMIN, MALLORY, Target, request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::peer::Peer;

const SOON: Duration = Duration::from_secs(30);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DEFAULT: &str = "/api/v1/namespaces/default";

/// A request, as which user of which groups, and the refusal that it must get.
struct Case {
    cve: &'static str,
    user: &'static str,
    groups: &'static [&'static str],
    method: &'static str,
    path: String,
    body: Value,
    code: u16,
    says: &'static str,
}

/// CVE-2020-8554, CVE-2021-25737, CVE-2023-2728, CVE-2024-3177, CVE-2025-4563, CVE-2025-5187.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_refuses_what_it_once_let_through() {
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.disable_admission_plugins.clear();
            config.enable_admission_plugins = vec!["NodeRestriction".into(), "DenyServiceExternalIPs".into()];
        })
    })
    .await;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    for user in ["alice", "system:node:n1"] {
        target.allow(user, everything.clone()).await;
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default",
        "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    for (path, object) in [(format!("{DEFAULT}/serviceaccounts"), account), ("/api/v1/nodes".into(), node)] {
        let answer = target.ask(ADMIN, "POST", &path, object.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
    }
    let uid = target.ask(ADMIN, "GET", "/api/v1/nodes/n1", "").await.json()["metadata"]["uid"].clone();
    let env_from = json!([{"secretRef": {"name": "other"}}]);
    let plain = json!({"name": "c", "image": "x"});
    let leaking = json!({"name": "l", "image": "x", "envFrom": env_from});
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let slice = |address: &str| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"},
            "addressType": "IPv4", "endpoints": [{"addresses": [address]}]})
    };
    let pods = format!("{DEFAULT}/pods");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".to_string();
    let nodes: &[&str] = &["system:nodes", "system:authenticated"];
    let mirror = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}});
    let owned = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "y"}]}});
    let case = |cve, method, path: &str, body, code, says| Case {
        cve,
        user: "alice",
        groups: &[],
        method,
        path: path.into(),
        body,
        code,
        says,
    };
    let as_node = |case: Case| Case { user: "system:node:n1", groups: nodes, ..case };
    let cases = [
        case(
            "CVE-2020-8554",
            "POST",
            &format!("{DEFAULT}/services"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}}),
            403,
            "Use of external IPs is denied by admission control",
        ),
        case("CVE-2021-25737", "POST", &slices, slice("127.0.0.1"), 422, "may not be in the loopback range"),
        case("CVE-2021-25737", "POST", &slices, slice("169.254.1.1"), 422, "may not be in the link-local range"),
        case("CVE-2024-3177", "POST", &pods, pod(json!({"containers": [leaking]})), 403, "secret"),
        case(
            "CVE-2024-3177",
            "POST",
            &pods,
            pod(json!({"containers": [plain], "initContainers": [leaking]})),
            403,
            "secret",
        ),
        as_node(case("CVE-2025-4563", "POST", &pods, mirror, 403, "can not create pods that reference resourceclaims")),
        as_node(case("CVE-2025-5187", "PATCH", "/api/v1/nodes/n1", owned, 403, "ownerReferences")),
    ];
    for case in cases {
        refused(&target, case).await;
    }
    // CVE-2023-2728: the same (a 500, as upstream has it) through ephemeral containers of a pod that is there.
    let answer = target.ask(ADMIN, "POST", &pods, pod(json!({"containers": [plain]})).to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    let ephemeral = json!({"spec": {"ephemeralContainers": [leaking]}});
    refused(
        &target,
        case("CVE-2023-2728", "PATCH", &format!("{pods}/p/ephemeralcontainers"), ephemeral, 500, "secret"),
    )
    .await;
}

async fn refused(target: &Target, case: Case) {
    let mut builder = request(ADMIN, case.method, &case.path).header("impersonate-user", case.user);
    for group in case.groups {
        builder = builder.header("impersonate-group", *group);
    }
    if case.method == "PATCH" {
        builder
            .headers_mut()
            .unwrap()
            .insert("content-type", "application/strategic-merge-patch+json".parse().unwrap());
    }
    let answer = target.send(builder, case.body.to_string()).await;
    let message = answer.message();
    assert!(answer.code == case.code && message.contains(case.says), "{}: {} {message}", case.cve, answer.code);
}

/// CVE-2018-1002105, CVE-2020-8559: a kubelet that refuses an upgrade, or redirects it, gets no further bytes of the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upgrade_is_no_tunnel() {
    let target = Target::start().await;
    for answer in ["403 Forbidden", "302 Found\r\nlocation: https://127.0.0.1:1/stolen", "200 OK"] {
        let seen = Arc::new(Mutex::new(String::new()));
        let port = kubelet(answer, seen.clone()).await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}});
        target.ask(ADMIN, "POST", "/api/v1/nodes", node.to_string()).await;
        let session = target.session().await;
        assert_eq!(session.ask(ADMIN, "PATCH", "/api/v1/nodes/n1/status", status.to_string()).await.code, 200);
        target.ask(ADMIN, "POST", &format!("{DEFAULT}/pods"), pod.to_string()).await;
        let mut stream = target.connect(&[b"http/1.1"]).await;
        let head = format!(
            "POST {DEFAULT}/pods/p/exec?command=ls&stdout=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
             connection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        tokio::time::timeout(SOON, stream.read_exact(&mut response)).await.unwrap().unwrap();
        assert_ne!(&response, b"HTTP/1.1 101", "{answer}");
        // What the client sends now is a request to the API server or nothing, but never something for the kubelet.
        let _ = stream.write_all(b"GET /stolen HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut rest)).await;
        let seen = seen.lock().unwrap().clone();
        assert!(seen.contains("/exec/") && !seen.contains("stolen"), "{answer}: the kubelet got {seen}");
    }
}

/// Answers the first request on every connection with this, and notes everything it receives.
async fn kubelet(answer: &'static str, seen: Arc<Mutex<String>>) -> u16 {
    let Peer { listener, acceptor, port, .. } = Peer::bind("node").await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let seen = seen.clone();
            tokio::spawn(async move {
                let (mut buffer, mut answered) = ([0; 4096], false);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    seen.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
                    if !answered {
                        answered = true;
                        let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
                        let _ = stream.write_all(head.as_bytes()).await;
                        let _ = stream.flush().await;
                    }
                }
            });
        }
    });
    port
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// CVE-2023-45288: header blocks that go on in CONTINUATION frames for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_without_end_are_refused() {
    let target = Target::start().await;
    let mut stream = target.connect(&[b"h2"]).await;
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    // ":method: GET" from the static table, then literals that are never indexed.
    stream.write_all(&frame(1, 0, 1, &[0x82])).await.unwrap();
    let literal = [&[0x10, 0x01, b'x', 0x7f, 0x80, 0x7e][..], &[b'y'; 16_000 - 6]].concat();
    let flood = async {
        for _ in 0..20_000 {
            if stream.write_all(&frame(9, 0, 1, &literal)).await.is_err() {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(SOON, flood).await.unwrap(), "320 MB of headers were accepted");
    assert_eq!(target.ask(MALLORY, "GET", "/livez", "").await.code, 200);
}

/// CVE-2019-9512, CVE-2019-9515, CVE-2019-9518: frames that ask for an answer, or for nothing at all, by a client that does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames_do_no_harm() {
    let target = Target::start().await;
    for (what, one) in [
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 0, 1])),
        ("DATA", frame(0, 0, 1, &[])),
    ] {
        let mut stream = target.connect(&[b"h2"]).await;
        stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
        let many = one.repeat(1000);
        let flood = async {
            for _ in 0..200 {
                if stream.write_all(&many).await.is_err() {
                    return;
                }
            }
        };
        // Either the server stops reading, or it closes the connection, or it reads it all: it must go on answering others.
        let _ = tokio::time::timeout(Duration::from_secs(3), flood).await;
        let answer = tokio::time::timeout(SOON, target.ask(MALLORY, "GET", "/livez", "")).await;
        assert_eq!(answer.unwrap_or_else(|_| panic!("{what} stops the server")).code, 200, "{what}");
    }
}

/// CVE-2019-16276: a proxy in front may read these headers otherwise, so they are no request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_headers_are_refused() {
    let target = Target::start().await;
    for header in [
        "Impersonate-User : root",
        " Impersonate-User: root",
        "Impersonate\tUser: root",
        "Impersonate-User\r: root",
        "Content-Length: 1\r\nContent-Length: 2",
        "Transfer-Encoding: chunked, identity",
    ] {
        let mut stream = target.connect(&[b"http/1.1"]).await;
        let body = "0\r\n\r\n";
        let head = format!("POST /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n{header}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        let read = tokio::time::timeout(SOON, stream.read_exact(&mut response)).await.unwrap();
        let said = String::from_utf8_lossy(&response).into_owned();
        assert!(read.is_err() || said == "HTTP/1.1 400", "{header:?}: {said}");
    }
}

/// CVE-2020-8552: what clients make up must not become a label that is kept for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_do_not_grow_with_made_up_requests() {
    let target = Target::start().await;
    let made_up = async |from: usize| {
        for at in from..from + 50 {
            for path in [format!("/apis/g{at}/v1/r{at}"), format!("/api/v1/r{at}"), format!("/p{at}")] {
                let agent = format!("agent-{at}");
                target.send(request(MALLORY, "GET", &path).header("user-agent", agent), "").await;
            }
            target.ask(MALLORY, &format!("VERB{at}"), "/api/v1/pods", "").await;
            target.ask(MALLORY, "GET", &format!("/api/v1/namespaces/n{at}/pods/p{at}/sub{at}?dryRun=x{at}"), "").await;
        }
        let metrics = target.ask(ADMIN, "GET", "/metrics", "").await.message();
        metrics.lines().filter(|line| line.starts_with("apiserver_request")).count()
    };
    let (first, second) = (made_up(0).await, made_up(50).await);
    // One series has some 25 lines.
    assert!(second <= first + 100, "{first} lines of metrics became {second}");
}

/// CVE-2022-3162: the keys of one resource begin with the name of another, and must not be listed with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_one_resource_only() {
    let target = Target::start().await;
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "secret-template"},
        "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}});
    assert_eq!(target.ask(ADMIN, "POST", &format!("{DEFAULT}/podtemplates"), template.to_string()).await.code, 201);
    target.allow("alice", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])).await;
    for path in ["/api/v1/pods", "/api/v1/namespaces/default/pods"] {
        let answer = target.ask("alice", "GET", path, "").await;
        assert!(answer.code == 200 && !answer.message().contains("secret-template"), "{path}: {}", answer.message());
    }
}
