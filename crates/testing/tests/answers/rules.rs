//! Custom resources that are converted by rules in their definition: every verb, the condition, and rules that are refused.

use serde_json::json;
use testing::Server;

use super::{Case, case, check, get, patch, send};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/keys.answers.example.com";
const RULES: &str = "conversion.ferrokube.io/rules";
const JSON: &str = "application/json";
const RENAMED: &str = "
hub: v1
versions:
  v1alpha1:
    renames: {spec.keySize: spec.key.size}
    toHub:
    - {set: spec.key.algorithm, to: 'self.?spec.?algorithm.optMap(a, a.upperAscii())'}
    fromHub:
    - {set: spec.algorithm, to: 'self.?spec.?key.?algorithm.optMap(a, a.lowerAscii())'}
    - {set: spec.size, to: self.spec.missing.size, when: 'self.?spec.?broken.orValue(false)'}
";

fn path(version: &str, name: &str) -> String {
    let collection = format!("/apis/answers.example.com/{version}/namespaces/default/keys");
    if name.is_empty() { collection } else { format!("{collection}/{name}") }
}

fn key(version: &str, name: &str, spec: serde_json::Value) -> String {
    let object = json!({"apiVersion": format!("answers.example.com/{version}"), "kind": "Key", "metadata": {"name": name},
        "spec": spec});
    object.to_string()
}

fn definition(rules: &str, kept: bool, conversion: serde_json::Value) -> String {
    let schema = |spec: serde_json::Value| json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}});
    let key = json!({"type": "object", "properties": {"size": {"type": "integer"},
        "algorithm": {"type": "string", "enum": ["RSA", "ECDSA"]}}});
    let hub = match kept {
        true => {
            json!({"key": key, "broken": {"type": "boolean"}, "missing": {"type": "object", "properties": {"size": {"type": "integer"}}}})
        }
        false => json!({"key": key}),
    };
    let older = json!({"keySize": {"type": "integer"}, "size": {"type": "integer"},
        "algorithm": {"type": "string", "enum": ["rsa", "ecdsa"]}});
    let version = |name: &str, schema: serde_json::Value| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "keys.answers.example.com", "annotations": {RULES: rules}},
        "spec": {"group": "answers.example.com", "scope": "Namespaced", "names": {"plural": "keys", "kind": "Key"},
            "versions": [version("v1", schema(hub)), version("v1alpha1", schema(older))], "conversion": conversion},
    })
    .to_string()
}

fn none() -> serde_json::Value {
    json!({"strategy": "None"})
}

fn verbs() -> Vec<Case> {
    let spec = json!({"keySize": 2048, "algorithm": "rsa"});
    let applied = |version: &str, spec: serde_json::Value, text| {
        let path = format!("{}?fieldManager=a&force=true", path(version, "a"));
        case("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], &key(version, "a", spec), 201, text)
    };
    vec![
        send("POST", DEFINITIONS, &definition(RENAMED, true, none()), 201, ""),
        get(DEFINITION, JSON, 200, r#""type":"ConversionRules""#),
        send(
            "POST",
            &path("v1alpha1", ""),
            &key("v1alpha1", "k", spec),
            201,
            r#""spec":{"algorithm":"rsa","keySize":2048}"#,
        ),
        get(&path("v1", "k"), JSON, 200, r#""spec":{"key":{"algorithm":"RSA","size":2048}}"#),
        get(&path("v1alpha1", "k"), JSON, 200, r#""spec":{"algorithm":"rsa","keySize":2048}"#),
        get(&path("v1alpha1", ""), JSON, 200, r#""spec":{"algorithm":"rsa","keySize":2048}"#),
        get(
            &format!("{}?watch=true&timeoutSeconds=1&resourceVersion=0", path("v1alpha1", "")),
            JSON,
            200,
            r#""keySize":2048"#,
        ),
        patch(
            &path("v1alpha1", "k"),
            "merge-patch+json",
            r#"{"spec": {"algorithm": "ecdsa"}}"#,
            200,
            r#""algorithm":"ecdsa""#,
        ),
        applied("v1alpha1", json!({"keySize": 1}), r#""keySize":1"#),
        get(&path("v1", "a"), JSON, 200, r#""key":{"size":1}"#),
        send("POST", &path("v1", ""), &key("v1", "broken", json!({"broken": true})), 201, ""),
        get(&path("v1alpha1", "broken"), JSON, 500, "object not decodable"),
        send("POST", &path("v1alpha1", ""), &key("v1alpha1", "x", json!({"algorithm": "x"})), 422, "Unsupported value"),
        send("PUT", DEFINITION, &definition("hub: v2", false, none()), 422, ""),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_resources_are_converted_by_rules() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    for case in verbs() {
        check(&client, case).await;
    }
    check(
        &client,
        get(
            "/metrics",
            "*/*",
            200,
            "ferrokube_crd_conversion_rules_duration_seconds_count{crd_name=\"keys.answers.example.com\"",
        ),
    )
    .await;
    server.stop().await;
}

/// Rules that a definition has are tried when it is written, and whenever they change; without them there is no condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_condition_follows_the_rules() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    let whole = RENAMED.lines().filter(|line| !line.contains("missing")).collect::<Vec<_>>().join("\n");
    let refused = "metadata.annotations[conversion.ferrokube.io/rules].versions[v1alpha1].toHub[0].to: Invalid value";
    let typo = whole.replace("self.?spec.?algorithm", "self.?spec.?algoritm");
    check(&client, send("POST", DEFINITIONS, &definition(&typo, false, none()), 422, refused)).await;
    check(&client, send("POST", DEFINITIONS, &definition(&whole, false, none()), 201, "")).await;
    check(&client, get(DEFINITION, JSON, 200, r#""reason":"Loses""#)).await;
    let merge = [("content-type", "application/merge-patch+json")];
    let annotated = |rules: Option<&str>| json!({"metadata": {"annotations": {RULES: rules}}}).to_string();
    let keeps = whole.replace("    toHub:", "    keeps: []\n    toHub:").replace("v1\nversions", "v1alpha1\nversions");
    check(&client, case("PATCH", DEFINITION, &merge, &annotated(Some(&keeps)), 422, "Unsupported value")).await;
    check(&client, case("PATCH", DEFINITION, &merge, &annotated(None), 200, "")).await;
    let definition = client.request_text(http::Request::get(DEFINITION).body(Vec::new()).unwrap()).await.unwrap();
    assert!(!definition.contains("ConversionRules"), "{definition}");
    server.stop().await;
}
