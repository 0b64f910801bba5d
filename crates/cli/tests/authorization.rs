//! Authorizers against a whole server: webhooks that answer, lie, hang, die and come back; the configuration file and its reload;
//! proxies on the way to a webhook.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object::{Value, value};
use support::{Client, Node};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What the webhook answers.
#[derive(Clone)]
enum Answer {
    Status(Value),
    Body(u16, &'static str),
    Hang,
}

/// A webhook at a port of its own.
struct Hook {
    port: u16,
    answer: Arc<Mutex<Answer>>,
    /// The specs it was asked about, but for those of the server's own loops.
    seen: Arc<Mutex<Vec<Value>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Hook {
    async fn start() -> Hook {
        Hook::at(0).await
    }

    async fn at(port: u16) -> Hook {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new(Answer::Status(value!({"allowed": true}))));
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (answers, log) = (answer.clone(), seen.clone());
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, log) = (answers.clone(), log.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| serve(request, answers.clone(), log.clone()));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Hook { port, answer, seen, serving }
    }

    fn says(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn take_seen(&self) -> Vec<Value> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Ends it with all its connections; answers with its port.
    async fn stop(self) -> u16 {
        self.serving.abort();
        let _ = self.serving.await;
        self.port
    }

    fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("webhook-{}.yaml", self.port));
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {{server: 'http://127.0.0.1:{}/authorize'}}\n\
             contexts:\n- name: a\n  context: {{cluster: a, user: a}}\ncurrent-context: a\nusers:\n- name: a\n  user: {{}}\n",
            self.port
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

async fn serve(
    request: http::Request<Incoming>,
    answer: Arc<Mutex<Answer>>,
    seen: Arc<Mutex<Vec<Value>>>,
) -> Result<http::Response<Full<Bytes>>, std::io::Error> {
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    let review = codec::json::decode(&bytes, None, &mut codec::Notes::ignore()).unwrap();
    seen.lock().unwrap().push(review.field("spec").clone());
    let answer = answer.lock().unwrap().clone();
    match answer {
        Answer::Hang => std::future::pending().await,
        Answer::Body(code, body) => {
            let response = http::Response::builder().status(code).header("content-type", "text/plain");
            Ok(response.body(Full::new(Bytes::from(body))).unwrap())
        }
        Answer::Status(status) => {
            let mut answered = review;
            answered.set(&["status"], status);
            let mut json = Vec::new();
            codec::json::encode(&answered, None, &mut json);
            Ok(http::Response::new(Full::new(Bytes::from(json))))
        }
    }
}

/// A file with one webhook before RBAC, whose answers are not remembered unless `more` says so.
fn configuration(kubeconfig: &Path, policy: &str, more: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook.example
  webhook:
    timeout: 500ms
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: {policy}
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}
    {more}
- {{type: RBAC, name: rbac}}
",
        kubeconfig.display()
    )
}

const NOT_REMEMBERED: &str = "{cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false}";

/// The fields of [`NOT_REMEMBERED`] and others, in a webhook.
fn with(more: &str) -> String {
    let fields = NOT_REMEMBERED.trim_matches(['{', '}']).replace(", ", "\n    ");
    format!("{fields}\n    matchConditions:\n    - expression: request.user == 'alice'\n    {more}")
}

async fn server(folder: &Path, file: &Path) -> Node {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, "secret,alice,1,devs\nother,bob,2\n").unwrap();
    Node::start_with(&[], "10.0.0.0/24", |config| {
        config.token_auth_file = Some(tokens);
        config.authorization.file = Some(file.to_path_buf());
    })
    .await
}

async fn list(client: &mut Client, token: &str) -> (u16, String) {
    let (code, answer) = client.ask_as(token, "GET", PODS, &Value::Null).await;
    let message = answer.as_str().unwrap_or_else(|| answer.str_at(&["message"])).to_string();
    (code, message)
}

#[tokio::test]
async fn a_webhook_decides() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start().await;
    let file = folder.path().join("authorization.yaml");
    std::fs::write(&file, configuration(&hook.kubeconfig(folder.path()), "Deny", &with(""))).unwrap();
    let node = server(folder.path(), &file).await;
    let mut client = node.stranger().await;
    assert_eq!(list(&mut client, "secret").await.0, 200);
    let selected = format!("{PODS}?labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn");
    assert_eq!(client.ask_as("secret", "GET", &selected, &Value::Null).await.0, 200);
    let asked = hook.take_seen();
    let attributes = value!({"namespace": "default", "verb": "list", "version": "v1", "resource": "pods"});
    assert_eq!(*asked[0].field("resourceAttributes"), attributes);
    assert_eq!((asked[0].str_at(&["user"]), asked[0].str_at(&["uid"])), ("alice", "1"));
    let requirement = value!([{"key": "a", "operator": "In", "values": ["b"]}]);
    assert_eq!(*asked[1].at(&["resourceAttributes", "labelSelector", "requirements"]), requirement);
    // The condition does not hold for bob: the webhook is not asked, and RBAC refuses.
    assert_eq!(list(&mut client, "other").await.0, 403);
    assert_eq!(hook.take_seen().len(), 0);
    let refused = "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    hook.says(Answer::Status(value!({"allowed": false, "reason": "not today"})));
    assert_eq!(list(&mut client, "secret").await, (403, format!("{refused}: hook.example: not today")));
    hook.says(Answer::Status(value!({"denied": true, "reason": "never"})));
    assert_eq!(list(&mut client, "secret").await, (403, format!("{refused}: never")));
    // A review says the same as a request gets.
    let review = value!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "alice", "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"}}
    });
    let mut admin = node.client().await;
    let (code, answer) = admin.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await;
    assert_eq!(code, 201);
    assert_eq!(*answer.field("status"), value!({"allowed": false, "denied": true, "reason": "never"}));
}

#[tokio::test]
async fn a_webhook_that_fails_allows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start().await;
    let file = folder.path().join("authorization.yaml");
    std::fs::write(&file, configuration(&hook.kubeconfig(folder.path()), "Deny", &with(""))).unwrap();
    let node = server(folder.path(), &file).await;
    let mut client = node.stranger().await;
    for (answer, want) in [
        (Answer::Hang, "context deadline exceeded"),
        (Answer::Body(200, "<html>"), "couldn&#39;t get version/kind"),
        (Answer::Body(200, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}"), "the webhook answered with a Pod of v1"),
        (Answer::Body(403, "no"), "no"),
        (Answer::Body(302, "elsewhere"), ""),
        (Answer::Status(value!({"allowed": true, "denied": true})), "both allow and deny"),
        (Answer::Status(value!({"allowed": "yes"})), "type bool"),
    ] {
        hook.says(answer);
        let (code, message) = list(&mut client, "secret").await;
        assert_eq!(code, 500, "{message}");
        assert!(message.starts_with(&format!("Internal Server Error: \"{PODS}\": ")), "{message}");
        assert!(message.contains(&want.replace("&#39;", "'")), "{message}");
    }
    // Gone, and back at the same port.
    let kubeconfig = hook.kubeconfig(folder.path());
    let port = hook.stop().await;
    let (code, message) = list(&mut client, "secret").await;
    assert_eq!((code, message.contains("connection refused")), (500, true), "{message}");
    let hook = Hook::at(port).await;
    assert_eq!(list(&mut client, "secret").await.0, 200);
    // With the policy NoOpinion the next authorizer decides; the error is still an error.
    hook.says(Answer::Body(403, "no"));
    std::fs::write(&file, configuration(&kubeconfig, "NoOpinion", &with(""))).unwrap();
    reloaded(&node, "success").await;
    assert_eq!(list(&mut client, "secret").await.0, 500);
    let mut admin = node.client().await;
    let metrics = admin.ask("GET", "/metrics", &Value::Null).await.1;
    let failed_open =
        "apiserver_authorization_webhook_evaluations_fail_open_total{name=\"hook.example\",result=\"error\"} 1";
    assert!(metrics.as_str().unwrap().contains(failed_open));
}

/// Waits until the file was reloaded once with this result.
async fn reloaded(node: &Node, result: &str) {
    let mut admin = node.client().await;
    let name = "apiserver_authorization_config_controller_automatic_reloads_total{";
    let status = format!("status=\"{result}\"");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let metrics = admin.ask("GET", "/metrics", &Value::Null).await.1;
        if metrics.as_str().unwrap().lines().any(|line| line.starts_with(name) && line.contains(&status)) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "no reload with {result}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn answers_are_remembered_and_files_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start().await;
    let kubeconfig = hook.kubeconfig(folder.path());
    let file = folder.path().join("authorization.yaml");
    std::fs::write(&file, configuration(&kubeconfig, "Deny", "authorizedTTL: 5m")).unwrap();
    let node = server(folder.path(), &file).await;
    let mut client = node.stranger().await;
    hook.take_seen();
    for _ in 0..3 {
        assert_eq!(list(&mut client, "secret").await.0, 200);
    }
    assert_eq!(hook.take_seen().len(), 1);
    // A file that cannot be used changes nothing.
    std::fs::write(&file, "kind: AuthorizationConfiguration\n").unwrap();
    reloaded(&node, "failure").await;
    assert_eq!(list(&mut client, "secret").await.0, 200);
    assert_eq!(hook.take_seen().len(), 0);
    // Without the webhook nothing allows alice. RBAC must stay.
    let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\n";
    std::fs::write(&file, format!("{head}authorizers: [{{type: RBAC, name: rbac}}]\n")).unwrap();
    reloaded(&node, "success").await;
    assert_eq!(list(&mut client, "secret").await.0, 403);
}

/// An HTTP CONNECT proxy: it counts, and connects everywhere to one port.
async fn proxy(to: u16, count: Arc<Mutex<usize>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *count.lock().unwrap() += 1;
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.unwrap_or(0) > 2 {
                    line.clear();
                }
                let mut backend = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut backend).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn webhooks_are_reached_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start().await;
    let count: Arc<Mutex<usize>> = Arc::default();
    let port = proxy(hook.port, count.clone()).await;
    let egress = folder.path().join("egress.yaml");
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: controlplane\n  \
         connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://127.0.0.1:{port}'}}}}}}\n"
    );
    std::fs::write(&egress, text).unwrap();
    let kubeconfig = hook.kubeconfig(folder.path());
    // A name that only the proxy can resolve.
    let text = std::fs::read_to_string(&kubeconfig).unwrap().replace("127.0.0.1", "webhook.invalid");
    std::fs::write(&kubeconfig, text).unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,alice,1\n").unwrap();
    let node = Node::start_with(&[], "10.0.0.0/24", |config| {
        config.token_auth_file = Some(tokens);
        config.egress_file = Some(egress);
        config.authorization.modes = vec!["Webhook".into()];
        config.authorization.webhook_file = Some(kubeconfig);
    })
    .await;
    let mut client = node.stranger().await;
    assert_eq!(list(&mut client, "secret").await.0, 200);
    assert!(*count.lock().unwrap() >= 1);
}
