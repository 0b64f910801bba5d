//! Request targets that no HTTP library would send, and pages that only administrators may see.

use hostile::{ADMIN, MALLORY, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends bytes over HTTP/1.1 and returns the status codes of the answers, in order.
async fn codes(target: &Target, bytes: &[u8]) -> Vec<u16> {
    let mut stream = target.connect(&[b"http/1.1"]).await;
    stream.write_all(bytes).await.unwrap();
    let mut answers = Vec::new();
    // A server that closes without a TLS goodbye has answered all the same.
    let _ = stream.read_to_end(&mut answers).await;
    let text = String::from_utf8_lossy(&answers).into_owned();
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
