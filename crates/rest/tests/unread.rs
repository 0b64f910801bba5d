//! Answers that are not read: what they keep in memory, and what is read from the store for them.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use http_body_util::BodyExt;
use object::{Meta, Value, value};
use rest::{Body, Limits};
use storage::memory::MemoryStore;
use storage::{Layer, Page, RangeQuery, Result, Store};
use support::{MAPS, Server, map, send};

const OBJECTS: usize = 24;
const OBJECT_BYTES: usize = 256 * 1024;

/// Counts the bytes of old values that are read.
struct Counting {
    below: Arc<MemoryStore>,
    read: AtomicUsize,
}

#[async_trait]
impl Layer for Counting {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        let page = self.below.range(query).await?;
        self.read.fetch_add(page.entries.iter().map(|entry| entry.value.len()).sum(), Ordering::Relaxed);
        Ok(page)
    }
}

/// Large objects, which were all written again after the revision that is returned, and a server whose cache begins after that.
async fn filled() -> (Server, Arc<Counting>, String) {
    let below = Arc::new(MemoryStore::new());
    let writer = Server::on(below.clone(), Vec::new(), &[], Limits::default()).await;
    for at in 0..OBJECTS {
        let mut object = map(value!({"old": ("x".repeat(OBJECT_BYTES))}));
        object.set_meta_str("name", &format!("m{at:02}"));
        object.set(&["metadata", "labels"], value!({"odd": ((at % 2).to_string())}));
        assert_eq!(writer.ask("POST", MAPS, object).await.0, 201);
    }
    let revision = below.progress().await.unwrap().to_string();
    for at in 0..OBJECTS {
        let url = format!("{MAPS}/m{at:02}");
        assert_eq!(writer.ask("MERGE", &url, value!({"data": {"new": "y"}})).await.0, 200);
    }
    let store = Arc::new(Counting { below, read: AtomicUsize::new(0) });
    let server = Server::on(store.clone(), Vec::new(), &[], Limits::default()).await;
    store.read.store(0, Ordering::Relaxed);
    (server, store, revision)
}

async fn get(server: &Server, query: &str, accept: &str) -> http::Response<support::ResponseBody> {
    let response = send(&server.0, "GET", &format!("{MAPS}?{query}"), Body::Empty, accept).await;
    assert_eq!(response.status().as_u16(), 200);
    response
}

#[tokio::test]
async fn old_objects_are_read_when_they_are_sent() {
    let (server, store, revision) = filled().await;
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    for accept in ["", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        store.read.store(0, Ordering::Relaxed);
        let response = get(&server, &exact, accept).await;
        let (before, held) = (store.read.load(Ordering::Relaxed), server.0.answers.bytes());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let read = store.read.load(Ordering::Relaxed);
        // The rows of a table are so small that all of them are in its first chunk.
        assert!(
            before < OBJECTS * OBJECT_BYTES / 2 || accept.contains("Table"),
            "{accept}: {before} bytes were read ahead"
        );
        assert!(held < OBJECTS * OBJECT_BYTES / 2, "{accept}: {held} bytes are held");
        assert!(read > OBJECTS * OBJECT_BYTES, "{accept}: {read} bytes were read");
        for at in 0..OBJECTS {
            let name = format!("m{at:02}");
            assert!(body.windows(name.len()).any(|part| part == name.as_bytes()), "{accept}: {name}");
        }
    }
}

#[tokio::test]
async fn old_pages_end_where_they_should() {
    let (server, _, revision) = filled().await;
    let names =
        |list: &Value| -> Vec<String> { list.list_at(&["items"]).iter().map(|item| item.name().to_string()).collect() };
    let all: Vec<String> = (0..OBJECTS).map(|at| format!("m{at:02}")).collect();
    let odd: Vec<String> = all.iter().skip(1).step_by(2).cloned().collect();
    for (selector, want, limit) in
        [("", &all, 5), ("", &all, 11), ("", &all, 24), ("odd=1", &odd, 7), ("odd=1", &odd, 12)]
    {
        let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
        let (mut found, mut query) = (Vec::new(), exact);
        loop {
            let url = format!("{MAPS}?{query}&limit={limit}&labelSelector={selector}");
            let (code, list) = server.ask("GET", &url, Value::Null).await;
            assert_eq!((code, list.field("metadata").str_at(&["resourceVersion"])), (200, revision.as_str()));
            let page = names(&list);
            assert!(
                list.list_at(&["items"]).iter().all(|item| item.at(&["data", "new"]).is_null()),
                "it is an old one"
            );
            found.extend(page);
            let token = list.str_at(&["metadata", "continue"]);
            let left = list.at(&["metadata", "remainingItemCount"]).as_int();
            let more = want.len() - found.len();
            assert_eq!(left, (more > 0 && selector.is_empty()).then_some(more as i64), "limit {limit}");
            if token.is_empty() {
                break;
            }
            query = format!("continue={token}");
        }
        assert_eq!(&found, want, "limit {limit} {selector}");
    }
}

#[tokio::test]
async fn pieces_are_small_whatever_the_form() {
    let (server, _, _) = filled().await;
    for accept in [
        "",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ] {
        for query in ["", "pretty=true", "includeObject=Object"] {
            let mut body = get(&server, query, accept).await.into_body();
            let (mut largest, mut all) = (0, 0);
            while let Some(frame) = body.frame().await {
                let chunk = frame.unwrap().into_data().unwrap();
                assert!(
                    server.0.answers.bytes() <= 2 * chunk.len() + 128 * 1024,
                    "no more than what is sent is counted"
                );
                (largest, all) = (largest.max(chunk.len()), all + chunk.len());
            }
            assert!(all > 1000 && largest < 2 * OBJECT_BYTES, "{accept} {query}: {largest} of {all} bytes");
        }
    }
    assert_eq!(server.0.answers.bytes(), 0);
}

/// Answers count until they are read or given up.
#[tokio::test]
async fn unread_answers_are_counted() {
    let (server, _, _) = filled().await;
    let mut unread = Vec::new();
    for at in 0..OBJECTS {
        unread.push(send(&server.0, "GET", &format!("{MAPS}/m{at:02}"), Body::Empty, "").await);
    }
    assert!(server.0.answers.bytes() >= OBJECTS * OBJECT_BYTES, "{}", server.0.answers.bytes());
    let last = unread.pop().unwrap();
    drop(unread);
    assert!((OBJECT_BYTES..2 * OBJECT_BYTES).contains(&server.0.answers.bytes()));
    last.into_body().collect().await.unwrap();
    assert_eq!(server.0.answers.bytes(), 0);
}
