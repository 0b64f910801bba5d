//! What the hostile tests share: a real server, a few users, and an HTTP client that sends whatever it is given.
//!
//! The tests are one binary, `tests/hostile`, with a module for each kind of attack.

// Test code that is compiled as a library: a failed assumption is a failed test.
#![allow(clippy::panic)]

mod polls;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use difftest::Client;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::{Builder, Server};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A member of `system:masters`.
pub const ADMIN: &str = "admin";
/// A user without any role, in the group `devs`.
pub const MALLORY: &str = "mallory";
/// Users without roles until [`Target::allow`] gives them some. A user's token is the user's name.
const OTHERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// The server under attack, gone when it is dropped. The test fails then if a request kept a worker thread for too long.
pub struct Target {
    pub server: Server,
    pub client: Client,
    _polls: polls::Checked,
    _folder: TempDir,
}

/// What the server answered.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The message of a Status, or the whole body if it is not one.
    pub fn message(&self) -> String {
        match self.json()["message"].as_str() {
            Some(message) => message.to_string(),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        }
    }
}

impl Target {
    /// A server without controllers, so that nothing happens that the test does not do.
    pub async fn start() -> Target {
        Target::start_with(|builder| builder).await
    }

    pub async fn start_with(change: impl FnOnce(Builder) -> Builder) -> Target {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let tokens = folder.path().join("tokens.csv");
        let mut lines = format!("{ADMIN},{ADMIN},admin-uid,system:masters\n{MALLORY},{MALLORY},mallory-uid,devs\n");
        for user in OTHERS {
            writeln!(lines, "{user},{user},{user}-uid").expect("text can be written to a string");
        }
        std::fs::write(&tokens, lines).expect("the folder is ours");
        let polls = Arc::new(polls::Polls::default());
        let meter = polls.clone();
        let builder = Server::builder().on_disk().bare().configure(|config| {
            config.token_auth_file = Some(tokens);
            config.console = true;
            config.serving.connections.poll_meter = Some(meter);
        });
        let server = change(builder).start().await.expect("the server starts");
        let client = Client::new(server.running().address, ADMIN).expect("TLS can be set up");
        Target { server, client, _polls: polls::Checked(polls), _folder: folder }
    }

    /// A server that writes the metadata of every request to an audit log. The log is in the folder, which is the caller's.
    pub async fn audited(folder: &Path) -> (Target, PathBuf) {
        let (policy, log) = (folder.join("policy.yaml"), folder.join("audit.log"));
        std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
            .expect("the folder is ours");
        let (policy_file, log_path) = (Some(policy), Some(log.clone()));
        let target = Target::start_with(|builder| {
            builder.configure(|config| {
                (config.audit.policy_file, config.audit.log_path) = (policy_file, log_path);
            })
        });
        (target.await, log)
    }

    pub fn address(&self) -> SocketAddr {
        self.server.running().address
    }

    /// Sends a request on a connection of its own.
    pub async fn send(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Answer {
        let request = request.body(Full::new(body.into())).expect("the request can be sent");
        let shown = format!("{} {}", request.method(), request.uri());
        let response = self.client.send(request).await.unwrap_or_else(|why| panic!("{shown} is answered: {why}"));
        let (parts, body) = response.into_parts();
        Answer { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// Sends a JSON request as a user.
    pub async fn ask(&self, user: &str, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(request(user, method, path), body).await
    }

    /// Gives a user these RBAC rules in all namespaces. A later call replaces them.
    pub async fn allow(&self, user: &str, rules: Value) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let name = format!("test-{user}");
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let answer = self.ask(ADMIN, "PUT", &format!("{rbac}/{resource}/{name}"), object.to_string()).await;
            assert!(matches!(answer.code, 200 | 201), "{resource}: {}", answer.message());
        }
    }

    /// A connection for many requests.
    pub async fn session(&self) -> Session {
        let stream = TokioIo::new(self.connect(&[b"h2"]).await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2 is spoken");
        tokio::spawn(connection);
        Session(sender)
    }

    /// A TLS connection that speaks one of these protocols, for requests that no HTTP library would send.
    pub async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        self.client.connect(protocols).await.expect("the server accepts connections")
    }
}

/// An HTTP/2 connection that users share.
pub struct Session(http2::SendRequest<Full<Bytes>>);

impl Session {
    /// Ends when the server has asked for a new connection, or closed this one.
    pub async fn closed(&self) {
        while !self.0.is_closed() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Sends a JSON request as a user. Of a watch, only the beginning of the response is read.
    pub async fn ask(&self, user: &str, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        let mut builder = request(user, method, path);
        if method == "PATCH"
            && let Some(headers) = builder.headers_mut()
        {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
        }
        let request = builder.body(Full::new(body.into())).expect("the request can be sent");
        let response = self.0.clone().send_request(request).await;
        let (parts, body) = response.unwrap_or_else(|why| panic!("{method} {path} is answered: {why}")).into_parts();
        let is_watch = parts.status == 200 && path.contains("watch=true");
        let body = match is_watch {
            true => Bytes::new(),
            false => body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        };
        Answer { code: parts.status.as_u16(), headers: parts.headers, body }
    }
}

/// The beginning of a JSON request by a user.
pub fn request(user: &str, method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {user}"))
        .header("content-type", "application/json")
}
