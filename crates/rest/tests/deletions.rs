//! DELETE and DELETECOLLECTION: options from the body and from the query, preconditions, what holds an object, what clients
//! get back.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use admission::{Attributes, Operation, Plugin};
use async_trait::async_trait;
use object::{Meta, Status, Value, value};
use rest::Api;
use support::{MAPS, Server, ask, ask_for, map, one};

fn options(fields: Value) -> Value {
    let mut options = value!({"kind": "DeleteOptions", "apiVersion": "v1"});
    for (name, value) in fields.as_map().unwrap().iter() {
        options.set(&[name], value.clone());
    }
    options
}

#[tokio::test]
async fn options_are_read_from_the_body_or_the_query() {
    let foreground = options(value!({"propagationPolicy": "Foreground"}));
    for (what, query, body, code, finalizers) in [
        ("none", "", Value::Null, 200, None),
        ("an empty body", "", options(value!({})), 200, None),
        ("the body", "", foreground.clone(), 200, Some("foregroundDeletion")),
        ("the query", "?propagationPolicy=Orphan", Value::Null, 200, Some("orphan")),
        ("the old form", "?orphanDependents=true", Value::Null, 200, Some("orphan")),
        ("the body comes first", "?propagationPolicy=Orphan", foreground, 200, Some("foregroundDeletion")),
        ("a dry run", "?dryRun=All", Value::Null, 200, Some("")),
        ("a dry run in the body", "", options(value!({"dryRun": ["All"]})), 200, Some("")),
        ("a dry run of something", "?dryRun=Some", Value::Null, 422, Some("")),
        ("no such policy", "?propagationPolicy=Maybe", Value::Null, 422, Some("")),
        ("another kind", "", map(Value::map()), 400, Some("")),
        ("no object", "", value!([1]), 400, Some("")),
        ("another uid", "", options(value!({"preconditions": {"uid": "u"}})), 409, Some("")),
        ("another version", "", options(value!({"preconditions": {"resourceVersion": "1"}})), 409, Some("")),
        ("grace for what has none", "?gracePeriodSeconds=30", Value::Null, 200, None),
    ] {
        let server = Server::new(Vec::new()).await;
        assert_eq!(server.ask("POST", MAPS, map(Value::map())).await.0, 201);
        let (got, answer) = server.ask("DELETE", &one(query), body).await;
        assert_eq!(got, code, "{what}: {answer:?}");
        let (found, left) = server.ask("GET", &one(""), Value::Null).await;
        // None: it is gone; else what holds it.
        let held = (found == 200).then(|| left.finalizers().next().unwrap_or("").to_string());
        assert_eq!(held.as_deref(), finalizers, "{what}");
        assert_eq!(found == 200 && left.is_deleting(), finalizers.is_some_and(|name| !name.is_empty()), "{what}");
    }
}

#[tokio::test]
async fn clients_learn_what_became_of_the_object() {
    let server = Server::new(Vec::new()).await;
    let (_, made) = server.ask("POST", MAPS, map(Value::map())).await;
    let uid = made.uid().to_string();
    let (code, answer) =
        server.ask("DELETE", &one(""), options(value!({"preconditions": {"uid": (uid.as_str())}}))).await;
    assert_eq!((code, answer.kind(), answer.str_at(&["status"])), (200, "Status", "Success"));
    let details = answer.field("details");
    assert_eq!((details.str_at(&["name"]), details.str_at(&["kind"])), ("m", "configmaps"));
    assert_eq!(details.str_at(&["uid"]), uid);
    let (code, answer) = server.ask("DELETE", &one(""), Value::Null).await;
    assert_eq!((code, answer.str_at(&["message"])), (404, r#"configmaps "m" not found"#));

    // An object that is held comes back, marked; its name cannot be used until it is gone.
    let mut held = map(Value::map());
    held.set(&["metadata", "finalizers"], vec!["example.com/a"]);
    server.ask("POST", MAPS, held).await;
    let (code, answer) = server.ask("DELETE", &one(""), Value::Null).await;
    assert_eq!((code, answer.kind(), answer.is_deleting()), (200, "ConfigMap", true));
    let (code, answer) = server.ask("POST", MAPS, map(Value::map())).await;
    let why = r#"object is being deleted: configmaps "m" already exists"#;
    assert_eq!((code, answer.str_at(&["message"])), (409, why));
    let (code, _) = server.ask("MERGE", &one(""), value!({"metadata": {"finalizers": null}})).await;
    assert_eq!((code, server.ask("GET", &one(""), Value::Null).await.0), (200, 404));
    assert_eq!(server.ask("POST", MAPS, map(Value::map())).await.0, 201);
    // A Status is never a table.
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
    let (code, _, bytes) = ask_for(&server.0, "DELETE", &one(""), Value::Null, table).await;
    assert_eq!(code, 200);
    assert!(bytes.starts_with(br#"{"kind":"Status""#), "{bytes:?}");
}

#[tokio::test]
async fn collections_are_deleted_one_by_one() {
    let server = Server::new(Vec::new()).await;
    let fill = async || {
        for (name, labels, finalizers) in [
            ("a", value!({"k": "v"}), vec![]),
            ("b", value!({"k": "v"}), vec!["example.com/held"]),
            ("c", value!({"k": "w"}), vec![]),
            ("d", Value::Null, vec![]),
        ] {
            let mut object = map(Value::map());
            object.set_meta_str("name", name);
            object.set(&["metadata", "labels"], labels);
            object.set(&["metadata", "finalizers"], finalizers);
            server.ask("POST", MAPS, object).await;
        }
    };
    for (query, code, left) in [
        ("?labelSelector=k=v", 200, "b c d"),
        ("?labelSelector=k", 200, "b d"),
        ("?fieldSelector=metadata.name=d", 200, "a b c"),
        ("?dryRun=All", 200, "a b c d"),
        ("?labelSelector=k in", 400, "a b c d"),
        ("?propagationPolicy=Maybe", 422, "a b c d"),
        ("", 200, "b"),
    ] {
        fill().await;
        let (got, answer) = server.ask("DELETE", &format!("{MAPS}{query}"), Value::Null).await;
        assert_eq!(got, code, "{query}: {answer:?}");
        let (_, list) = server.ask("GET", MAPS, Value::Null).await;
        let names: Vec<&str> = list.list_at(&["items"]).iter().map(|object| object.name()).collect();
        assert_eq!(names.join(" "), left, "{query}");
        // What is held is let go of, so that the next case begins with nothing.
        server.ask("MERGE", &format!("{MAPS}/b"), value!({"metadata": {"finalizers": null}})).await;
        server.ask("DELETE", MAPS, Value::Null).await;
    }
}

/// Does something to the object `b` while the first deletion is validated, and refuses to delete `d`.
struct Meanwhile {
    api: OnceLock<Weak<Api>>,
    asked: AtomicUsize,
    method: &'static str,
    body: Value,
}

#[async_trait]
impl Plugin for Meanwhile {
    fn name(&self) -> &'static str {
        "Meanwhile"
    }

    async fn validate(&self, call: &Attributes<'_>, _: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        if call.operation != Operation::Delete {
            return Ok(());
        }
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 && !self.method.is_empty() {
            let api = self.api.get().unwrap().upgrade().unwrap();
            let (code, answer) = Box::pin(ask(&api, self.method, &format!("{MAPS}/b"), self.body.clone())).await;
            assert_eq!(code, 200, "{answer:?}");
        }
        match old.map(Meta::name) {
            Some("d") => Err(Status::bad_request("d stays")),
            _ => Ok(()),
        }
    }
}

/// What was listed is deleted as it is when its turn comes: gone objects are passed over, changed ones are looked at again, and
/// the first refusal is the answer.
#[tokio::test]
async fn collections_change_while_they_are_deleted() {
    let held = value!({"metadata": {"finalizers": ["example.com/held"]}});
    let label = value!({"metadata": {"labels": {"k": "v"}}});
    let not_modified = options(value!({"preconditions": {"resourceVersion": "1"}}));
    for (what, method, body, names, sent, code, left) in [
        ("nothing", "", Value::Null, "abc", Value::Null, 200, ""),
        ("one is deleted", "DELETE", Value::Null, "abc", Value::Null, 200, ""),
        ("one is held", "MERGE", held, "abc", Value::Null, 200, "b"),
        ("one is changed", "MERGE", label.clone(), "abc", Value::Null, 200, ""),
        ("one is refused", "MERGE", label, "abcde", Value::Null, 400, "d"),
        ("none is of that version", "", Value::Null, "abc", not_modified, 409, "a b c"),
    ] {
        let plugin = Arc::new(Meanwhile { api: OnceLock::new(), asked: AtomicUsize::new(0), method, body });
        let server = Server::new(vec![plugin.clone()]).await;
        plugin.api.set(Arc::downgrade(&server.0)).unwrap();
        for name in names.chars() {
            let mut object = map(Value::map());
            object.set_meta_str("name", &name.to_string());
            assert_eq!(server.ask("POST", MAPS, object).await.0, 201);
        }
        let (got, answer) = server.ask("DELETE", MAPS, sent).await;
        assert_eq!(got, code, "{what}: {answer:?}");
        let (_, list) = server.ask("GET", MAPS, Value::Null).await;
        let kept: Vec<&str> = list.list_at(&["items"]).iter().map(|object| object.name()).collect();
        let kept = kept.join(" ");
        // After a refusal it is not said which of the later ones were deleted.
        assert!(kept == left || code == 400 && kept.starts_with(left), "{what}: {kept}");
    }
}
