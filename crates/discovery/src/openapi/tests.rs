//! OpenAPI documents, held to those of a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::Documents;
use crate::testing::{Server, catalog, crontabs, recorded};

/// The document without prose, which the recording does not have.
fn bare(document: Json) -> Json {
    match document {
        Json::Object(map) => {
            // A property may be called "description" as well, but then it is not text.
            let kept = map.into_iter().filter(|(key, value)| key != "description" || !value.is_string());
            Json::Object(kept.map(|(key, value)| (key, bare(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(bare).collect()),
        other => other,
    }
}

async fn documents(server: &Server) -> BTreeMap<String, Json> {
    let index = server.get("/openapi/v3", &[]).await.json();
    let mut documents = BTreeMap::new();
    for (name, entry) in index["paths"].as_object().unwrap() {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let answer = server.get(url, &[]).await;
        assert_eq!(answer.code, 200, "{url}");
        assert_eq!(answer.header("cache-control"), "public, immutable", "{url}");
        documents.insert(name.clone(), answer.json());
    }
    documents
}

/// Compares maps entry by entry, so that a failure shows the one that differs.
fn compare(got: &Map<String, Json>, want: &Map<String, Json>) {
    let names = |map: &Map<String, Json>| map.keys().cloned().collect::<BTreeSet<_>>();
    let (ours, theirs) = (names(got), names(want));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let more: Vec<_> = ours.difference(&theirs).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing: {missing:?}, too many: {more:?}");
    for (name, value) in want {
        assert_eq!(got[name], *value, "{name}");
    }
}

#[tokio::test]
async fn schemas_of_the_third_version_are_those_of_a_real_server() {
    for (file, all) in [("openapi/v3-schemas.json", false), ("all-apis/v3-schemas-added.json", true)] {
        let recorded = recorded(file);
        let server = Server::new(catalog(all));
        let mut schemas = Map::new();
        for (_, mut document) in documents(&server).await {
            if let Json::Object(found) = document["components"]["schemas"].take() {
                schemas.extend(found.into_iter().map(|(name, schema)| (name, bare(schema))));
            }
        }
        let mut want = recorded.as_object().unwrap().clone();
        // Kinds that exist in every group-version are recorded with those of one document or another.
        for name in ["DeleteOptions", "WatchEvent"] {
            let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
            want.remove(&name);
            schemas.remove(&name);
        }
        if all {
            // Only what a server with everything on has in addition was recorded.
            schemas.retain(|name, _| want.contains_key(name));
        }
        compare(&schemas, &want);
    }
}

#[tokio::test]
async fn definitions_of_the_second_version_are_those_of_a_real_server() {
    let recorded = recorded("openapi/v2-definitions.json");
    let server = Server::new(catalog(false));
    let document = server.get("/openapi/v2", &[]).await.json();
    compare(bare(document["definitions"].clone()).as_object().unwrap(), recorded.as_object().unwrap());
}

#[tokio::test]
async fn operations_are_those_of_a_real_server() {
    let recorded = recorded("openapi/v3-paths.json");
    let server = Server::new(catalog(false));
    let mut paths = Map::new();
    for (_, mut document) in documents(&server).await {
        let Json::Object(found) = bare(document["paths"].take()) else { panic!("no paths") };
        paths.extend(found);
    }
    // What is sent and answered was not recorded.
    for item in paths.values_mut() {
        for operation in item.as_object_mut().unwrap().values_mut().filter_map(Json::as_object_mut) {
            operation.retain(|key, _| !matches!(key.as_str(), "requestBody" | "responses"));
        }
    }
    compare(&paths, recorded.as_object().unwrap());
}

#[tokio::test]
async fn the_index_is_that_of_a_real_server() {
    let recorded = recorded("openapi/v3-index.json");
    let server = Server::new(catalog(false));
    let names: Vec<String> = documents(&server).await.into_keys().collect();
    let want = recorded.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    assert_eq!(names, want.collect::<Vec<_>>());
}

#[tokio::test]
async fn both_versions_have_the_same_operations() {
    let server = Server::new(catalog(true));
    server.change(vec![crontabs("v1")], &[]);
    let ids = |paths: &Json| -> BTreeSet<String> {
        let items = paths.as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
        items.filter_map(|operation| operation.get("operationId")).map(Json::to_string).collect()
    };
    let second = ids(&server.get("/openapi/v2", &[]).await.json()["paths"]);
    let third: BTreeSet<String> = documents(&server).await.values().flat_map(|d| ids(&d["paths"])).collect();
    assert_eq!(second, third);
    assert!(second.len() > 900, "{}", second.len());
}

#[tokio::test]
async fn every_reference_leads_somewhere() {
    let server = Server::new(catalog(true));
    server.change(vec![crontabs("v1")], &[]);
    let second = server.get("/openapi/v2", &[]).await.json();
    for (name, document) in documents(&server).await.into_iter().chain([("v2".to_string(), second)]) {
        let mut open = vec![&document];
        while let Some(value) = open.pop() {
            match value {
                Json::Object(map) => {
                    if let Some(Json::String(reference)) = map.get("$ref") {
                        let path = reference.strip_prefix('#').unwrap();
                        assert!(document.pointer(path).is_some(), "{name}: {reference}");
                    }
                    open.extend(map.values());
                }
                Json::Array(items) => open.extend(items),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn kinds_that_are_everywhere_name_their_group_versions() {
    let server = Server::new(catalog(false));
    server.change(vec![crontabs("v1")], &[]);
    let count = |document: &Json, schemas: &str| {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
        let schemas = document.pointer(schemas).unwrap();
        schemas[name]["x-kubernetes-group-version-kind"].as_array().map(Vec::len)
    };
    let documents = documents(&server).await;
    // As counted on v1.37.1.
    assert_eq!(count(&documents["api/v1"], "/components/schemas"), Some(1));
    assert_eq!(count(&documents["apis/apps/v1"], "/components/schemas"), Some(2));
    assert_eq!(count(&documents["apis/stable.example.com/v1"], "/components/schemas"), Some(55));
    assert_eq!(count(&server.get("/openapi/v2", &[]).await.json(), "/definitions"), Some(62));
}

#[tokio::test]
async fn custom_kinds_are_written_from_their_schema() {
    let server = Server::new(catalog(false));
    server.change(vec![crontabs("v1")], &[]);
    let third = bare(server.get("/openapi/v3/apis/stable.example.com/v1", &[]).await.json());
    assert_eq!(third["info"]["title"], "Kubernetes CRD Swagger");
    let reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let spec = serde_json::json!({
        "type": "object",
        "required": ["cronSpec"],
        "properties": {
            "cronSpec": {"type": "string"},
            "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
            "replicas": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10},
        },
    });
    let kind = &third["components"]["schemas"]["com.example.stable.v1.CronTab"];
    assert_eq!(kind["properties"]["spec"], spec);
    assert_eq!(kind["properties"]["apiVersion"], serde_json::json!({"type": "string"}));
    let gvk = serde_json::json!([{"group": "stable.example.com", "kind": "CronTab", "version": "v1"}]);
    assert_eq!(kind["x-kubernetes-group-version-kind"], gvk);
    let metadata = kind["properties"]["metadata"].to_string();
    assert!(metadata.contains(reference), "{metadata}");
    let second = bare(server.get("/openapi/v2", &[]).await.json());
    let port = &second["definitions"]["com.example.stable.v1.CronTab"]["properties"]["spec"]["properties"]["port"];
    assert_eq!(*port, serde_json::json!({"x-kubernetes-int-or-string": true}));
    let scale = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/scale";
    assert_eq!(third["paths"][scale]["put"]["operationId"], "replaceStableExampleComV1NamespacedCronTabScale");
}

#[test]
fn documents_are_kept_while_their_resources_are_the_same() {
    let mut catalog = catalog(false);
    let before = Documents::new(&catalog, &[], None);
    catalog.insert(crontabs("v1"));
    let after = Documents::new(&catalog, &[], Some(&before));
    let same =
        |after: &Documents, before: &Documents, name| Arc::ptr_eq(after.v3(name).unwrap(), before.v3(name).unwrap());
    assert!(same(&after, &before, "apis/apps/v1"));
    assert!(before.v3("apis/stable.example.com/v1").is_none());
    // The same name and another resource.
    catalog.insert(crontabs("v1"));
    let again = Documents::new(&catalog, &[], Some(&after));
    assert!(!same(&again, &after, "apis/stable.example.com/v1"));
    assert!(same(&again, &before, "apis/apps/v1"));
}

#[tokio::test]
async fn documents_are_sent_once() {
    let server = Server::new(catalog(false));
    for path in ["/openapi/v2", "/openapi/v3/apis/apps/v1"] {
        let answer = server.get(path, &[]).await;
        let etag = answer.header("etag").to_string();
        assert_eq!(answer.header("last-modified"), "Sun, 15 Nov 2026 09:25:40 GMT");
        assert_eq!(etag, format!("\"{}\"", crate::hash::sha512(&answer.body)));
        for headers in [[("if-none-match", etag.as_str())], [("if-modified-since", "Sun, 15 Nov 2026 09:25:40 GMT")]] {
            let again = server.get(path, &headers).await;
            assert_eq!((again.code, again.body.len(), again.header("etag")), (304, 0, etag.as_str()), "{headers:?}");
        }
        assert_eq!(server.get(path, &[("if-none-match", "\"other\"")]).await.code, 200);
        assert_eq!(server.get(path, &[("if-modified-since", "Sun, 15 Nov 2026 09:25:39 GMT")]).await.code, 200);
    }
    let moved = server.get("/openapi/v3/apis/apps/v1?hash=old", &[]).await;
    assert_eq!(moved.code, 301);
    let there = server.get(moved.header("location"), &[]).await;
    assert_eq!((there.code, there.header("expires")), (200, "Mon, 15 Nov 2027 09:25:40 UTC"));
}

#[tokio::test]
async fn forms_are_negotiated() {
    let server = Server::new(catalog(false));
    let old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let new = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let v3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let cases = [
        ("/openapi/v2", "", 200, "application/json"),
        ("/openapi/v2", "application/yaml,*/*;q=0.1", 200, "application/json"),
        ("/openapi/v2", old, 200, new),
        ("/openapi/v2", new, 200, new),
        ("/openapi/v2", "text/html", 406, ""),
        ("/openapi/v3", "text/html", 200, "text/plain; charset=utf-8"),
        ("/openapi/v3/apis/apps/v1", v3, 200, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"),
        ("/openapi/v3/apis/apps/v1", "text/html", 406, ""),
        ("/openapi/v3/apis/apps/v1/", "", 404, ""),
        ("/openapi/v3/", "", 404, ""),
        ("/openapi/v3/nope", "", 404, ""),
    ];
    for (path, accept, code, media) in cases {
        let headers: &[(&str, &str)] = if accept.is_empty() { &[] } else { &[("accept", accept)] };
        let answer = server.get(path, headers).await;
        assert_eq!((answer.code, answer.header("content-type")), (code, media), "{path} {accept}");
    }
}

#[tokio::test]
async fn people_find_descriptions() {
    let server = Server::new(catalog(false));
    let document = server.get("/openapi/v3/apis/apps/v1", &[]).await.json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut bare = Vec::new();
    for (name, schema) in schemas {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let all = fields.map(|(field, schema)| (field.as_str(), schema)).chain([("", schema)]);
        bare.extend(
            all.filter(|(_, schema)| schema["description"].is_null()).map(|(field, _)| format!("{name}.{field}")),
        );
    }
    // As few as a real server leaves without one.
    assert!(bare.len() < 10, "{bare:?}");
    // What people and scripts look for in a server's document.
    let answer = server.get("/openapi/v2", &[]).await;
    for text in ["List of services", "Standard list metadata.", "Watch for changes to the described resources"] {
        assert!(answer.text().contains(text), "{text}");
    }
}
