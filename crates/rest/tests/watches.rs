//! Watches: which events a selector sees, where a watch begins and ends, and the forms that events are sent in.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;
use std::time::Duration;

use object::{GroupVersionResource, Meta, Value, value};
use rest::Limits;
use support::{MAPS, Server, Watch, map, widgets};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

fn named(name: &str) -> Value {
    let mut object = map(value!({"a": "1"}));
    object.set_meta_str("name", name);
    object
}

async fn create(server: &Server, name: &str) -> String {
    let (code, made) = server.ask("POST", MAPS, named(name)).await;
    assert_eq!(code, 201, "{made:?}");
    made.resource_version().to_string()
}

async fn watch(server: &Server, query: &str) -> Watch {
    Watch::open(server, &format!("{MAPS}?watch=true{query}"), "").await.map_err(|refused| refused.1).unwrap()
}

/// What is done to the object `a`.
async fn change(server: &Server, step: &str) {
    let url = format!("{MAPS}/a");
    let (method, body) = match step {
        "create" => return drop(create(server, "a").await),
        "label" => ("MERGE", value!({"metadata": {"labels": {"k": "v"}}})),
        "relabel" => ("MERGE", value!({"metadata": {"labels": {"k": "w"}}})),
        "unlabel" => ("MERGE", value!({"metadata": {"labels": null}})),
        "change" => ("JSON", value!([{"op": "add", "path": "/data/b", "value": "2"}])),
        "same" => ("MERGE", value!({"metadata": {"annotations": null}})),
        "hold" => ("MERGE", value!({"metadata": {"finalizers": ["example.com/a"]}})),
        "let go" => ("MERGE", value!({"metadata": {"finalizers": null}})),
        _ => ("DELETE", Value::Null),
    };
    let (code, answer) = server.ask(method, &url, body).await;
    assert_eq!(code, 200, "{step}: {answer:?}");
}

#[tokio::test]
async fn selectors_decide_what_an_event_is() {
    let label = "&labelSelector=k=v";
    let cases: [(&str, &[&str], &[&str]); 9] = [
        ("", &["create", "label", "same", "change", "delete"], &["ADDED", "MODIFIED", "MODIFIED", "DELETED"]),
        (label, &["create", "label", "change", "delete"], &["ADDED", "MODIFIED", "DELETED"]),
        (label, &["create", "label", "unlabel", "change", "delete"], &["ADDED", "DELETED"]),
        (label, &["create", "label", "relabel", "label", "delete"], &["ADDED", "DELETED", "ADDED", "DELETED"]),
        ("&labelSelector=k!=v", &["create", "label", "unlabel", "delete"], &["ADDED", "DELETED", "ADDED", "DELETED"]),
        ("&labelSelector=!k", &["create", "label", "change", "delete"], &["ADDED", "DELETED"]),
        ("&fieldSelector=metadata.name=a", &["create", "change", "delete"], &["ADDED", "MODIFIED", "DELETED"]),
        ("&fieldSelector=metadata.name=b", &["create", "change", "delete"], &[]),
        ("", &["create", "hold", "delete", "delete", "let go"], &["ADDED", "MODIFIED", "MODIFIED", "DELETED"]),
    ];
    for (query, steps, want) in cases {
        let server = Server::new(Vec::new()).await;
        let begin = create(&server, "first").await;
        let mut watch = watch(&server, &format!("{query}&resourceVersion={begin}")).await;
        for step in steps {
            change(&server, step).await;
        }
        // An event that every one of these watches sees, behind all others.
        let mut last = named("b");
        last.set(&["metadata", "labels"], value!({"k": (if query.contains("!=") { "w" } else { "v" })}));
        if query.contains("!k") {
            last.metadata_mut().remove("labels");
        }
        assert_eq!(server.ask("POST", MAPS, last).await.0, 201);
        let mut seen = Vec::new();
        let mut versions = Vec::new();
        while !query.contains("name=a") || seen.len() < want.len() {
            let (kind, object) = watch.next().await.unwrap();
            versions.push(object.resource_version().parse::<u64>().unwrap());
            if object.name() == "b" {
                break;
            }
            seen.push(kind);
        }
        assert_eq!(seen, want, "{query} {steps:?}");
        assert!(versions.is_sorted_by(|a, b| a < b), "a deletion has a revision of its own: {versions:?}");
    }
}

#[tokio::test]
async fn watches_begin_where_they_are_asked_to() {
    let server = Server::new(Vec::new()).await;
    let first = create(&server, "x").await;
    let second = create(&server, "y").await;
    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (query, want) in [
        (String::new(), vec!["ADDED x", "ADDED y", "ADDED z"]),
        ("&resourceVersion=0".into(), vec!["ADDED x", "ADDED y", "ADDED z"]),
        (format!("&resourceVersion={first}"), vec!["ADDED y", "ADDED z"]),
        (format!("&resourceVersion={second}"), vec!["ADDED z"]),
        (initial.into(), vec!["ADDED x", "ADDED y", "BOOKMARK ", "ADDED z"]),
        (format!("{initial}&labelSelector=none"), vec!["BOOKMARK "]),
        (
            format!("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={first}"),
            vec!["ADDED y"],
        ),
    ] {
        let mut watch = watch(&server, &query).await;
        let early = want.iter().filter(|event| !event.ends_with('z')).count();
        let mut seen = watch.names(early).await;
        if early < want.len() {
            create(&server, "z").await;
            seen.extend(watch.names(1).await);
            assert_eq!(server.ask("DELETE", &format!("{MAPS}/z"), Value::Null).await.0, 200);
        }
        assert_eq!(seen, want, "{query}");
    }
    // The bookmark says that the initial events are over, and where a later watch can go on.
    let mut watch = watch(&server, &format!("{initial}&labelSelector=none")).await;
    let (_, bookmark) = watch.next().await.unwrap();
    assert_eq!(bookmark.str_at(&["metadata", "annotations", "k8s.io/initial-events-end"]), "true");
    assert!(bookmark.resource_version().parse::<u64>().unwrap() >= second.parse::<u64>().unwrap());
}

#[tokio::test]
async fn watches_are_refused_with_the_reason() {
    let server = Server::new(Vec::new()).await;
    for (query, code, message) in [
        ("&sendInitialEvents=true", 422, "resourceVersionMatch"),
        ("&sendInitialEvents=true&resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
        ("&resourceVersionMatch=NotOlderThan", 422, "resourceVersionMatch is forbidden for watch"),
        ("&labelSelector=k==", 200, ""),
        ("&labelSelector=k in", 400, "unable to parse requirement"),
        ("&fieldSelector=data.a=1", 400, "data.a"),
    ] {
        let url = format!("{MAPS}?watch=true{query}");
        let (got, status) = match Watch::open(&server, &url, "").await {
            Ok(_) => (200, Value::Null),
            Err(refused) => refused,
        };
        assert_eq!(got, code, "{query}: {status:?}");
        assert!(status.str_at(&["message"]).contains(message), "{query}: {status:?}");
    }
}

#[tokio::test]
async fn events_are_sent_in_the_form_that_is_accepted() {
    let server = Server::new(Vec::new()).await;
    let begin = create(&server, "x").await;
    let url = format!("{MAPS}?watch=true&resourceVersion={begin}");
    let mut whole = Watch::open(&server, &url, "").await.map_err(|refused| refused.1).unwrap();
    let mut partial = Watch::open(&server, &url, METADATA).await.map_err(|refused| refused.1).unwrap();
    let mut table = Watch::open(&server, &url, TABLE).await.map_err(|refused| refused.1).unwrap();
    for (name, has_columns) in [("y", true), ("z", false)] {
        create(&server, name).await;
        let (_, object) = whole.next().await.unwrap();
        assert_eq!((object.kind(), object.name(), object.str_at(&["data", "a"])), ("ConfigMap", name, "1"));
        let (_, object) = partial.next().await.unwrap();
        assert_eq!((object.kind(), object.name()), ("PartialObjectMetadata", name));
        assert!(object.field("data").is_null());
        let (_, shown) = table.next().await.unwrap();
        assert_eq!((shown.kind(), shown.list_at(&["rows"]).len()), ("Table", 1));
        assert_eq!(!shown.list_at(&["columnDefinitions"]).is_empty(), has_columns, "columns are sent once");
        let row = &shown.list_at(&["rows"])[0];
        assert_eq!(row.str_at(&["object", "metadata", "name"]), name);
    }
}

/// Bookmarks say where a later watch can go on, to clients that ask for them; a watch with a timeout ends.
#[tokio::test]
async fn bookmarks_follow_the_events() {
    let limits = Limits { bookmark_interval: Duration::from_millis(20), ..Limits::default() };
    let server = Server::with(Vec::new(), &[], limits).await;
    let begin = create(&server, "x").await;
    let query = format!("&resourceVersion={begin}");
    let mut marked = watch(&server, &format!("{query}&allowWatchBookmarks=true")).await;
    let mut plain = watch(&server, &format!("{query}&timeoutSeconds=1")).await;
    let made = create(&server, "y").await.parse::<u64>().unwrap();
    let mut events = Vec::new();
    while events.last().is_none_or(|(kind, version)| kind != "BOOKMARK" || *version < made) {
        let (kind, object) = marked.next().await.unwrap();
        events.push((kind, object.resource_version().parse::<u64>().unwrap()));
    }
    let added: Vec<u64> = events.iter().filter(|(kind, _)| kind == "ADDED").map(|(_, version)| *version).collect();
    assert_eq!(added, [made], "{events:?}");
    assert_eq!(plain.names(1).await, ["ADDED y"]);
    assert_eq!(plain.next().await, None);
    // A negative timeout is over before it begins; which initial events are still sent is left open.
    let mut over = watch(&server, "&timeoutSeconds=-1").await;
    while over.next().await.is_some() {}
}

/// A watch of a custom resource ends when its definition leaves or changes; other watches go on.
#[tokio::test]
async fn watches_end_with_the_definition() {
    let url = "/apis/example.com/v1/namespaces/ns/widgets?watch=true";
    let other = GroupVersionResource::new("example.com", "v1", "gadgets");
    for (what, ends) in [("removed", true), ("replaced", true), ("another is removed", false)] {
        let server = Server::new(Vec::new()).await;
        let maps = server.0.snapshot().catalog.get("", "v1", "configmaps").unwrap().clone();
        let widget = Arc::new(widgets(&maps));
        server.0.catalog.change(std::slice::from_ref(&widget), &[]);
        let begin = create(&server, "x").await;
        let query = format!("&resourceVersion={begin}");
        let mut of_widgets =
            Watch::open(&server, &format!("{url}{query}"), "").await.map_err(|refused| refused.1).unwrap();
        let mut of_maps = watch(&server, &query).await;
        match what {
            "removed" => server.0.catalog.change(&[], std::slice::from_ref(&widget.resource)),
            "replaced" => server.0.catalog.change(&[Arc::new(widgets(&maps))], &[]),
            _ => server.0.catalog.change(&[], std::slice::from_ref(&other)),
        }
        if ends {
            let ended = tokio::time::timeout(Duration::from_secs(10), of_widgets.next()).await;
            assert_eq!(ended, Ok(None), "{what}");
        }
        create(&server, "y").await;
        assert_eq!(of_maps.names(1).await, ["ADDED y"], "{what}");
        if !ends {
            assert_eq!(of_widgets.names(1).await, ["ADDED y"], "{what}");
        }
    }
}
