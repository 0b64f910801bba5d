//! A definition is created, its resource is used with every verb and found in discovery and OpenAPI, and the definition is
//! deleted again.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use bytes::Bytes;
use clients::TestServer;
use difftest::Client;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const LIST: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.stable.example.com";
const ONE: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs/mine";

/// `crontabs.stable.example.com`: a schedule, a number with a default and bounds, a list of named parts, a status.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["cronSpec"], "properties": {
                        "cronSpec": {"type": "string"},
                        "replicas": {"type": "integer", "default": 1, "maximum": 10},
                        "parts": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"}, "weight": {"type": "integer"},
                            }},
                        },
                    }},
                    "status": {"type": "object", "properties": {"runs": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

struct Tester(Client);

impl Tester {
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", "Bearer admin-token");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_string())).unwrap();
        let response = self.0.send(request).await.unwrap();
        (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, text) = self.send(method, path, &[("content-type", "application/json")], &body).await;
        (code, serde_json::from_str(&text).unwrap_or_else(|_| text.into()))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.json("GET", path, Value::Null).await
    }

    async fn patch(&self, kind: &str, path: &str, body: Value) -> (u16, Value) {
        let (code, text) = self.send("PATCH", path, &[("content-type", kind)], &body.to_string()).await;
        (code, serde_json::from_str(&text).unwrap_or_else(|_| text.into()))
    }
}

fn crontab(schedule: &str) -> Value {
    json!({
        "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "mine"},
        "spec": {"cronSpec": schedule},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_comes_and_goes() {
    let server = TestServer::start().await;
    let tester = Tester(Client::new(server.running.address, "admin-token").unwrap());
    assert_eq!(tester.get(LIST).await.0, 404);
    let (code, made) = tester.json("POST", DEFINITIONS, definition()).await;
    assert_eq!((code, &made["status"]["conditions"]), (201, &Value::Null), "{made}");
    // Its status was written before the answer: what is read now can be updated without a conflict.
    let (_, read) = tester.get(DEFINITION).await;
    assert_eq!(read["status"]["conditions"][1]["status"], "True", "{read}");

    writes(&tester).await;
    reads(&tester).await;
    patches(&tester).await;
    watches(&tester).await;
    is_discovered(&tester).await;

    assert_eq!(tester.json("DELETE", ONE, Value::Null).await.0, 200);
    assert_eq!(tester.get(ONE).await.0, 404);
    assert_eq!(tester.json("POST", LIST, crontab("a")).await.0, 201);
    assert_eq!(tester.json("DELETE", LIST, Value::Null).await.0, 200);
    assert_eq!(tester.get(LIST).await.1["items"], json!([]));

    assert_eq!(tester.json("POST", LIST, crontab("left behind")).await.0, 201);
    let (_, definition) = tester.get(DEFINITION).await;
    let conditions = definition["status"]["conditions"].as_array().unwrap().iter();
    let conditions: Vec<_> = conditions.map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect();
    assert_eq!(conditions, [("NamesAccepted", "True"), ("Established", "True")]);
    let version = definition["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    let watch = begin_watch(&tester).await;
    assert_eq!(tester.json("DELETE", DEFINITION, Value::Null).await.0, 200);
    deleted(&tester, &version).await;
    let rest = tokio::time::timeout(std::time::Duration::from_secs(10), watch.collect()).await;
    let rest = rest.expect("watches of a resource that is no longer served end").unwrap().to_bytes();
    assert!(rest.starts_with(b"{\"type\":\"DELETED\""), "the last objects' deletion comes first: {rest:?}");
    assert_eq!(tester.get(DEFINITION).await.0, 404);
    assert_eq!(tester.get(LIST).await.0, 404);
    assert_eq!(tester.get("/apis/stable.example.com/v1").await.0, 404);
    let (_, groups) = tester.get("/apis").await;
    assert!(!groups.to_string().contains("stable.example.com"));
    let (_, paths) = tester.get("/openapi/v3").await;
    assert!(paths["paths"].get("apis/stable.example.com/v1").is_none());
    server.stop().await;
}

/// A watch of which the first event has been read.
async fn begin_watch(tester: &Tester) -> hyper::body::Incoming {
    let stream = tester.0.connect(&[b"http/1.1"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("{LIST}?watch=1"))
        .header("host", "x")
        .header("authorization", "Bearer admin-token")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""), "{first:?}");
    body
}

/// Watches the definition until it is gone.
async fn deleted(tester: &Tester, from: &str) {
    let path = format!("{DEFINITIONS}?watch=1&resourceVersion={from}&timeoutSeconds=2");
    let (_, events) = tester.send("GET", &path, &[], "").await;
    assert!(events.contains(r#""type":"DELETED""#), "{events}");
}

async fn writes(tester: &Tester) {
    let (code, made) = tester.json("POST", LIST, crontab("* * * * *")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["replicas"], 1, "defaults are applied");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(tester.json("POST", LIST, crontab("x")).await.0, 409);
    let mut wrong = crontab("x");
    wrong["metadata"]["name"] = "other".into();
    wrong["spec"]["replicas"] = 11.into();
    let (code, refused) = tester.json("POST", LIST, wrong.clone()).await;
    assert_eq!((code, refused["reason"].as_str()), (422, Some("Invalid")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("spec.replicas: Invalid value: 11"), "{refused}");
    wrong["spec"] = json!({"cronSpec": "x", "unheardOf": 1});
    let (code, refused) = tester.json("POST", &format!("{LIST}?fieldValidation=Strict"), wrong.clone()).await;
    assert_eq!(code, 400, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(r#"unknown field "spec.unheardOf""#), "{refused}");
    let (code, pruned) = tester.json("POST", &format!("{LIST}?dryRun=All"), wrong).await;
    assert_eq!((code, pruned["spec"].get("unheardOf")), (201, None), "{pruned}");
    let mut changed = made.clone();
    changed["spec"]["replicas"] = 3.into();
    changed["status"] = json!({"runs": 5});
    let (code, changed) = tester.json("PUT", ONE, changed).await;
    assert_eq!((code, &changed["metadata"]["generation"], changed.get("status")), (200, &json!(2), None), "{changed}");
    assert_eq!(tester.json("PUT", ONE, made).await.0, 409, "the old version is stale");
    let mut counted = changed.clone();
    counted["status"] = json!({"runs": 7});
    counted["spec"]["replicas"] = 9.into();
    let (code, counted) = tester.json("PUT", &format!("{ONE}/status"), counted).await;
    assert_eq!(
        (code, &counted["status"]["runs"], &counted["spec"]["replicas"]),
        (200, &json!(7), &json!(3)),
        "{counted}"
    );
}

async fn reads(tester: &Tester) {
    let (code, one) = tester.get(ONE).await;
    assert_eq!((code, one["kind"].as_str()), (200, Some("CronTab")));
    let (code, list) = tester.get("/apis/stable.example.com/v1/crontabs").await;
    assert_eq!(
        (code, list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
        (200, Some("CronTabList"), Some(1))
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (code, text) = tester.send("GET", LIST, &[("accept", table)], "").await;
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, shown["kind"].as_str(), &shown["rows"][0]["cells"][0]), (200, Some("Table"), &json!("mine")));
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let (_, text) = tester.send("GET", ONE, &[("accept", partial)], "").await;
    assert!(text.contains("PartialObjectMetadata") && !text.contains("* * * * *"), "{text}");
    let (code, text) = tester.send("GET", ONE, &[("accept", "application/yaml")], "").await;
    assert!(code == 200 && text.contains("cronSpec: '* * * * *'"), "{text}");
    let (code, _) = tester.send("GET", ONE, &[("accept", "application/vnd.kubernetes.protobuf")], "").await;
    assert_eq!(code, 406, "custom resources have no protobuf form");
    assert_eq!(tester.get(&format!("{LIST}?labelSelector=a%3Db")).await.1["items"], json!([]));
    assert_eq!(
        tester.get(&format!("{LIST}?fieldSelector=metadata.name%3Dmine")).await.1["items"][0]["kind"],
        "CronTab"
    );
}

async fn patches(tester: &Tester) {
    let (code, patched) = tester.patch("application/merge-patch+json", ONE, json!({"spec": {"replicas": 4}})).await;
    assert_eq!((code, &patched["spec"]["replicas"]), (200, &json!(4)), "{patched}");
    let operations = json!([{"op": "replace", "path": "/spec/cronSpec", "value": "0 * * * *"}]);
    let (code, patched) = tester.patch("application/json-patch+json", ONE, operations).await;
    assert_eq!((code, patched["spec"]["cronSpec"].as_str()), (200, Some("0 * * * *")), "{patched}");
    let (code, _) = tester.patch("application/strategic-merge-patch+json", ONE, json!({"spec": {}})).await;
    assert_eq!(code, 415);
    let applied = |weight: i64| {
        let mut object = crontab("0 * * * *");
        object["spec"] = json!({"parts": [{"name": "a", "weight": weight}]});
        object
    };
    let path = |manager: &str| format!("{ONE}?fieldManager={manager}");
    let (code, one) = tester.patch("application/apply-patch+yaml", &path("one"), applied(1)).await;
    assert_eq!((code, &one["spec"]["parts"]), (200, &json!([{"name": "a", "weight": 1}])), "{one}");
    let (code, two) = tester.patch("application/apply-patch+yaml", &path("two"), applied(2)).await;
    assert_eq!(code, 409, "{two}");
    assert!(two["message"].as_str().unwrap().contains(r#"conflict with "one": .spec.parts[name="a"].weight"#), "{two}");
    let (code, _) = tester.patch("application/apply-patch+yaml", &(path("two") + "&force=true"), applied(2)).await;
    assert_eq!(code, 200);
}

async fn watches(tester: &Tester) {
    let (_, list) = tester.get(LIST).await;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    let path = format!("{LIST}?watch=1&resourceVersion={from}&timeoutSeconds=2");
    let follow = tester.send("GET", &path, &[], "");
    let change = async {
        tester.patch("application/merge-patch+json", ONE, json!({"metadata": {"labels": {"a": "b"}}})).await.0
    };
    let ((code, events), changed) = tokio::join!(follow, change);
    assert_eq!((code, changed), (200, 200));
    let event: Value = serde_json::from_str(events.lines().next().expect("an event")).unwrap();
    assert_eq!((event["type"].as_str(), event["object"]["kind"].as_str()), (Some("MODIFIED"), Some("CronTab")));
}

async fn is_discovered(tester: &Tester) {
    let (_, groups) = tester.get("/apis").await;
    assert!(groups.to_string().contains("stable.example.com/v1"));
    let (code, resources) = tester.get("/apis/stable.example.com/v1").await;
    assert_eq!(code, 200);
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["crontabs", "crontabs/status"]);
    let aggregated = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
    let (_, text) = tester.send("GET", "/apis", &[("accept", aggregated)], "").await;
    assert!(text.contains("APIGroupDiscoveryList") && text.contains("\"crontabs\""), "it is in aggregated discovery");
    let (_, third) = tester.get("/openapi/v3/apis/stable.example.com/v1").await;
    let kind = &third["components"]["schemas"]["com.example.stable.v1.CronTab"];
    assert_eq!(kind["properties"]["spec"]["properties"]["cronSpec"]["type"], "string", "{third}");
    let (_, second) = tester.get("/openapi/v2").await;
    assert!(second["definitions"].get("com.example.stable.v1.CronTab").is_some(), "it is in OpenAPI v2");
}
