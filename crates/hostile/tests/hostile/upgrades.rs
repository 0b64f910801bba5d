//! Wishes for another protocol: those that change nothing, those that are refused, and connections that are held without a request.

use std::time::Duration;

use hostile::{ADMIN, Target, request};
use serde_json::json;
use testing::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SOON: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A request that would like another protocol is carried out with its body wherever there is none to switch to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wishes_for_an_upgrade_do_not_change_what_a_request_says() {
    let target = Target::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let wishes: [&[(&str, &str)]; 4] = [
        &[("upgrade", "h2c")],
        &[("upgrade", "h2c"), ("connection", "Upgrade, HTTP2-Settings"), ("http2-settings", "AAMAAABkAAQAAP__")],
        &[
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "AAAA"),
        ],
        &[("upgrade", "SPDY/3.1"), ("connection", "upgrade")],
    ];
    for wish in wishes {
        let ask = async |method: &str, path: &str, kind: &str, body: String| {
            let mut asked = request(ADMIN, method, path);
            if let Some(headers) = asked.headers_mut() {
                headers.insert("content-type", kind.parse().unwrap());
            }
            for (name, value) in wish {
                asked = asked.header(*name, *value);
            }
            target.send(asked, body).await
        };
        let json_type = "application/json";
        let m = format!("{MAPS}/m");
        assert_eq!(ask("POST", MAPS, json_type, map.to_string()).await.code, 201, "{wish:?}");
        let mut changed = map.clone();
        changed["data"] = json!({"a": "1"});
        assert_eq!(ask("PUT", &m, json_type, changed.to_string()).await.json()["data"]["a"], "1", "{wish:?}");
        let patch = json!({"data": {"b": "2"}}).to_string();
        assert_eq!(ask("PATCH", &m, "application/merge-patch+json", patch).await.json()["data"]["b"], "2", "{wish:?}");
        for (options, code) in [
            (json!({"dryRun": ["All"]}), 200),
            (json!({"preconditions": {"uid": "another"}}), 409),
            (json!({"preconditions": {"resourceVersion": "1"}}), 409),
            (json!({"kind": 7}), 400),
        ] {
            for path in [m.as_str(), MAPS] {
                // A collection's objects that are not as the preconditions say make its deletion fail in the same way.
                if path == m || code == 200 {
                    assert_eq!(
                        ask("DELETE", path, json_type, options.to_string()).await.code,
                        code,
                        "{wish:?} {options}"
                    );
                }
                assert_eq!(target.ask(ADMIN, "GET", &m, "").await.code, 200, "{wish:?} {path} {options}");
            }
        }
        assert_eq!(ask("DELETE", &m, json_type, String::new()).await.code, 200, "{wish:?}");
    }
}

/// The beginning of HTTP/2 and its first frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// HTTP/2 is spoken where TLS agreed on it, and nowhere with `--disable-http2-serving`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_needs_to_be_agreed_on() {
    for disabled in [false, true] {
        let target = Target::start_with(|builder: Builder| {
            builder.configure(|config| config.serving.protocols.http1_only = disabled)
        })
        .await;
        let offers: [&[&[u8]]; 3] = [&[], &[b"http/1.1"], &[b"h2", b"http/1.1"]];
        for offered in offers {
            let mut stream = target.connect(offered).await;
            let is_agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            assert_eq!(is_agreed, !disabled && offered.len() == 2);
            stream.write_all(PREFACE).await.unwrap();
            let mut answer = Vec::new();
            if is_agreed {
                let mut settings = [0; 9];
                tokio::time::timeout(SOON, stream.read_exact(&mut settings)).await.unwrap().unwrap();
                answer.extend(settings);
            } else {
                // Whether the TLS connection ends with a goodbye does not matter.
                let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await;
                assert!(ended.is_ok(), "{disabled} {offered:?}: {answer:?}");
            }
            let speaks = answer.get(3) == Some(&4);
            assert_eq!(speaks, is_agreed, "{disabled} {offered:?}: {answer:?}");
        }
        let mut stream = target.connect(&[b"http/1.1"]).await;
        let upgrade = format!(
            "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\nconnection: Upgrade, HTTP2-Settings\r\n\
             upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let mut code = [0; 12];
        tokio::time::timeout(SOON, stream.read_exact(&mut code)).await.unwrap().unwrap();
        assert_eq!(&code, b"HTTP/1.1 200");
    }
}

const TICK: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(3600);

async fn start(headers: Duration, idle: Duration) -> Target {
    Target::start_with(|builder: Builder| {
        builder.configure(|config| config.serving.connections.timeouts = server::Timeouts { headers, idle })
    })
    .await
}

type Stream = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

async fn ask(stream: &mut Stream) {
    let get = format!("GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\r\n");
    stream.write_all(get.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let byte = tokio::time::timeout(SOON, stream.read_u8()).await.unwrap();
        answer.push(byte.unwrap());
    }
}

/// Returns when the server has closed the connection.
async fn closed(stream: &mut Stream) {
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap();
}

/// The time for headers does not count while a connection waits for its next request; that for idle connections does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_request_end() {
    let target = start(TICK, LONG).await;
    let mut idle = target.connect(&[b"http/1.1"]).await;
    ask(&mut idle).await;
    for beginning in [&b""[..], b"G", b"GET /version HTTP/1.1\r\nhost: x\r\n"] {
        let mut slow = target.connect(&[b"http/1.1"]).await;
        slow.write_all(beginning).await.unwrap();
        closed(&mut slow).await;
        // More time has passed on the other connection, which has begun nothing.
        ask(&mut idle).await;
        if !beginning.is_empty() {
            let mut slow = target.connect(&[b"http/1.1"]).await;
            ask(&mut slow).await;
            slow.write_all(beginning).await.unwrap();
            closed(&mut slow).await;
            ask(&mut idle).await;
        }
    }
    let target = start(LONG, TICK).await;
    let mut idle = target.connect(&[b"http/1.1"]).await;
    ask(&mut idle).await;
    closed(&mut idle).await;
}
