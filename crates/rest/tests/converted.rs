//! Versions that objects are not stored in: what reads show, how much is converted ahead of what is sent, and failures.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use object::{Meta, Value};
use registry::{Convert, Setup};
use rest::Limits;
use storage::memory::MemoryStore;
use support::{MAPS, Server, Watch, ask_for, first_chunk, map, setup};

/// The requested version has `data.shown` where the stored one has `data.stored`.
#[derive(Default)]
struct Renamed {
    /// How often an object was converted to the requested version.
    shown: AtomicUsize,
    /// Whether objects that have `data.broken` cannot be shown.
    fails: AtomicBool,
}

fn rename(mut object: Value, from: &str, to: &str) -> Value {
    if let Some(value) = object.remove(&["data", from]) {
        object.set(&["data", to], value);
    }
    object
}

impl Convert for Renamed {
    fn to_storage(&self, object: Value) -> Result<Value, String> {
        Ok(rename(object, "shown", "stored"))
    }

    fn from_storage(&self, object: Value) -> Result<Value, String> {
        self.shown.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) && !object.at(&["data", "broken"]).is_null() {
            return Err("broken".into());
        }
        Ok(rename(object, "stored", "shown"))
    }
}

/// Config maps that are converted, and the conversion.
async fn server() -> (Server, Arc<Renamed>) {
    let conversion = Arc::new(Renamed::default());
    let convert: Arc<dyn Convert> = conversion.clone();
    let setup = Setup {
        conversions: [(("", "v1", "configmaps"), convert)].into_iter().collect(),
        ..setup(Arc::new(MemoryStore::new()))
    };
    (Server::built(setup, Vec::new(), &[], Limits::default()).await, conversion)
}

async fn create(server: &Server, name: &str, key: &str, bytes: usize) -> String {
    let mut object = map(Value::map());
    object.set_meta_str("name", name);
    object.set(&["data", key], "x".repeat(bytes));
    let (code, made) = server.ask("POST", MAPS, object).await;
    assert_eq!(code, 201, "{made:?}");
    made.resource_version().to_string()
}

/// Twenty objects of 16 KiB, which take several chunks.
const LARGE: usize = 16 * 1024;
const COUNT: usize = 20;

async fn filled() -> (Server, Arc<Renamed>) {
    let (server, conversion) = server().await;
    for at in 0..COUNT {
        create(&server, &format!("m{at:02}"), "shown", LARGE).await;
    }
    conversion.shown.store(0, Ordering::SeqCst);
    (server, conversion)
}

#[tokio::test]
async fn every_form_of_a_list_shows_the_requested_version() {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    for (query, accept, is_shown) in [
        ("", "", true),
        ("?pretty=true", "", true),
        ("", "application/yaml", true),
        ("", "application/vnd.kubernetes.protobuf", true),
        ("?includeObject=Object", table, true),
        ("", table, false),
        ("", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false),
    ] {
        let (server, _) = filled().await;
        let (code, _, body) = ask_for(&server.0, "GET", &format!("{MAPS}{query}"), Value::Null, accept).await;
        assert_eq!(code, 200, "{accept}");
        let count = |word: &[u8]| body.windows(word.len()).filter(|window| *window == word).count();
        assert_eq!(count(b"stored"), 0, "{query} {accept}");
        // Managed fields name the field, too, except in a table that leaves the objects out.
        assert!(!is_shown || count(b"shown") >= COUNT, "{query} {accept}");
        assert_eq!(count(&[b'x'; 64]) > 0, is_shown, "{query} {accept}");
    }
}

#[tokio::test]
async fn lists_are_the_objects_that_get_shows() {
    let (server, conversion) = filled().await;
    let (code, list) = server.ask("GET", MAPS, Value::Null).await;
    assert_eq!((code, list.list_at(&["items"]).len()), (200, COUNT));
    assert_eq!(conversion.shown.load(Ordering::SeqCst), COUNT);
    for item in list.list_at(&["items"]) {
        let (_, mut object) = server.ask("GET", &format!("{MAPS}/{}", item.name()), Value::Null).await;
        object.remove(&["apiVersion"]);
        object.remove(&["kind"]);
        assert_eq!((&object, object.str_at(&["data", "shown"]).len()), (item, LARGE));
    }
    server.ask("GET", MAPS, Value::Null).await;
    assert_eq!(conversion.shown.load(Ordering::SeqCst), COUNT, "what was converted once is shared");
}

#[tokio::test]
async fn a_chunk_is_converted_when_it_is_sent() {
    let (server, conversion) = filled().await;
    let (code, chunk) = first_chunk(&server, MAPS).await;
    let converted = conversion.shown.load(Ordering::SeqCst);
    assert_eq!(code, 200);
    assert!(converted >= chunk.len() / (2 * LARGE) && converted <= COUNT / 2, "{converted} for {}", chunk.len());
}

#[tokio::test]
async fn objects_that_cannot_be_converted_fail_the_list() {
    // The name of the broken object, and what becomes of a list: refused if it is in the first chunk, else cut.
    for (broken, code) in [("a", 500), ("z", 200)] {
        let (server, conversion) = filled().await;
        create(&server, broken, "broken", 1).await;
        conversion.fails.store(true, Ordering::SeqCst);
        let (got, _, body) = ask_for(&server.0, "GET", MAPS, Value::Null, "").await;
        assert_eq!(got, code, "{broken}");
        let is_whole = codec::json::decode(&body, None, &mut codec::Notes::ignore()).is_ok();
        assert_eq!(is_whole, got != 200, "a list that is cut is no JSON");
        assert_eq!(server.ask("GET", &format!("{MAPS}/{broken}"), Value::Null).await.0, 500);
        assert_eq!(server.ask("GET", &format!("{MAPS}/m00"), Value::Null).await.0, 200);
    }
}

#[tokio::test]
async fn watches_show_the_requested_version() {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let of_row = |table: &Value| table.list_at(&["rows"])[0].field("object").clone();
    for (query, accept) in [("", ""), ("&includeObject=Object", table)] {
        let (server, conversion) = server().await;
        let begin = create(&server, "a", "shown", 1).await;
        let url = format!("{MAPS}?watch=true&resourceVersion={begin}{query}");
        let mut watches = Vec::new();
        for _ in 0..3 {
            watches.push(Watch::open(&server, &url, accept).await.map_err(|refused| refused.1).unwrap());
        }
        create(&server, "b", "shown", 1).await;
        server.ask("DELETE", &format!("{MAPS}/b"), Value::Null).await;
        create(&server, "c", "broken", 1).await;
        conversion.shown.store(0, Ordering::SeqCst);
        conversion.fails.store(true, Ordering::SeqCst);
        for watch in &mut watches {
            for want in ["ADDED", "DELETED"] {
                let (kind, object) = watch.next().await.unwrap();
                let object = if accept.is_empty() { object } else { of_row(&object) };
                assert_eq!((kind.as_str(), object.name(), object.str_at(&["data", "shown"])), (want, "b", "x"));
            }
            let (kind, status) = watch.next().await.unwrap();
            assert_eq!((kind.as_str(), status.str_at(&["message"])), ("ERROR", "Internal error occurred: broken"));
            assert_eq!(watch.next().await, None, "a failure ends the watch");
        }
        let converted = conversion.shown.load(Ordering::SeqCst);
        // Tables are made for each watch; other events are converted once for all, a failure each time.
        assert_eq!(converted, if accept.is_empty() { 2 + 3 } else { 3 * 3 });
    }
}
