//! Servers, and clients that connect to them over TLS as the administrator.

#[allow(dead_code)] // Not every test program has webhooks.
pub mod hooks;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Config, OwnServiceConfig, Running, StoreConfig};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use object::Value;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

/// A server with a data directory of its own, in this process or in another one.
pub struct Node {
    address: SocketAddr,
    directory: TempDir,
    running: How,
}

enum How {
    /// Stopped.
    #[allow(dead_code)]
    Over,
    Here(#[allow(dead_code)] Running),
    #[allow(dead_code)]
    Elsewhere(Child),
}

impl Node {
    /// In this process; on etcd if there are endpoints, else on a store of its own.
    #[allow(dead_code)]
    pub async fn start(etcd: &[String], service_range: &str) -> Node {
        Node::start_with(etcd, service_range, |_| {}).await
    }

    /// The same with other settings.
    #[allow(dead_code)]
    pub async fn start_with(etcd: &[String], service_range: &str, change: impl FnOnce(&mut Config)) -> Node {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path(), etcd, service_range);
        change(&mut config);
        let running = apiserver::start(config).await.unwrap();
        Node { address: running.address, directory, running: How::Here(running) }
    }

    /// Stops a server of this process in order, and starts another one on its data.
    #[allow(dead_code)]
    pub async fn start_again(mut self, service_range: &str) -> Node {
        if let How::Here(running) = std::mem::replace(&mut self.running, How::Over) {
            running.stop(Duration::ZERO).await;
        }
        let running = apiserver::start(config(self.directory.path(), &[], service_range)).await.unwrap();
        (self.address, self.running) = (running.address, How::Here(running));
        self
    }

    /// A process of its own, which can be killed.
    #[allow(dead_code)]
    pub fn spawn(service_range: &str) -> Node {
        let directory = tempfile::tempdir().unwrap();
        let (child, address) = launch(directory.path(), service_range);
        Node { address, directory, running: How::Elsewhere(child) }
    }

    /// The same with other flags, and its log.
    #[allow(dead_code)]
    pub fn spawn_with_log(service_range: &str, flags: &[&str]) -> (Node, BufReader<ChildStderr>) {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, address) = launch_with(directory.path(), service_range, flags, Stdio::piped());
        let log = BufReader::new(child.stderr.take().unwrap());
        (Node { address, directory, running: How::Elsewhere(child) }, log)
    }

    /// Ends the process without a word, and starts another one on its data.
    #[allow(dead_code)]
    pub fn kill_and_start_again(&mut self, service_range: &str) {
        if let How::Elsewhere(child) = &mut self.running {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (child, address) = launch(self.directory.path(), service_range);
        (self.running, self.address) = (How::Elsewhere(child), address);
    }

    /// Stops a server of this process in order.
    #[allow(dead_code)]
    pub async fn stop(mut self) {
        if let How::Here(running) = std::mem::replace(&mut self.running, How::Over) {
            running.stop(Duration::ZERO).await;
        }
    }

    /// Where it serves.
    #[allow(dead_code)]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Where its data and certificates are.
    #[allow(dead_code)]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client with the administrator's certificate.
    #[allow(dead_code)]
    pub async fn client(&self) -> Client {
        self.connect(true).await
    }

    /// A client that must say who it is by a token.
    #[allow(dead_code)]
    pub async fn stranger(&self) -> Client {
        self.connect(false).await
    }

    async fn connect(&self, as_admin: bool) -> Client {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(tls(&self.directory.path().join("pki"), as_admin)));
        let stream = connector.connect(ServerName::from(self.address.ip()), stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client { sender, accept: String::new() }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let How::Elsewhere(child) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[allow(dead_code)]
fn config(data_dir: &Path, etcd: &[String], service_range: &str) -> Config {
    Config {
        data_dir: data_dir.to_path_buf(),
        port: 0,
        disable_admission_plugins: vec!["ServiceAccount".into()],
        own_service: OwnServiceConfig { cluster_ip_range: service_range.into(), ..OwnServiceConfig::default() },
        standalone: false,
        store: StoreConfig { etcd_servers: etcd.to_vec(), ..StoreConfig::default() },
        ..Config::default()
    }
}

/// Starts a process and waits until it says where it serves.
#[allow(dead_code)]
fn launch(data_dir: &Path, service_range: &str) -> (Child, SocketAddr) {
    launch_with(data_dir, service_range, &[], Stdio::null())
}

#[allow(dead_code)]
fn launch_with(data_dir: &Path, service_range: &str, flags: &[&str], log: Stdio) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferrokube"))
        .arg("--data-dir")
        .arg(data_dir)
        .args(["--secure-port=0", "--standalone=false", "--disable-admission-plugins=ServiceAccount"])
        .arg(format!("--service-cluster-ip-range={service_range}"))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find_map(|line| {
        let address = line.split("https://").nth(1)?.split_whitespace().next()?.to_string();
        address.trim_end_matches(['/', ',']).parse().ok()
    });
    (child, ready.expect("the server says where it serves"))
}

fn tls(pki: &Path, as_admin: bool) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.join("ca.crt")).unwrap()).unwrap();
    let chain = CertificateDer::pem_file_iter(pki.join("admin.crt")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(pki.join("admin.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    if as_admin { builder.with_client_auth_cert(chain, key).unwrap() } else { builder.with_no_client_auth() }
}

/// One connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// The Accept header, "" for none.
    accept: String,
}

impl Client {
    pub async fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask_as("", method, path, body).await
    }

    /// With a bearer token, if it is not "".
    #[allow(dead_code)]
    pub async fn ask_as(&mut self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.ask_for_headers(token, method, path, body).await;
        (status, answer)
    }

    /// The same with the answer's headers.
    #[allow(dead_code)]
    pub async fn ask_for_headers(
        &mut self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, http::HeaderMap, Value) {
        let (status, headers, bytes) = self.send(token, method, path, body).await;
        // What is no JSON is a text.
        let decoded = codec::json::decode(&bytes, None, &mut codec::Notes::ignore());
        let text = |_| Value::from(String::from_utf8_lossy(&bytes).as_ref());
        (status, headers, decoded.unwrap_or_else(text))
    }

    /// A document of the kind that an Accept header asks for.
    #[allow(dead_code)]
    pub async fn ask_for(&mut self, path: &str, accept: &str) -> (u16, Value) {
        self.accept = accept.into();
        let answer = self.ask("GET", path, &Value::Null).await;
        self.accept.clear();
        answer
    }

    /// What a path answers that is not JSON.
    #[allow(dead_code)]
    pub async fn text(&mut self, path: &str) -> String {
        String::from_utf8(self.send("", "GET", path, &Value::Null).await.2.to_vec()).unwrap()
    }

    async fn send(&mut self, token: &str, method: &str, path: &str, body: &Value) -> (u16, http::HeaderMap, Bytes) {
        let mut text = Vec::new();
        if !body.is_null() {
            codec::json::encode(body, None, &mut text);
        }
        let mut request = http::Request::builder().method(method);
        if !token.is_empty() {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if !self.accept.is_empty() {
            request = request.header(http::header::ACCEPT, &self.accept);
        }
        let request = request
            .uri(path)
            .header(http::header::HOST, "localhost")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(text)))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, response.into_body().collect().await.unwrap().to_bytes())
    }
}

/// The answer of a request that succeeds.
#[allow(dead_code)] // Not every test program expects nothing but success.
pub async fn ask(client: &mut Client, method: &str, path: &str, body: &Value) -> Value {
    let (code, answer) = client.ask(method, path, body).await;
    assert!(code < 300, "{method} {path}: {answer:?}");
    answer
}
