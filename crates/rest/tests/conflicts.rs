//! Server-side apply by several managers: which fields conflict, with whom, and what a conflict leaves behind.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use admission::{Attributes, Plugin};
use async_trait::async_trait;
use object::{Status, Value, value};
use rest::Api;
use support::{MAPS, Server, ask, map, one};

/// A write before the apply: method, query, data.
type Step = (&'static str, &'static str, Value);

/// The fields that an apply of `data` by `me` conflicts in, each as `field: manager`, after these steps.
async fn conflicts(steps: &[Step], query: &str, data: Value) -> Result<Value, Vec<String>> {
    let server = Server::new(Vec::new()).await;
    for (method, query, data) in steps {
        let url = if *method == "POST" { format!("{MAPS}{query}") } else { one(query) };
        let body = if *method == "MERGE" { value!({"data": (data.clone())}) } else { map(data.clone()) };
        let (code, answer) = server.ask(method, &url, body).await;
        assert!(code < 300, "{method} {query}: {answer:?}");
    }
    let (_, before) = server.ask("GET", &one(""), Value::Null).await;
    let (code, answer) = server.ask("APPLY", &one(&format!("?fieldManager=me{query}")), map(data)).await;
    if code < 300 {
        return Ok(answer.field("data").clone());
    }
    assert_eq!((code, answer.str_at(&["reason"])), (409, "Conflict"), "{answer:?}");
    let (_, after) = server.ask("GET", &one(""), Value::Null).await;
    assert_eq!(before, after, "a conflict changes nothing");
    let causes = answer.list_at(&["details", "causes"]).iter().map(|cause| {
        assert_eq!(cause.str_at(&["reason"]), "FieldManagerConflict");
        let message = cause.str_at(&["message"]);
        let manager = message.strip_prefix("conflict with ").unwrap_or(message);
        format!("{}: {manager}", cause.str_at(&["field"]))
    });
    let causes: Vec<String> = causes.collect();
    let count = format!("Apply failed with {} conflict", causes.len());
    assert!(answer.str_at(&["message"]).starts_with(&count), "{answer:?}");
    Err(causes)
}

#[tokio::test]
async fn conflicts_name_the_field_and_its_manager() {
    let other = ("APPLY", "?fieldManager=other", value!({"a": "1", "b": "2"}));
    let third = ("APPLY", "?fieldManager=third", value!({"a": "1"}));
    let creator = ("POST", "?fieldManager=creator", value!({"a": "1"}));
    let mine = ("APPLY", "?fieldManager=me", value!({"a": "1", "m": "1"}));
    let cases: Vec<(&str, Vec<Step>, &str, Value, Result<Value, Vec<&str>>)> = vec![
        ("a field of its own", vec![other.clone()], "", value!({"c": "3"}), Ok(value!({"a": "1", "b": "2", "c": "3"}))),
        ("the same value", vec![other.clone()], "", value!({"a": "1"}), Ok(value!({"a": "1", "b": "2"}))),
        ("another value", vec![other.clone()], "", value!({"a": "x"}), Err(vec![r#".data.a: "other""#])),
        (
            "two fields",
            vec![other.clone()],
            "",
            value!({"a": "x", "b": "x"}),
            Err(vec![r#".data.a: "other""#, r#".data.b: "other""#]),
        ),
        (
            "two managers",
            vec![other.clone(), third.clone()],
            "",
            value!({"a": "x"}),
            Err(vec![r#".data.a: "other""#, r#".data.a: "third""#]),
        ),
        ("force", vec![other.clone(), third], "&force=true", value!({"a": "x"}), Ok(value!({"a": "x", "b": "2"}))),
        (
            "a manager that does not apply",
            vec![creator.clone()],
            "",
            value!({"a": "x"}),
            Err(vec![r#".data.a: "creator" using v1"#]),
        ),
        (
            "one that the manager shared and another has changed",
            vec![mine.clone(), ("MERGE", "?fieldManager=editor", value!({"a": "2"}))],
            "",
            value!({"a": "1", "m": "1"}),
            Err(vec![r#".data.a: "editor" using v1"#]),
        ),
        (
            "one that another has changed, no longer wanted",
            vec![mine.clone(), ("MERGE", "?fieldManager=editor", value!({"a": "2"}))],
            "",
            value!({"m": "1"}),
            Ok(value!({"a": "2", "m": "1"})),
        ),
        ("what only the manager had goes", vec![mine], "", value!({"a": "1"}), Ok(value!({"a": "1"}))),
        ("a dry run", vec![other], "&dryRun=All", value!({"a": "x"}), Err(vec![r#".data.a: "other""#])),
    ];
    for (what, steps, query, data, want) in cases {
        let got = conflicts(&steps, query, data).await.map_err(|causes| {
            // The time of an update is not known here.
            let until_time = |cause: &String| cause.split(" at ").next().unwrap_or(cause).to_string();
            causes.iter().map(until_time).collect::<Vec<_>>()
        });
        assert_eq!(got, want.map_err(|causes| causes.into_iter().map(String::from).collect()), "{what}");
    }
}

/// Another manager writes `data.a` while an update by `me` is validated for the first time.
struct Meanwhile {
    api: OnceLock<Weak<Api>>,
    asked: AtomicUsize,
    method: &'static str,
}

#[async_trait]
impl Plugin for Meanwhile {
    fn name(&self) -> &'static str {
        "Meanwhile"
    }

    async fn validate(&self, _: &Attributes<'_>, _: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        if old.is_some() && self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let api = self.api.get().unwrap().upgrade().unwrap();
            let body = match self.method {
                "DELETE" => Value::Null,
                _ => map(value!({"a": "theirs"})),
            };
            let url = one(if self.method == "APPLY" { "?fieldManager=other" } else { "" });
            assert!(Box::pin(ask(&api, self.method, &url, body)).await.0 < 300);
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_apply_that_is_tried_again_is_merged_again() {
    for (method, query, data, code, want) in [
        // A conflict that was not there the first time.
        ("APPLY", "", value!({"a": "mine"}), 409, value!({"a": "theirs"})),
        ("APPLY", "&force=true", value!({"a": "mine"}), 200, value!({"a": "mine"})),
        ("APPLY", "", value!({"b": "mine"}), 200, value!({"a": "theirs", "b": "mine"})),
        ("PUT", "", value!({"b": "mine"}), 200, value!({"a": "theirs", "b": "mine"})),
        // The object is gone: it is created.
        ("DELETE", "", value!({"b": "mine"}), 201, value!({"b": "mine"})),
    ] {
        let plugin = Arc::new(Meanwhile { api: OnceLock::new(), asked: AtomicUsize::new(0), method });
        let server = Server::new(vec![plugin.clone()]).await;
        plugin.api.set(Arc::downgrade(&server.0)).unwrap();
        assert_eq!(server.ask("POST", MAPS, map(Value::map())).await.0, 201);
        let (got, answer) = server.ask("APPLY", &one(&format!("?fieldManager=me{query}")), map(data)).await;
        assert_eq!(got, code, "{method} {query}: {answer:?}");
        let (_, stored) = server.ask("GET", &one(""), Value::Null).await;
        assert_eq!(stored.field("data"), &want, "{method} {query}");
        let names: Vec<&str> =
            stored.list_at(&["metadata", "managedFields"]).iter().map(|entry| entry.str_at(&["manager"])).collect();
        assert_eq!(names.contains(&"me"), code < 300, "{names:?}");
    }
}
