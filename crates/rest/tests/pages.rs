//! Lists in pages: what a continue token stands for, while objects are written and history is compacted between the pages.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::{Meta, Value, value};
use rest::Limits;
use storage::Store;
use storage::memory::MemoryStore;
use support::{MAPS, Server, map};

async fn create(server: &Server, name: &str, label: &str) {
    let mut object = map(Value::map());
    object.set_meta_str("name", name);
    object.set(&["metadata", "labels"], value!({"k": label}));
    assert_eq!(server.ask("POST", MAPS, object).await.0, 201);
}

/// `a` to `e`, of which `b` and `d` have the label `k=w`.
async fn filled() -> (Server, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let server = Server::on(store.clone(), Vec::new(), &[], Limits::default()).await;
    for (name, label) in [("a", "v"), ("b", "w"), ("c", "v"), ("d", "w"), ("e", "v")] {
        create(&server, name, label).await;
    }
    (server, store)
}

/// A page: the names, the continue token, the revision, and how many objects remain.
async fn page(server: &Server, query: &str) -> (String, String, String, Option<i64>) {
    let (code, list) = server.ask("GET", &format!("{MAPS}?{query}"), Value::Null).await;
    assert_eq!(code, 200, "{query}: {list:?}");
    let names: Vec<&str> = list.list_at(&["items"]).iter().map(|item| item.name()).collect();
    let metadata = list.field("metadata");
    let remaining = metadata.field("remainingItemCount").as_int();
    (
        names.join(" "),
        metadata.str_at(&["continue"]).to_string(),
        metadata.str_at(&["resourceVersion"]).to_string(),
        remaining,
    )
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    // The query, and the names and the remaining count of each page.
    let cases: [(&str, &[(&str, Option<i64>)]); 5] = [
        ("limit=2", &[("a b", Some(3)), ("c d", Some(1)), ("e", None)]),
        ("limit=5", &[("a b c d e", None)]),
        ("limit=3", &[("a b c", Some(2)), ("d e", None)]),
        // How many are left is not known where something is filtered out.
        ("limit=2&labelSelector=k=v", &[("a c", None), ("e", None)]),
        ("limit=1&fieldSelector=metadata.name!=c", &[("a", None), ("b", None), ("d", None), ("e", None)]),
    ];
    for (query, pages) in cases {
        let (server, _) = filled().await;
        let (mut token, mut revision) = (String::new(), String::new());
        for (at, (want, remaining)) in pages.iter().enumerate() {
            let query = if token.is_empty() { query.to_string() } else { format!("{query}&continue={token}") };
            let (names, next, of, left) = page(&server, &query).await;
            assert_eq!((names.as_str(), left), (*want, *remaining), "{query}");
            assert_eq!(next.is_empty(), at + 1 == pages.len(), "{query}");
            assert!(at == 0 || of == revision, "{query}: every page has the first one's revision");
            (token, revision) = (next, of);
            // What is written between the pages is not seen.
            let name = format!("c{at}");
            create(&server, &name, "v").await;
            server.ask("DELETE", &format!("{MAPS}/e"), Value::Null).await;
        }
    }
}

#[tokio::test]
async fn a_token_outlives_its_revision_as_a_token_for_the_present() {
    let (server, store) = filled().await;
    let (_, token, _, _) = page(&server, "limit=2").await;
    create(&server, "c1", "v").await;
    // The cache still has the past, but it is over for all servers of the store at the same time.
    store.compact(store.progress().await.unwrap()).await.unwrap();
    let (code, status) = server.ask("GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((code, status.str_at(&["reason"])), (410, "Expired"), "{status:?}");
    let token = status.str_at(&["metadata", "continue"]);
    let (names, next, _, _) = page(&server, &format!("limit=2&continue={token}")).await;
    assert_eq!(names, "c c1", "it goes on where it was, with what is there now");
    let (names, next, _, _) = page(&server, &format!("limit=2&continue={next}")).await;
    assert_eq!((names.as_str(), next.as_str()), ("d e", ""));
    // Without a token there is nothing to go on with.
    let (code, status) =
        server.ask("GET", &format!("{MAPS}?resourceVersion=1&resourceVersionMatch=Exact"), Value::Null).await;
    assert_eq!((code, status.str_at(&["metadata", "continue"])), (410, ""), "{status:?}");
}

#[tokio::test]
async fn tokens_that_the_server_did_not_make_are_refused() {
    let (server, _) = filled().await;
    let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
    for (token, code, message) in [
        (token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"c"}"#), 200, ""),
        (token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"zz"}"#), 200, ""),
        (
            token(r#"{"v":"meta.k8s.io/v2","rv":-1,"start":"c"}"#),
            400,
            "server does not recognize this encoded version meta.k8s.io/v2",
        ),
        (
            token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":""}"#),
            400,
            "encoded start key empty (version meta.k8s.io/v1)",
        ),
        (
            token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"c"}"#),
            400,
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"../other/c"}"#), 400, "../other/c"),
        // As kube-apiserver writes it, and with a part that no key has.
        (token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/c"}"#), 200, ""),
        (token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"//c"}"#), 400, "//c"),
        (token("{"), 400, "unexpected end of JSON input"),
        ("!".into(), 400, "illegal base64 data at input byte 0"),
    ] {
        let (got, answer) = server.ask("GET", &format!("{MAPS}?continue={token}"), Value::Null).await;
        let want = if code == 200 {
            String::new()
        } else {
            format!("invalid continue token: continue key is not valid: {message}")
        };
        assert_eq!((got, answer.str_at(&["message"])), (code, want.as_str()), "{token}");
    }
}
