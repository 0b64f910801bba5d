//! Other API servers behind this one, and clients that try to reach them as another user.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hostile::{ADMIN, MALLORY, Target, request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::peer::Peer;

const SOON: Duration = Duration::from_secs(30);
pub const GROUP: &str = "things.example.com";
pub const THINGS: &str = "/apis/things.example.com/v1/things";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub const RESOURCES: &str = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"things.example.com/v1","resources":
    [{"name":"things","singularName":"thing","namespaced":false,"kind":"Thing","verbs":["get","list","watch"]}]}"#;

/// How a backend behaves.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Answers `/apis`, which tells everything it serves at once.
    discovery: Answer,
    /// Answers `/openapi/…`.
    openapi: Answer,
    /// Answers everything below its group-version.
    things: Answer,
    /// What it says that it serves.
    resources: &'static str,
}

#[derive(Clone, Copy)]
enum Answer {
    /// A head without its last empty line, and a body.
    Says(&'static str, &'static str),
    /// A body without end.
    Floods(&'static str),
    /// Headers without end.
    Heads,
    /// Nothing, for ever.
    Hangs,
    /// The connection is closed in the middle of a body.
    Breaks,
    /// One chunk, and nothing more for ever.
    Streams,
}

const NOT_FOUND: Answer = Answer::Says("HTTP/1.1 404 Not Found", "");
const PLAIN: Behaviour = Behaviour {
    discovery: NOT_FOUND,
    openapi: NOT_FOUND,
    things: Answer::Says("HTTP/1.1 200 OK", "{}"),
    resources: RESOURCES,
};

/// A server behind an APIService, and every request that it got.
struct Backend {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Backend {
    /// Starts a backend and registers it; returns when it is available.
    async fn start(target: &Target, behaviour: Behaviour) -> Backend {
        let seen = Arc::new(Mutex::new(Vec::new()));
        register(target, listen(behaviour, seen.clone()).await).await;
        Backend { seen }
    }

    /// The requests for a path that it got so far.
    fn requests(&self, path: &str) -> Vec<String> {
        let wanted = |head: &&String| head.split(' ').nth(1).is_some_and(|asked| asked.starts_with(path));
        self.seen.lock().unwrap().iter().filter(wanted).cloned().collect()
    }
}

/// Makes what listens on a port the backend for [`GROUP`]; returns when it is available.
pub async fn register(target: &Target, port: u16) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "things"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
    target.ask(ADMIN, "POST", "/api/v1/namespaces/default/services", service.to_string()).await;
    let name = format!("v1.{GROUP}");
    let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
            "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "things", "port": port}}});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let answer = target.ask(ADMIN, "POST", path, registered.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    until(async || {
        let stored = target.ask(ADMIN, "GET", &format!("{path}/{name}"), "").await.json();
        stored["status"]["conditions"][0]["status"] == "True"
    })
    .await;
}

async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap();
}

async fn listen(behaviour: Behaviour, seen: Arc<Mutex<Vec<String>>>) -> u16 {
    let Peer { listener, acceptor, port, .. } = Peer::bind("things").await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, behaviour, &seen).await;
                }
            });
        }
    });
    port
}

/// Answers one request.
async fn serve(mut stream: TlsStream<TcpStream>, behaviour: Behaviour, seen: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => head.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap().to_string();
    seen.lock().unwrap().push(head);
    let answer = match path.as_str() {
        "/apis" => behaviour.discovery,
        "/apis/things.example.com/v1" => {
            Answer::Says("HTTP/1.1 200 OK\r\ncontent-type: application/json", behaviour.resources)
        }
        path if path.starts_with("/openapi/") => behaviour.openapi,
        _ => behaviour.things,
    };
    // A client that has gone away is what some of the tests are about.
    let _ = answer.send(&mut stream).await;
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        seen.lock().unwrap().push(format!("later {}", String::from_utf8_lossy(&buffer[..read])));
    }
}

impl Answer {
    async fn send(self, stream: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
        match self {
            Answer::Says(head, body) => {
                let length = body.len();
                let text = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await?;
                stream.flush().await
            }
            Answer::Floods(head) => {
                stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n[").as_bytes()).await?;
                let piece = "\"flood\",".repeat(8192);
                loop {
                    stream.write_all(piece.as_bytes()).await?;
                }
            }
            Answer::Heads => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                let header = format!("x-flood: {}\r\n", "y".repeat(8000));
                for _ in 0..12_500 {
                    stream.write_all(header.as_bytes()).await?;
                }
                stream.write_all(b"content-length: 2\r\n\r\n{}").await
            }
            Answer::Hangs => std::future::pending().await,
            Answer::Breaks => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"items\":").await?;
                stream.shutdown().await
            }
            Answer::Streams => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nfirst\n\r\n").await?;
                stream.flush().await?;
                std::future::pending().await
            }
        }
    }
}

/// Identity headers of clients never reach backends; those of the server do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_hear_from_the_server_who_the_user_is() {
    let target = Target::start().await;
    let backend = Backend::start(&target, PLAIN).await;
    target.allow(MALLORY, json!([{"apiGroups": [GROUP], "resources": ["things"], "verbs": ["list"]}])).await;
    let mut asked = request(MALLORY, "GET", &format!("{THINGS}?limit=5&a=%2F"));
    for name in ["X-Remote-User", "x_remote_user", "X-Remote-Uid", "X-Remote-Extra-Scopes"] {
        asked = asked.header(name, "root");
    }
    asked = asked.header("X-Remote-Group", "system:masters").header("X-Remote-Group", "root");
    let answer = target.send(asked, "").await;
    assert_eq!(answer.code, 200, "{}", answer.message());
    let heard = backend.requests(THINGS).pop().unwrap().to_lowercase();
    assert!(heard.starts_with("get /apis/things.example.com/v1/things?a=%2f&limit=5 http/1.1"), "{heard}");
    let expected = [
        "x-remote-user: mallory\r",
        "x-remote-uid: mallory-uid\r",
        "x-remote-group: devs\r",
        "x-forwarded-for: 127.0.0.1\r",
    ];
    for expected in expected {
        assert!(heard.contains(expected), "{expected} is missing in {heard}");
    }
    for refused in ["root", "masters", "authorization", "bearer", "x_remote"] {
        assert!(!heard.contains(refused), "{refused} is in {heard}");
    }
    // A client cannot have them removed as headers of its own connection either.
    for upgrade in ["", ", Upgrade\r\nupgrade: other"] {
        let mut stream = target.connect(&[b"http/1.1"]).await;
        let head = format!(
            "GET {THINGS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {MALLORY}\r\nx-remote-group: root\r\nimpersonate_user: root\r\n\
             connection: x-remote-user, X-Remote-Group, x-remote-uid, x-forwarded-for{upgrade}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        tokio::time::timeout(SOON, stream.read_exact(&mut response)).await.unwrap().unwrap();
        let heard = backend.requests(THINGS).pop().unwrap().to_lowercase();
        for expected in expected {
            assert!(heard.contains(expected), "{upgrade:?}: {expected} is missing in {heard}");
        }
        assert!(!heard.contains("root"), "{heard}");
    }
    // Who may not list things does not get that far.
    assert_eq!(target.ask("alice", "GET", THINGS, "").await.code, 403);
    assert_eq!(backend.requests(THINGS).len(), 3);
}

/// CVE-2018-1002105: a backend that refuses an upgrade gets no further bytes of the client.
/// CVE-2022-3172: a backend's redirect is not passed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_gets_no_tunnel_and_redirects_nobody() {
    let cases = [
        ("HTTP/1.1 403 Forbidden", 403, 403),
        ("HTTP/1.1 200 OK", 200, 503),
        ("HTTP/1.1 302 Found\r\nlocation: https://stolen.example.com/", 502, 503),
        ("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other", 503, 101),
    ];
    for (head, plain_code, upgrade_code) in cases {
        let target = Target::start().await;
        let backend = Backend::start(&target, Behaviour { things: Answer::Says(head, ""), ..PLAIN }).await;
        let answer = target.ask(ADMIN, "GET", THINGS, "").await;
        assert_eq!(answer.code, plain_code, "{head}: {}", answer.message());
        assert!(!answer.headers.contains_key("location"), "{head}");
        let (mut stream, response) = ask_for_upgrade(&target).await;
        assert_eq!(response, format!("HTTP/1.1 {upgrade_code}"), "{head}");
        let _ = stream.write_all(b"GET /stolen HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut rest)).await;
        until(async || backend.requests(THINGS).len() == 2).await;
        let tunnelled = backend.seen.lock().unwrap().iter().any(|seen| seen.contains("/stolen"));
        assert!(!tunnelled || upgrade_code == 101, "{head}");
    }
}

/// A hundred megabytes of headers are not read to their end, neither from a backend nor for an upgrade.
/// A page of another server has the origin of this one's console, unless the browser is told otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_backends_get_an_origin_of_their_own() {
    let target = Target::start().await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nservice-worker-allowed: /\r\nclear-site-data: \"*\"\r\n\
                set-cookie: a=b\r\nset-cookie: __Host-ferrokube-console=planted; Path=/\r\ncontent-security-policy: img-src *";
    Backend::start(&target, Behaviour { things: Answer::Says(head, "<script></script>"), ..PLAIN }).await;
    let values = |answer: &hostile::Answer, name: &str| -> Vec<String> {
        answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_string()).collect()
    };
    for (name, value, is_contained) in [
        ("accept", "application/json", false),
        ("accept", "text/html,*/*", true),
        ("sec-fetch-dest", "serviceworker", true),
        ("cookie", "__Host-ferrokube-console=x", true),
    ] {
        let answer = target.send(request(ADMIN, "GET", THINGS).header(name, value), "").await;
        assert_eq!(answer.code, 200, "{name}: {value}");
        let policies = values(&answer, "content-security-policy");
        assert_eq!(policies.len(), if is_contained { 2 } else { 1 }, "{name}: {value}: {policies:?}");
        assert!(!policies.iter().any(|policy| policy.contains("allow-same-origin")));
        let cookies = values(&answer, "set-cookie").len();
        let powers = values(&answer, "service-worker-allowed").len() + values(&answer, "clear-site-data").len();
        assert_eq!((cookies, powers), if is_contained { (1, 0) } else { (2, 2) }, "{name}: {value}");
    }
    // The server's own answers are as they were.
    let own = target
        .send(request(ADMIN, "GET", "/api/v1/namespaces").header("accept", "text/html,application/json"), "")
        .await;
    assert!(!own.headers.contains_key("content-security-policy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_of_backends_have_an_end() {
    let target = Target::start().await;
    let _backend = Backend::start(&target, Behaviour { things: Answer::Heads, ..PLAIN }).await;
    let answer = tokio::time::timeout(SOON, target.ask(ADMIN, "GET", THINGS, "")).await.unwrap();
    assert!(answer.code == 503 && answer.message().contains("error trying to reach service"), "{}", answer.message());
    assert_eq!(ask_for_upgrade(&target).await.1, "HTTP/1.1 503");
}

/// Asks the backend for an upgrade. The connection, and the answer up to its code.
async fn ask_for_upgrade(target: &Target) -> (tokio_rustls::client::TlsStream<TcpStream>, String) {
    let mut stream = target.connect(&[b"http/1.1"]).await;
    let upgrade = format!(
        "GET {THINGS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\nconnection: Upgrade\r\nupgrade: other\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    let mut response = [0; 12];
    tokio::time::timeout(SOON, stream.read_exact(&mut response)).await.unwrap().unwrap();
    (stream, String::from_utf8_lossy(&response).into_owned())
}

/// A watch is passed on piece by piece, and ends at the backend when the client goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_passed_on_as_it_comes() {
    let target = Target::start().await;
    let _backend = Backend::start(&target, Behaviour { things: Answer::Streams, ..PLAIN }).await;
    let mut stream = target.connect(&[b"http/1.1"]).await;
    let watch = format!("GET {THINGS}?watch=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\r\n");
    stream.write_all(watch.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("first\n") {
        let read = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(read > 0, "the watch ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

/// Backends that flood, hang, break off or send garbage when they are asked what they serve do not affect other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_backends_tell_is_not_believed_blindly() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let nested: &'static str = Box::leak("[".repeat(200_000).into_boxed_str());
    let wrong_types = r#"{"items":[{"metadata":{"name":7},"versions":[{"version":[],"resources":{"a":1}}]}]}"#;
    let answers = [
        Answer::Floods(json),
        Answer::Heads,
        Answer::Hangs,
        Answer::Breaks,
        Answer::Says(json, "no json"),
        Answer::Says(json, nested),
        Answer::Says(json, wrong_types),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let target = Target::start().await;
        let backend = Backend::start(&target, Behaviour { discovery: answer, openapi: answer, ..PLAIN }).await;
        until(async || !backend.requests("/openapi/v2").is_empty()).await;
        let all = target.send(request(ADMIN, "GET", "/apis").header("accept", AGGREGATED), "").await;
        assert_eq!(all.code, 200, "{number}");
        let all = all.json();
        let group = |name: &str| -> Option<Value> {
            let groups = all["items"].as_array().unwrap();
            groups.iter().find(|group| group["metadata"]["name"] == name).cloned()
        };
        assert!(group("apps").is_some() && group("batch").is_some(), "{number}");
        assert_eq!(group(GROUP).unwrap()["versions"][0]["version"], "v1", "{number}");
        // Writing the OpenAPI documents takes a while, so they are asked for only once.
        let documents: &[&str] = if number == 0 { &["/openapi/v2", "/openapi/v3"] } else { &[] };
        for path in ["/apis/apps/v1", THINGS].iter().chain(documents) {
            let answer = tokio::time::timeout(SOON, target.ask(ADMIN, "GET", path, "")).await.unwrap();
            assert_eq!(answer.code, 200, "{number} {path}: {}", answer.message());
        }
    }
}

/// kubernetes#83332: objects of a backend that does not answer, or is gone, keep their namespace but nothing else in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_backend_does_not_keep_what_others_have_in_a_namespace() {
    let verbs = r#"["list","delete","deletecollection"]"#;
    let resource = |at: usize| format!(r#"{{"name":"r{at}","namespaced":true,"kind":"R{at}","verbs":{verbs}}}"#);
    let many = (0..20).map(resource).collect::<Vec<_>>().join(",");
    let many =
        format!(r#"{{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"{GROUP}/v1","resources":[{many}]}}"#);
    let resources: &'static str = Box::leak(many.into_boxed_str());
    let target = Target::start_with(|builder| builder.configure(|config| config.standalone = true)).await;
    let _backend = Backend::start(&target, Behaviour { things: Answer::Hangs, resources, ..PLAIN }).await;
    let all = async || target.send(request(ADMIN, "GET", "/apis").header("accept", AGGREGATED), "").await.message();
    until(async || all().await.contains("\"r19\"")).await;
    let names = ["one", "two", "three"];
    for name in names {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        assert_eq!(target.ask(ADMIN, "POST", "/api/v1/namespaces", namespace.to_string()).await.code, 201);
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        assert_eq!(target.ask(ADMIN, "POST", &maps, map.to_string()).await.code, 201);
    }
    for name in names {
        assert_eq!(target.ask(ADMIN, "DELETE", &format!("/api/v1/namespaces/{name}"), "").await.code, 200);
    }
    for name in names {
        // Two hundred seconds would pass here if every resource were waited for.
        let map = format!("/api/v1/namespaces/{name}/configmaps/m");
        until(async || target.ask(ADMIN, "GET", &map, "").await.code == 404).await;
        let namespace = target.ask(ADMIN, "GET", &format!("/api/v1/namespaces/{name}"), "").await;
        assert_eq!(namespace.json()["status"]["phase"], "Terminating", "{}", namespace.message());
    }
}
