//! Request targets that no HTTP library would send, and pages that only administrators may see.

use hostile::{ADMIN, MALLORY, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends bytes over HTTP/1.1 and returns what comes back.
async fn exchange(target: &Target, bytes: &[u8]) -> String {
    let mut stream = target.connect(&[b"http/1.1"]).await;
    stream.write_all(bytes).await.unwrap();
    let mut answers = Vec::new();
    // A server that closes without a TLS goodbye has answered all the same.
    let _ = stream.read_to_end(&mut answers).await;
    String::from_utf8_lossy(&answers).into_owned()
}

/// The status codes of the answers, in order.
async fn codes(target: &Target, bytes: &[u8]) -> Vec<u16> {
    let text = exchange(target, bytes).await;
    let lines = text.match_indices("HTTP/1.1 ").map(|(at, _)| &text[at + 9..]);
    lines.filter_map(|line| line.get(..3)?.parse().ok()).collect()
}

fn get(user: &str, target: &[u8], last: bool) -> Vec<u8> {
    let end = if last { "connection: close\r\n\r\n" } else { "\r\n" };
    let head = format!(" HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {user}\r\n{end}");
    [b"GET ".as_slice(), target, head.as_bytes()].concat()
}

/// Raw bytes mean what their escapes mean, for authorization too, and control characters are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_bytes_are_authorized_like_escaped_ones() {
    let target = Target::start().await;
    for (path, admin, mallory) in [
        (&b"/api/v1/namespaces?labelSelector=n>2"[..], 200, 403),
        (b"/api/v1/namespaces/<x>", 404, 403),
        (b"/api/v1/namespaces/x#y", 404, 403),
        (b"/api/v1/namespaces/default/secrets/\xff\xfe", 404, 403),
        (b"/version?\"`<>\xff", 200, 200),
        (b"/healthz#", 404, 403),
        (b"/api/v1/namespaces/\x01", 400, 400),
        (b"/api/v1/namespaces/\x7f", 400, 400),
    ] {
        let shown = String::from_utf8_lossy(path).into_owned();
        assert_eq!(codes(&target, &get(ADMIN, path, true)).await, [admin], "{shown}");
        assert_eq!(codes(&target, &get(MALLORY, path, true)).await, [mallory], "{shown}");
    }
}

/// Over HTTP/2 a header can be one byte that stands for an earlier one, so they are counted there too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_counted() {
    let target = Target::start().await;
    let answer = target.send(with_headers(900), "").await;
    assert_eq!(answer.code, 200);
    let answer = target.send(with_headers(1100), "").await;
    assert_eq!(answer.code, 431);
    let end = format!("{}connection: close\r\n\r\n", "a:\r\n".repeat(1100));
    let head = format!("GET /version HTTP/1.1\r\nhost: x\r\n{end}");
    assert_eq!(codes(&target, head.as_bytes()).await, [431]);
}

fn with_headers(count: usize) -> http::request::Builder {
    (0..count).fold(hostile::request(ADMIN, "GET", "/version"), |builder, _| builder.header("a", ""))
}

/// What looks like a request inside a body is part of the body; what follows the body is a request with the rights of its own sender.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_not_mistaken_for_requests() {
    let target = Target::start().await;
    let inner = get(ADMIN, b"/api/v1/secrets?a<b", false);
    let post = |headers: &str, body: &[u8]| {
        let head = format!(
            "POST /api/v1/namespaces?dryRun=All&x=< HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {MALLORY}\r\n{headers}\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    let length = format!("content-length: {}\r\n", inner.len());
    let chunk = [format!("{:x}\r\n", inner.len()).as_bytes(), inner.as_slice(), b"\r\n0\r\n\r\n"].concat();
    let last = get(MALLORY, b"/api/v1/secrets", true);
    for (what, bytes) in [
        ("a length", [post(&length, &inner), last.clone()].concat()),
        ("chunks", [post("transfer-encoding: chunked\r\n", &chunk), last.clone()].concat()),
    ] {
        let codes = codes(&target, &bytes).await;
        assert!(codes.iter().all(|code| *code == 403) && !codes.is_empty(), "{what}: {codes:?}");
    }
    // Two lengths, or a length and chunks, are refused or end the connection: never two meanings.
    for headers in ["content-length: 0\r\ncontent-length: 5\r\n", "content-length: 0\r\ntransfer-encoding: chunked\r\n"]
    {
        let codes = codes(&target, &[post(headers, &inner), last.clone()].concat()).await;
        assert!(!codes.contains(&200), "{headers}: {codes:?}");
    }
}

/// Everything that is asked about a path, and what answers it, sees the same decoded text. What upstream has no page for is 404.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_means_one_thing() {
    let target = Target::start().await;
    let others = ["/%6detrics", "/metrics/", "//metrics", "/metrics%2f", "/x/../metrics"];
    let rules = serde_json::json!([{"nonResourceURLs": others, "verbs": ["get"]}]);
    target.allow("alice", rules).await;
    target.allow("bob", serde_json::json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])).await;
    // The codes for the administrator, for one who may ask for other spellings, and for one who may ask for the page itself.
    for (path, codes_of) in [
        ("/metrics", [200, 403, 200]),
        ("/%6detrics", [200, 403, 200]),
        ("/metric%73?x=%zz", [200, 403, 200]),
        ("http://elsewhere.example.com/%6detrics", [200, 403, 200]),
        ("/metrics/", [404, 404, 403]),
        ("//metrics", [404, 404, 403]),
        ("/metrics//", [404, 403, 403]),
        ("/metrics%2f", [404, 404, 403]),
        ("/metrics%00", [404, 403, 403]),
        ("/metrics%ff", [404, 403, 403]),
        ("/metrics%20", [404, 403, 403]),
        ("/%2fmetrics", [404, 404, 403]),
        ("/x/../metrics", [404, 404, 403]),
        ("/%2e%2e/metrics", [404, 403, 403]),
        ("/%256detrics", [404, 404, 403]),
        ("/METRICS", [404, 403, 403]),
        ("*", [404, 403, 403]),
        ("/%", [400, 400, 400]),
        ("/%zz", [400, 400, 400]),
        ("/metrics%4", [400, 400, 400]),
        ("http://elsewhere.example.com/%zz", [400, 400, 400]),
    ] {
        for (user, code) in [ADMIN, "alice", "bob"].into_iter().zip(codes_of) {
            assert_eq!(codes(&target, &get(user, path.as_bytes(), true)).await, [code], "{user} {path}");
        }
    }
    for (path, code) in [
        ("/", 200),
        ("/index.html", 200),
        ("//", 404),
        ("/healthz/", 404),
        ("/livez/ping", 200),
        ("/livez/ping/", 404),
        ("/version", 200),
        ("/version/", 200),
        ("/%76ersion//", 200),
        ("/api/", 200),
        ("/apis/", 200),
        ("/apis//", 404),
        ("/apis/apps//", 200),
        ("//apis", 404),
        ("/openapi/v2/", 404),
        ("/openapi/v3//apis/apps/v1", 404),
        ("/debug/api_priority_and_fairness/dump_queues", 200),
        ("/debug/api_priority_and_fairness/dump_queues/", 404),
        ("/%64ebug/api_priority_and_fairness/dump_queues", 200),
        ("/debug/pprof//cmdline", 404),
        ("/%61pi%2fv1/namespaces", 200),
        ("/api/v1/namespaces/", 200),
        ("//api/v1/namespaces", 404),
        ("/apis//v1/namespaces", 404),
    ] {
        assert_eq!(codes(&target, &get(ADMIN, path.as_bytes(), true)).await, [code], "{path}");
        let forbidden = codes(&target, &get("nobody", path.as_bytes(), true)).await;
        assert_eq!(forbidden, [401], "{path}");
    }
    // Methods that no verb stands for are not those of another verb.
    target.allow("carol", serde_json::json!([{"nonResourceURLs": ["*"], "verbs": ["options"]}])).await;
    for (method, code) in [("OPTIONS", 200), ("PROPFIND", 403), ("TRACE", 403)] {
        let head = format!(
            "{method} /metrics HTTP/1.1\r\nhost: x\r\nauthorization: Bearer carol\r\nconnection: close\r\n\r\n"
        );
        assert_eq!(codes(&target, head.as_bytes()).await, [code], "{method}");
    }
    assert_eq!(codes(&target, b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await, [200]);
}

/// Profiles, log files and the log's verbosity are for administrators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debugging_pages_need_permission() {
    let target = Target::start_with(|builder| builder.configure(|config| config.debugging.logs = true)).await;
    let pages =
        ["", "/", "/cmdline", "/profile?seconds=600", "/symbol", "/threadcreate", "/heap", "/goroutine", "/trace"];
    let pprof = pages.map(|page| format!("/debug/pprof{page}"));
    let dumps = ["dump_priority_levels", "dump_queues", "dump_requests"];
    let dumps = dumps.map(|page| format!("/debug/api_priority_and_fairness/{page}"));
    let others =
        ["/debug/flags", "/debug/flags/v", "/logs/", "/logs/..%2f..%2fetc/passwd", "/metrics", "/metrics/slis"];
    let zpages = ["/statusz", "/flagz", "/debug/", "/configz"];
    let paths = others.into_iter().chain(zpages).map(str::to_string);
    for path in pprof.into_iter().chain(dumps).chain(paths) {
        let path = path.as_str();
        for (user, method) in [(MALLORY, "GET"), (MALLORY, "PUT"), ("nobody", "GET")] {
            let code = target.ask(user, method, path, "9").await.code;
            assert!(matches!(code, 401 | 403), "{user} {method} {path}: {code}");
        }
        if path.contains("seconds") {
            continue;
        }
        let answer = target.ask(ADMIN, "GET", path, "").await;
        assert!(!answer.message().contains("root:"), "{path}");
    }
    assert_eq!(codes(&target, &get(ADMIN, b"/logs/../../etc/passwd", true)).await, [400]);
}

/// An anonymous client gets one answer over an HTTP/2 connection; one that has authenticated keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_clients_do_not_keep_connections() {
    let target = Target::start().await;
    for (user, keeps) in [(ADMIN, true), ("nobody", false)] {
        let session = target.session().await;
        assert_eq!(session.ask(user, "GET", "/api", "").await.code, if keeps { 200 } else { 401 });
        let closed = tokio::time::timeout(std::time::Duration::from_secs(if keeps { 1 } else { 30 }), session.closed());
        assert_eq!(closed.await.is_err(), keeps, "{user}");
    }
}

/// No `Host`, two of them or one that is none is refused before anybody is asked who sends it, and the connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_are_checked_first() {
    let target = Target::start().await;
    for (headers, want) in [
        ("Host: x\r\n", "HTTP/1.1 200 OK"),
        ("", "HTTP/1.1 400 Bad Request: missing required Host header"),
        ("Host: x\r\nHost: x\r\n", "HTTP/1.1 400 Bad Request"),
        ("Host: x\r\nhost: y\r\n", "HTTP/1.1 400 Bad Request"),
        ("Host: x/y\r\n", "HTTP/1.1 400 Bad Request: malformed Host header"),
        ("Host: x y\r\n", "HTTP/1.1 400 Bad Request: malformed Host header"),
        ("Host: root@x\r\n", "HTTP/1.1 400 Bad Request: malformed Host header"),
    ] {
        // The second request is only answered where the first was good.
        let first = format!("GET /livez HTTP/1.1\r\n{headers}Authorization: Bearer {ADMIN}\r\n\r\n");
        let second =
            format!("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {ADMIN}\r\n\r\n");
        let answer = exchange(&target, format!("{first}{second}").as_bytes()).await;
        let status = answer.lines().next().unwrap_or("");
        assert_eq!(status.trim_end(), want, "{headers:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), if want.contains("200") { 2 } else { 1 }, "{headers:?}");
    }
}
