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

/// A definition whose schema is in a schema, `depth` times; as text, since values that deep do not fit a test's stack.
fn nested(depth: usize) -> String {
    let (opened, closed) = (r#"{"type":"object","properties":{"a":"#.repeat(depth), "}}".repeat(depth));
    let whole = definition("nested", vec![version("v1", true, json!("schema"))]).to_string();
    whole.replace(r#""spec":"schema""#, &format!(r#""spec":{opened}{{"type":"string"}}{closed}"#))
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
    let one = |name: &str, spec: Value| definition(name, vec![version("v1", true, spec)]).to_string();
    let rule = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let thousand = (0..1000).map(|i| version(&format!("v{}", i + 1), i == 0, json!({"type": "object"}))).collect();
    let cases = [
        ("versions", definition("versions", thousand).to_string(), None),
        ("properties", one("properties", properties(20_000)), None),
        // As much as a body can have, and more than the store takes: upstream passes on what etcd says.
        ("100,000 properties", one("many", properties(100_000)), Some(5)),
        ("nested", nested(2000), None),
        ("nested deeper", nested(6000), Some(4)),
        ("defaults", one("defaults", defaults(12)), None),
        ("pattern", one("pattern", pattern("(a{1000}){1000}")), Some(4)),
        ("rule", one("rule", rule(&"(".repeat(5000))), Some(4)),
        ("long", one("long", rule(&"true && ".repeat(20_000))), Some(4)),
    ];
    for (what, body, wanted) in cases {
        let began = Instant::now();
        let answer = target.ask(ADMIN, "POST", DEFINITIONS, body).await;
        let took = began.elapsed();
        assert!(took < SLOW, "{what} took {took:?}");
        let wanted = wanted.map_or(vec![2, 4], |class| vec![class]);
        assert!(wanted.contains(&(answer.code / 100)), "{what}: {}", answer.code);
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
