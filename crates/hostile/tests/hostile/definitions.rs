//! Definitions that would exhaust a server: each is refused or served, soon, and the server goes on.

use std::time::{Duration, Instant};

use hostile::{ADMIN, Target};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// What one of them may take on a slow machine in a debug build.
const SLOW: Duration = Duration::from_secs(30);

fn definition(name: &str, versions: Vec<Value>) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.hostile.example.com")},
        "spec": {
            "group": "hostile.example.com",
            "scope": "Namespaced",
            "names": {"plural": format!("{name}s"), "kind": name.to_uppercase()},
            "versions": versions,
        },
    })
}

fn version(name: &str, storage: bool, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

/// A schema in a schema, `depth` times.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}))
}

fn properties(count: usize) -> Value {
    let all: Map<String, Value> = (0..count).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": all})
}

/// Defaults inside of defaults that would be written again and again.
fn defaults(depth: usize) -> Value {
    (0..depth).fold(
        json!({"type": "string", "default": "x"}),
        |inner, _| json!({"type": "object", "default": {}, "properties": {"a": inner, "b": inner}}),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_definitions_do_not_take_the_server_down() {
    let target = Target::start().await;
    let pattern =
        |pattern: &str| json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
    let rule = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let thousand = (0..1000).map(|i| version(&format!("v{}", i + 1), i == 0, json!({"type": "object"}))).collect();
    let cases = [
        ("versions", definition("versions", thousand), None),
        ("properties", definition("properties", vec![version("v1", true, properties(20_000))]), None),
        ("nested", definition("nested", vec![version("v1", true, nested(2000))]), Some(4)),
        ("defaults", definition("defaults", vec![version("v1", true, defaults(12))]), None),
        ("pattern", definition("pattern", vec![version("v1", true, pattern("(a{1000}){1000}"))]), Some(4)),
        ("rule", definition("rule", vec![version("v1", true, rule(&"(".repeat(5000)))]), Some(4)),
        ("long", definition("long", vec![version("v1", true, rule(&"true && ".repeat(20_000)))]), Some(4)),
    ];
    for (what, body, wanted) in cases {
        let began = Instant::now();
        let answer = target.ask(ADMIN, "POST", DEFINITIONS, body.to_string()).await;
        let took = began.elapsed();
        assert!(took < SLOW, "{what} took {took:?}");
        assert!([2, 4].contains(&(answer.code / 100)), "{what}: {}", answer.code);
        if let Some(class) = wanted {
            assert_eq!(answer.code / 100, class, "{what}: {}", answer.code);
        }
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alive"}});
    let answer = target.ask(ADMIN, "POST", "/api/v1/namespaces/default/configmaps", map.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

/// Objects that make rules and defaults work hard are refused or stored, soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_objects_do_not_take_the_server_down() {
    let target = Target::start().await;
    let spec = json!({
        "type": "object",
        "properties": {
            "words": {"type": "array", "maxItems": 10_000, "items": {"type": "string", "maxLength": 10}},
            "text": {"type": "string", "pattern": "^(a+)+$"},
        },
        "x-kubernetes-validations": [{"rule": "!has(self.words) || self.words.all(w, size(w) > 0)"}],
    });
    let created = definition("objects", vec![version("v1", true, spec)]);
    let answer = target.ask(ADMIN, "POST", DEFINITIONS, created.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    let cases = [
        json!({"words": vec!["a"; 10_000]}),
        json!({"text": format!("{}b", "a".repeat(100_000))}),
        json!({"words": vec![vec!["a"; 100]; 100]}),
    ];
    for (i, spec) in cases.into_iter().enumerate() {
        let object = json!({
            "apiVersion": "hostile.example.com/v1", "kind": "OBJECTS", "metadata": {"name": format!("o{i}")}, "spec": spec,
        });
        let began = Instant::now();
        let path = "/apis/hostile.example.com/v1/namespaces/default/objectss";
        let answer = target.ask(ADMIN, "POST", path, object.to_string()).await;
        assert!(began.elapsed() < SLOW, "{i} took {:?}", began.elapsed());
        assert!([2, 4].contains(&(answer.code / 100)), "{i}: {}", answer.code);
    }
}
