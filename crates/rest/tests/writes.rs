//! Writes from request to store: what is wiped, defaulted, owned and refused; scale, deletions of collections, dry runs and
//! custom resources' forms.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;

use object::{GroupVersionKind, Meta, Value, value};
use registry::Form;
use rest::Limits;
use support::{MAPS, Server, ask_for, map, one, widgets};

/// The managers of an object: name, operation and subresource.
fn managers(object: &Value) -> Vec<String> {
    let entries = object.list_at(&["metadata", "managedFields"]).iter();
    let shown = |entry: &Value| {
        let text = |field: &str| entry.str_at(&[field]).to_string();
        [text("manager"), text("operation"), text("subresource")].join(" ").trim_end().to_string()
    };
    entries.map(shown).collect()
}

#[tokio::test]
async fn clients_do_not_set_what_is_the_servers() {
    let server = Server::new(Vec::new()).await;
    let mut sent = map(value!({"a": "1"}));
    for (field, value) in [
        ("uid", "mine"),
        ("creationTimestamp", "2001-01-01T00:00:00Z"),
        ("deletionTimestamp", "2001-01-01T00:00:00Z"),
        ("selfLink", "/mine"),
    ] {
        sent.set(&["metadata", field], value);
    }
    let (code, made) = server.ask("POST", MAPS, sent.clone()).await;
    assert_eq!(code, 201, "{made:?}");
    assert_ne!(made.uid(), "mine");
    assert!(!made.meta_str("creationTimestamp").starts_with("2001") && !made.is_deleting());
    assert_eq!((made.namespace(), made.meta_str("selfLink")), ("ns", ""));
    assert_eq!(managers(&made), ["test Update"]);

    // The same in an update: an object keeps its identity, or the update is refused.
    for (field, value, code) in [("uid", "mine", 409), ("namespace", "other", 400), ("name", "other", 400)] {
        let mut changed = map(value!({"a": "2"}));
        changed.set(&["metadata", field], value);
        let (got, answer) = server.ask("PUT", &one(""), changed).await;
        assert_eq!(got, code, "{field}: {answer:?}");
    }
    let mut changed = map(value!({"a": "2"}));
    changed.set(&["metadata", "creationTimestamp"], "2001-01-01T00:00:00Z");
    let (_, updated) = server.ask("PUT", &one("?fieldManager=other"), changed).await;
    assert_eq!(updated.meta_str("creationTimestamp"), made.meta_str("creationTimestamp"));
    assert!(managers(&updated).contains(&"other Update".to_string()), "{:?}", managers(&updated));
}

#[tokio::test]
async fn bodies_are_of_the_kind_that_the_path_names() {
    let server = Server::new(Vec::new()).await;
    let named = |api_version: &str, kind: &str| {
        let mut object = map(Value::map());
        object.set(&["apiVersion"], api_version);
        object.set(&["kind"], kind);
        object
    };
    for (body, query, code, message) in [
        (value!({"metadata": {"name": "x"}}), "", 201, ""),
        (named("v1", "Secret"), "", 400, "unknown conversion"),
        (named("v1", "Nothing"), "", 400, "no kind \"Nothing\" is registered for version \"v1\""),
        (named("apps/v1", "ConfigMap"), "", 400, "no kind \"ConfigMap\" is registered for version \"apps/v1\""),
        (value!([1]), "", 400, "cannot unmarshal"),
        (value!({"metadata": {"name": "y"}, "dat": {}}), "?fieldValidation=Strict", 400, "unknown field \"dat\""),
        (value!({"metadata": {"name": "y"}, "dat": {}}), "?fieldValidation=Warn", 201, ""),
        (value!({"metadata": {"name": "y"}}), "", 409, "already exists"),
        (value!({"metadata": {"name": "z"}}), "?fieldValidation=Maybe", 422, "fieldValidation"),
        (value!({"metadata": {"name": "z"}}), "?dryRun=Some", 422, "dryRun"),
        (value!({"metadata": {"name": "Z"}}), "", 422, "metadata.name"),
        (value!({"metadata": {}}), "", 422, "name or generateName is required"),
        (
            value!({"metadata": {"name": "w", "resourceVersion": "7"}}),
            "",
            500,
            "should not be set on objects to be created",
        ),
    ] {
        let (got, answer) = server.ask("POST", &format!("{MAPS}{query}"), body.clone()).await;
        assert_eq!(got, code, "{body:?}{query}: {answer:?}");
        assert!(answer.str_at(&["message"]).contains(message), "{body:?}{query}: {answer:?}");
    }
    // What a dry run would do is answered and not done.
    let (code, made) = server.ask("POST", &format!("{MAPS}?dryRun=All"), map(Value::map())).await;
    assert_eq!((code, made.name()), (201, "m"));
    assert_eq!(server.ask("GET", &one(""), Value::Null).await.0, 404);
}

#[tokio::test]
async fn names_are_generated_until_one_is_free() {
    let server = Server::new(Vec::new()).await;
    let generated = value!({"metadata": {"generateName": "g-"}});
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let (code, made) = server.ask("POST", MAPS, generated.clone()).await;
        assert_eq!((code, made.name().len()), (201, 7));
        assert!(seen.insert(made.name().to_string()));
    }
}

/// A replication controller has a scale, of which a write changes the replicas alone.
#[tokio::test]
async fn scales_are_views_on_the_replicas() {
    let server = Server::new(Vec::new()).await;
    let controllers = "/api/v1/namespaces/ns/replicationcontrollers";
    let template = value!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = value!({"replicas": 2, "selector": {"a": "b"}, "template": (template)});
    let controller = value!({"metadata": {"name": "rc"}, "spec": (spec)});
    assert_eq!(server.ask("POST", controllers, controller).await.0, 201);
    let scale = format!("{controllers}/rc/scale");
    let (code, got) = server.ask("GET", &scale, Value::Null).await;
    assert_eq!((code, got.kind(), got.at(&["spec", "replicas"])), (200, "Scale", &Value::from(2)));
    assert_eq!(got.str_at(&["status", "selector"]), "a=b");
    let wanted =
        |replicas: i64| value!({"metadata": {"name": "rc", "namespace": "ns"}, "spec": {"replicas": replicas}});
    let mut stale = wanted(7);
    stale.set(&["metadata", "resourceVersion"], "1");
    for (method, query, body, code, replicas) in [
        ("PUT", "", wanted(3), 200, 3),
        ("MERGE", "", value!({"spec": {"replicas": 4}}), 200, 4),
        ("JSON", "", value!([{"op": "replace", "path": "/spec/replicas", "value": 5}]), 200, 5),
        ("PUT", "?dryRun=All", wanted(9), 200, 5),
        ("PUT", "", wanted(-1), 422, 5),
        ("PUT", "", stale, 409, 5),
        (
            "APPLY",
            "?fieldManager=f&force=true",
            value!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "rc"}, "spec": {"replicas": 6}}),
            200,
            6,
        ),
    ] {
        let (got, answer) = server.ask(method, &format!("{scale}{query}"), body.clone()).await;
        assert_eq!(got, code, "{method} {body:?}: {answer:?}");
        let (_, stored) = server.ask("GET", &format!("{controllers}/rc"), Value::Null).await;
        assert_eq!(stored.at(&["spec", "replicas"]).as_int(), Some(replicas), "{method} {body:?}");
        assert_eq!(stored.at(&["spec", "selector", "a"]).as_str(), Some("b"), "the rest stays");
    }
    let (_, stored) = server.ask("GET", &format!("{controllers}/rc"), Value::Null).await;
    assert!(managers(&stored).contains(&"f Apply scale".to_string()), "{:?}", managers(&stored));
    assert_eq!(server.ask("GET", &format!("{controllers}/none/scale"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let server = Server::new(Vec::new()).await;
    for (name, label, finalizers) in
        [("a", "x", vec![]), ("b", "x", vec!["example.com/f"]), ("c", "y", vec![]), ("d", "x", vec![])]
    {
        let object =
            value!({"metadata": {"name": name, "labels": {"l": label}, "finalizers": (Value::from(finalizers))}});
        assert_eq!(server.ask("POST", MAPS, object).await.0, 201);
    }
    let remaining = async || {
        let (_, list) = server.ask("GET", MAPS, Value::Null).await;
        list.list_at(&["items"]).iter().map(|item| item.name().to_string()).collect::<Vec<_>>()
    };
    let selected = format!("{MAPS}?labelSelector=l=x");
    let (code, _) = server.ask("DELETE", &format!("{selected}&dryRun=All"), Value::Null).await;
    assert_eq!((code, remaining().await.len()), (200, 4));
    let (code, list) = server.ask("DELETE", &selected, Value::Null).await;
    assert_eq!((code, list.kind(), list.list_at(&["items"]).len()), (200, "ConfigMapList", 3), "{list:?}");
    assert_eq!(remaining().await, ["b", "c"], "a finalizer holds b");
    let bad = value!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "No"});
    assert_eq!(server.ask("DELETE", MAPS, bad).await.0, 422);
    assert_eq!(server.ask("DELETE", MAPS, Value::Null).await.0, 200);
    assert_eq!(remaining().await, ["b"]);
}

#[tokio::test]
async fn forms_decide_what_is_read_and_written() {
    let server = Server::with(Vec::new(), &[], Limits::default()).await;
    let maps = server.0.snapshot().catalog.get("", "v1", "configmaps").unwrap().clone();
    let widgets = Arc::new(widgets(&maps));
    let (structured, unstructured) = (&maps.form, &widgets.form);
    // The type of a body may be left out where the path has it, and is a field like others elsewhere.
    let nothing = GroupVersionKind::default();
    assert_eq!(structured.kind_of_body(nothing.clone(), &maps.kind).as_ref(), Some(&maps.kind));
    assert_eq!(unstructured.kind_of_body(nothing, &widgets.kind), None);
    assert!(structured.check_type(&Value::map(), &maps.kind).is_empty());
    assert_eq!(unstructured.check_type(&Value::map(), &widgets.kind).iter().count(), 2);
    // Unknown fields are noticed by the decoder, or pruned.
    let document =
        value!({"apiVersion": "example.com/v1", "kind": "Widget", "data": {"size": 1, "other": 2}, "more": 1});
    let read = |form: &Form| form.read(&document, &mut codec::Notes::collect());
    let (object, found) = read(unstructured).unwrap();
    assert_eq!((object.field("data"), found.len()), (&value!({"size": 1}), 2), "{found:?}");
    assert!(read(structured).unwrap_err().contains("cannot unmarshal number into Go struct field ConfigMap.data"));
    // Structured objects are written in the order of their fields, without their type in lists; others sorted, with it.
    let object = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    for (form, whole, item) in [
        (structured, r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"v"}}"#, 2),
        (unstructured, r#"{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"a"}}"#, 4),
    ] {
        let mut json = Vec::new();
        form.write_json(&object, &mut json);
        assert_eq!(String::from_utf8(json).unwrap().replace(r#""creationTimestamp":null,"#, ""), whole);
        let mut stripped = object.clone();
        form.strip_type(&mut stripped);
        assert_eq!(stripped.as_map().unwrap().len(), item);
    }
    assert_eq!(structured.go_type("", "ConfigMap"), "*core.ConfigMap");
    assert_eq!(unstructured.go_type("example.com", "WidgetList"), "*unstructured.UnstructuredList");
}

#[tokio::test]
async fn protobuf_is_refused_where_objects_have_none() {
    let server = Server::new(Vec::new()).await;
    let maps = server.0.snapshot().catalog.get("", "v1", "configmaps").unwrap().clone();
    server.0.catalog.change(&[Arc::new(widgets(&maps))], &[]);
    let url = "/apis/example.com/v1/namespaces/ns/widgets";
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (path, accept, code) in [
        (MAPS, protobuf, 200),
        (url, protobuf, 406),
        (url, "application/json", 200),
        (url, "application/vnd.kubernetes.protobuf,application/json", 200),
    ] {
        let (got, headers, _) = ask_for(&server.0, "GET", path, Value::Null, accept).await;
        assert_eq!(got, code, "{path} {accept}: {headers:?}");
    }
    let (code, _) = server.ask("STRATEGIC", &format!("{url}/w"), value!({})).await;
    assert_eq!(code, 415, "custom resources take no strategic merge patch");
    let (code, _) = server.ask("MERGE", &format!("{url}/w"), value!({})).await;
    assert_eq!(code, 404);
}

/// `--delete-collection-workers`: objects of a collection are deleted side by side, each once.
#[tokio::test]
async fn collections_are_deleted_by_several_workers() {
    for workers in [1, 3, 100] {
        let limits = Limits { delete_collection_workers: workers, ..Limits::default() };
        let server = Server::with(Vec::new(), &[], limits).await;
        for at in 0..10 {
            let mut object = map(Value::map());
            object.set_meta_str("name", &format!("m{at}"));
            assert_eq!(server.ask("POST", MAPS, object).await.0, 201);
        }
        let (code, deleted) = server.ask("DELETE", MAPS, Value::Null).await;
        assert_eq!((code, deleted.list_at(&["items"]).len()), (200, 10), "{workers} workers");
        let (_, left) = server.ask("GET", MAPS, Value::Null).await;
        assert!(left.list_at(&["items"]).is_empty(), "{workers} workers");
    }
}
