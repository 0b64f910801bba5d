//! Requests that a backend would take for two, identities that fit no header, and paths that are sent otherwise than they were authorized.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hostile::{ADMIN, MALLORY, Target, request};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::aggregation::{GROUP, RESOURCES, THINGS, register};
use crate::peer::Peer;

const SOON: Duration = Duration::from_secs(30);

/// A backend that answers every request before it reads the body, as Node does, and keeps its connections.
struct Backend {
    /// Heads in small letters, and bodies.
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Backend {
    async fn start(target: &Target) -> Backend {
        let Peer { listener, acceptor, port, .. } = Peer::bind("things").await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, all) = (acceptor.clone(), all.clone());
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await?;
                    serve(BufReader::new(stream), &all).await
                });
            }
        });
        register(target, port).await;
        Backend { seen }
    }

    /// The requests for things and for whatever else is not asked by the server itself.
    fn requests(&self) -> Vec<(String, String)> {
        let is_own =
            |head: &str| ["/openapi/", "/apis ", "/apis/things.example.com/v1 "].iter().any(|path| head.contains(path));
        self.seen.lock().unwrap().iter().filter(|(head, _)| !is_own(head)).cloned().collect()
    }

    /// The target of the last request.
    fn last(&self) -> String {
        self.requests().last().map_or(String::new(), |(head, _)| head.split(' ').nth(1).unwrap_or("").to_string())
    }
}

async fn serve(mut stream: BufReader<TlsStream<TcpStream>>, all: &Mutex<Vec<(String, String)>>) -> std::io::Result<()> {
    loop {
        let head = read_until(&mut stream, b"\r\n\r\n").await?;
        let is_discovery = head.starts_with("get /apis/things.example.com/v1 ");
        let (code, body) = match () {
            () if is_discovery => ("200 OK", RESOURCES),
            () if head.contains("\r\nupgrade:") => ("403 Forbidden", "{}"),
            () if head.contains(" /openapi/") || head.contains(" /apis ") => ("404 Not Found", ""),
            () => ("200 OK", "{}"),
        };
        // What is read afterwards is noted even if it never ends.
        let at = {
            let mut all = all.lock().unwrap();
            all.push((head.clone(), String::new()));
            all.len() - 1
        };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        let body = read_body(&mut stream, &head).await?;
        all.lock().unwrap()[at].1 = body;
    }
}

async fn read_until(stream: &mut (impl AsyncReadExt + Unpin), end: &[u8]) -> std::io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&read).to_lowercase())
}

async fn read_body(stream: &mut (impl AsyncReadExt + Unpin), head: &str) -> std::io::Result<String> {
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let size = read_until(stream, b"\r\n").await?;
            let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap_or(0) + 2];
            stream.read_exact(&mut chunk).await?;
            if chunk.len() == 2 {
                return Ok(String::from_utf8_lossy(&body).into_owned());
            }
            body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    }
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or("0");
    body.resize(length.parse().unwrap_or(0), 0);
    stream.read_exact(&mut body).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// However a request asks for another protocol, its body goes with its length, and nothing of it becomes another request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_do_not_become_requests() {
    let target = Target::start().await;
    let backend = Backend::start(&target).await;
    target.allow(MALLORY, json!([{"apiGroups": [GROUP], "resources": ["things"], "verbs": ["*"]}])).await;
    let inner = "get /smuggled http/1.1\r\nhost: x\r\nx-remote-user: root\r\nx-remote-group: system:masters\r\n\r\n";
    let length = format!("content-length: {}\r\n", inner.len());
    let chunks = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    for (framing, body) in [(length.as_str(), inner), ("transfer-encoding: chunked\r\n", chunks.as_str())] {
        for upgrade in [
            "upgrade: foo\r\n",
            "upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nconnection: Upgrade, HTTP2-Settings\r\n",
            "upgrade: foo\r\nconnection: upgrade\r\n",
            "connection: upgrade\r\n",
            "upgrade: websocket\r\nconnection: content-length, transfer-encoding\r\n",
            "connection: content-length\r\n",
            "",
        ] {
            for method in ["GET", "POST", "DELETE"] {
                let shown = format!("{method} {framing}{upgrade}");
                let before = backend.requests().len();
                let mut stream = target.connect(&[b"http/1.1"]).await;
                let head = format!(
                    "{method} {THINGS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {MALLORY}\r\n{framing}{upgrade}\r\n{body}"
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                let mut code = [0; 12];
                tokio::time::timeout(SOON, stream.read_exact(&mut code)).await.unwrap().unwrap();
                for next in 0..3 {
                    let path = format!("{THINGS}/{next}");
                    let answer = tokio::time::timeout(SOON, target.ask(ADMIN, "GET", &path, "")).await;
                    assert_eq!(answer.unwrap().code, 200, "{shown}");
                    assert_eq!(backend.last(), path, "{shown}");
                }
                let seen = backend.requests();
                assert_eq!(seen.len(), before + 4, "{shown}: {:?}", &seen[before..]);
                assert!(!seen.iter().any(|(head, _)| head.starts_with("get /smuggled")), "{shown}");
                let waiting = async {
                    while backend.requests()[before].1 != inner {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                assert!(tokio::time::timeout(SOON, waiting).await.is_ok(), "{shown}: {:?}", backend.requests()[before]);
            }
        }
    }
}

/// A user or a group that fits no header would be somebody else at the backend.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_that_fit_no_header_are_not_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    let users = "admin,admin,admin-uid,system:masters\nname,\"ev\u{1}e\",1,system:masters\ngroup,eve,1,\"system:masters,a\u{7f}b\"\n\
                 uid,eve,\"\u{2}\",system:masters\nblank,\"eve \",1,system:masters\n";
    std::fs::write(&tokens, users).unwrap();
    let target = Target::start_with(|builder| builder.configure(|config| config.token_auth_file = Some(tokens))).await;
    let backend = Backend::start(&target).await;
    for (token, name) in
        [("name", "X-Remote-User"), ("group", "X-Remote-Group"), ("uid", "X-Remote-Uid"), ("blank", "X-Remote-User")]
    {
        for (upgrade, what) in [(false, "error trying to reach service"), (true, "error dialing backend")] {
            let mut asked = request(token, "GET", THINGS);
            if upgrade {
                asked = asked.header("connection", "Upgrade").header("upgrade", "foo");
            }
            let answer = target.send(asked, "").await;
            let want = format!("{what}: net/http: invalid header field value for \"{name}\"\n");
            assert_eq!((answer.code, answer.message()), (503, want), "{token}");
        }
    }
    assert_eq!(backend.requests(), []);
    assert_eq!(target.ask(ADMIN, "GET", THINGS, "").await.code, 200);
}

/// The backend gets the path that was authorized, not another one that means the same to this server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_authorized_is_sent() {
    let target = Target::start().await;
    let backend = Backend::start(&target).await;
    let rules = json!([{"apiGroups": [GROUP], "resources": ["things"], "resourceNames": ["abc"], "verbs": ["get"]}]);
    target.allow(MALLORY, rules).await;
    for (path, code, sent) in [
        ("/apis/things.example.com/v1/things/a%62c?x=%2f&a", 200, "/apis/things.example.com/v1/things/abc?a=&x=%2f"),
        ("/%61pis/things.example.com%2fv1/things/abc", 200, "/apis/things.example.com/v1/things/abc"),
        ("/apis/things.example.com/v1/things/abc/", 200, "/apis/things.example.com/v1/things/abc/"),
        ("/apis/things.example.com/v1/things/a%2562c", 403, ""),
        ("/apis/things.example.com/v1/things/abc%2f..%2fother", 403, ""),
        ("/apis/things.example.com/v1/things/%zz", 400, ""),
        ("/apis/things.example.com/v1/things/abc%", 400, ""),
        ("//apis/things.example.com/v1/things/abc", 404, ""),
    ] {
        backend.seen.lock().unwrap().clear();
        assert_eq!(target.ask(MALLORY, "GET", path, "").await.code, code, "{path}");
        assert_eq!(backend.last(), sent, "{path}");
    }
    // What must be escaped stays escaped.
    for (path, sent) in [("a%3fb%23c%20%25%0a", "a%3fb%23c%20%25%0a"), ("a%7eb%24%26", "a~b$&")] {
        let things = THINGS.to_string();
        assert_eq!(target.ask(ADMIN, "GET", &format!("{things}/{path}"), "").await.code, 200, "{path}");
        assert_eq!(backend.last(), format!("{things}/{sent}"), "{path}");
    }
}
