//! Who owns which field after a sequence of writes: updates, patches, applies, writes of the status and of the scale.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use object::{Meta, Value, value};
use support::Server;

const CONTROLLERS: &str = "/api/v1/namespaces/ns/replicationcontrollers";

fn controller(replicas: i64) -> Value {
    let container = value!({"name": "c", "image": "i"});
    value!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {
            "replicas": replicas, "selector": {"a": "b"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [(container)]}},
        },
    })
}

/// A configuration that has nothing but its name and these fields.
fn config(fields: Value) -> Value {
    let mut config = value!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"}});
    for (name, value) in fields.as_map().unwrap().iter() {
        config.set(&[name], value.clone());
    }
    config
}

/// The owners of a field, each as `manager operation subresource`.
fn owners(object: &Value, path: &[&str]) -> Vec<String> {
    let owns = |entry: &&Value| {
        let fields = match entry.field("fieldsV1") {
            Value::Raw(raw) => codec::json::open(raw),
            other => other.clone(),
        };
        let steps: Vec<String> = path.iter().map(|step| format!("f:{step}")).collect();
        !steps.iter().fold(&fields, |at, step| at.field(step)).is_null()
    };
    let text = |entry: &Value| {
        let part = |field: &str| entry.str_at(&[field]).to_string();
        [part("manager"), part("operation"), part("subresource")].join(" ").trim_end().to_string()
    };
    let mut found: Vec<String> = object.list_at(&["metadata", "managedFields"]).iter().filter(owns).map(text).collect();
    found.sort_unstable();
    found
}

/// Carries out the steps, and returns the object as the last one left it.
async fn after(steps: &[(&str, &str, Value, u16)]) -> Value {
    let server = Server::new(Vec::new()).await;
    for (method, url, body, code) in steps {
        let base = if *method == "POST" { CONTROLLERS.to_string() } else { format!("{CONTROLLERS}/rc") };
        let (got, answer) = server.ask(method, &format!("{base}{url}"), body.clone()).await;
        assert_eq!(got, *code, "{method} {url} {body:?}: {answer:?}");
    }
    server.ask("GET", &format!("{CONTROLLERS}/rc"), Value::Null).await.1
}

#[tokio::test]
async fn fields_have_the_owners_that_wrote_them() {
    let create = ("POST", "?fieldManager=creator", controller(1), 201);
    let replicas = |replicas: i64| config(value!({"spec": {"replicas": replicas}}));
    let status = value!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "status": {"replicas": 3}});
    let scale = |replicas: i64| value!({"metadata": {"name": "rc", "namespace": "ns"}, "spec": {"replicas": replicas}});
    let spec = ["spec", "replicas"];
    let label = ["metadata", "labels", "x"];
    type Steps = Vec<(&'static str, &'static str, Value, u16)>;
    let cases: [(&str, Steps, &[&str], &[&str]); 13] = [
        ("a creation", vec![create.clone()], &spec, &["creator Update"]),
        (
            "an update of another value takes the field over",
            vec![create.clone(), ("PUT", "?fieldManager=second", controller(2), 200)],
            &spec,
            &["second Update"],
        ),
        (
            "an update of the same value does not",
            vec![create.clone(), ("PUT", "?fieldManager=second", controller(1), 200)],
            &spec,
            &["creator Update"],
        ),
        (
            "a patch is an update",
            vec![create.clone(), ("MERGE", "?fieldManager=patcher", value!({"spec": {"replicas": 5}}), 200)],
            &spec,
            &["patcher Update"],
        ),
        (
            "an apply of the same value shares the field",
            vec![create.clone(), ("APPLY", "?fieldManager=applier", replicas(1), 200)],
            &spec,
            &["applier Apply", "creator Update"],
        ),
        (
            "an apply of another value is refused",
            vec![create.clone(), ("APPLY", "?fieldManager=applier", replicas(2), 409)],
            &spec,
            &["creator Update"],
        ),
        (
            "or takes the field by force",
            vec![create.clone(), ("APPLY", "?fieldManager=applier&force=true", replicas(2), 200)],
            &spec,
            &["applier Apply"],
        ),
        (
            "what an applier no longer has, and no other owns, is removed",
            vec![
                create.clone(),
                (
                    "APPLY",
                    "?fieldManager=applier",
                    config(value!({"metadata": {"name": "rc", "labels": {"x": "y"}}})),
                    200,
                ),
                ("APPLY", "?fieldManager=applier", config(value!({})), 200),
            ],
            &label,
            &[],
        ),
        (
            "a status has owners of its own",
            vec![create.clone(), ("PUT", "/status?fieldManager=controller", status.clone(), 200)],
            &["status", "replicas"],
            &["controller Update status"],
        ),
        (
            "and is not written with the object",
            vec![create.clone(), ("APPLY", "?fieldManager=applier", config(value!({"status": {"replicas": 9}})), 200)],
            &["status", "replicas"],
            &[],
        ),
        (
            "a scale owns the replicas of the object",
            vec![create.clone(), ("PUT", "/scale?fieldManager=scaler", scale(4), 200)],
            &spec,
            &["scaler Update scale"],
        ),
        (
            "a dry run owns nothing",
            vec![create.clone(), ("PUT", "?fieldManager=second&dryRun=All", controller(2), 200)],
            &spec,
            &["creator Update"],
        ),
        (
            "an object that is sent with an empty list of managers forgets them all",
            vec![
                create.clone(),
                ("MERGE", "?fieldManager=patcher", value!({"metadata": {"managedFields": [{}]}}), 200),
            ],
            &spec,
            &[],
        ),
    ];
    for (what, steps, path, want) in cases {
        let object = after(&steps).await;
        assert_eq!(owners(&object, path), want, "{what}: {object:?}");
    }
}

#[tokio::test]
async fn applies_are_of_an_object_and_a_manager() {
    let server = Server::new(Vec::new()).await;
    let url = |query: &str| format!("{CONTROLLERS}/rc{query}");
    let mut other = controller(1);
    other.set_meta_str("name", "other");
    let mut managed = controller(1);
    managed.set(&["metadata", "managedFields"], vec![value!({"manager": "m"})]);
    for (what, query, body, code, message) in [
        ("no manager", "", controller(1), 422, "fieldManager: Required value: is required for apply patch"),
        ("a manager too long", &format!("?fieldManager={}", "m".repeat(129)), controller(1), 422, "Too long"),
        ("another name", "?fieldManager=m", other, 400, "name"),
        ("managed fields", "?fieldManager=m", managed, 400, "metadata.managedFields must be nil"),
        ("no kind", "?fieldManager=m", value!({"metadata": {"name": "rc"}}), 400, ""),
        ("no object", "?fieldManager=m", value!([]), 400, ""),
        ("force that is none", "?fieldManager=m&force=maybe", controller(1), 201, ""),
    ] {
        let (got, answer) = server.ask("APPLY", &url(query), body).await;
        assert_eq!(got, code, "{what}: {answer:?}");
        assert!(answer.str_at(&["message"]).contains(message), "{what}: {answer:?}");
    }
    // Only an apply can be forced.
    let (code, _) = server.ask("MERGE", &url("?force=true"), value!({"spec": {"replicas": 3}})).await;
    assert_eq!(code, 422);
    // The conflict names the manager and the field.
    assert_eq!(server.ask("MERGE", &url("?fieldManager=first"), value!({"spec": {"replicas": 3}})).await.0, 200);
    let (code, status) = server.ask("APPLY", &url("?fieldManager=second"), controller(4)).await;
    assert_eq!((code, status.str_at(&["reason"])), (409, "Conflict"));
    let causes = status.list_at(&["details", "causes"]);
    let cause = |cause: &Value| (cause.str_at(&["reason"]).to_string(), cause.str_at(&["field"]).to_string());
    assert!(causes.iter().map(cause).any(|found| found == ("FieldManagerConflict".into(), ".spec.replicas".into())));
}
