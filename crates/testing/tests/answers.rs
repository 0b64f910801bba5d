//! What a real server answers to requests that are a little off, through the whole server: negotiation, options, patches
//! that change what an object is, subresources in other forms.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

#[path = "answers/metrics.rs"]
mod metrics;
#[path = "answers/rules.rs"]
mod rules;
#[path = "answers/versions.rs"]
mod versions;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use testing::Server;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/c";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/d/scale";
const FLOW_SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// A request, and the code and some of the text of its answer.
struct Case {
    request: Request<Body>,
    about: String,
    code: u16,
    text: &'static str,
}

fn case(method: &str, path: &str, headers: &[(&str, &str)], body: &str, code: u16, text: &'static str) -> Case {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let about = format!("{method} {path} {headers:?} {body}");
    Case { request: request.body(Body::from(body.as_bytes().to_vec())).unwrap(), about, code, text }
}

fn get(path: &str, accept: &str, code: u16, text: &'static str) -> Case {
    case("GET", path, &[("accept", accept)], "", code, text)
}

fn delete(path: &str, code: u16, text: &'static str) -> Case {
    case("DELETE", path, &[], "", code, text)
}

fn patch(path: &str, kind: &str, body: &str, code: u16, text: &'static str) -> Case {
    let path = format!("{path}?dryRun=All&fieldManager=m");
    case("PATCH", &path, &[("content-type", &format!("application/{kind}"))], body, code, text)
}

fn send(method: &str, path: &str, body: &str, code: u16, text: &'static str) -> Case {
    case(method, path, &[("content-type", "application/json")], body, code, text)
}

async fn check(client: &Client, case: Case) {
    let response = client.send(case.request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    // A failure's message as it was before it became JSON, which has quotes enough of its own.
    let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = match status["message"].as_str() {
        Some(message) if code >= 400 && !case.text.starts_with('{') => message.into(),
        _ => String::from_utf8_lossy(&bytes),
    };
    assert_eq!(code, case.code, "{}\n{text}", case.about);
    assert!(text.contains(case.text), "{}\n{text}", case.about);
}

fn setup() -> Vec<Case> {
    let deployment = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    let event = r#"{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R", "message": "m",
        "type": "Normal", "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}"#;
    vec![
        send("POST", MAPS, r#"{"metadata": {"name": "c"}, "data": {"a": "<x>"}}"#, 201, ""),
        send("POST", DEPLOYMENTS, deployment, 201, ""),
        send("POST", "/api/v1/namespaces/default/events", event, 201, r#""managedFields""#),
    ]
}

fn negotiation() -> Vec<Case> {
    vec![
        get(MAP, "application/*", 406, "406: Not Acceptable"),
        get(MAP, "text/html", 406, "{\n  \"kind\": \"Status\""),
        get(MAP, "text/html, */*;q=0.1", 200, r#""kind":"ConfigMap""#),
        get(MAP, "application/json;as=Bogus;v=v1;g=meta.k8s.io", 406, "only the following media types are accepted"),
        get(MAP, METADATA_LIST, 406, "the requested object is not a list (*core.ConfigMap)"),
        get(MAPS, METADATA, 406, "the requested object is a list (*core.ConfigMapList)"),
        get(SCALE, TABLE, 200, r#""cells":["d",1,0,""#),
        get(FLOW_SCHEMAS, TABLE, 200, r#""rows":[{"cells":["exempt","exempt",1,"#),
        get(FLOW_SCHEMAS, "application/json", 200, r#""items":[{"metadata":{"name":"catch-all""#),
        get(SCALE, METADATA, 200, r#""kind":"PartialObjectMetadata""#),
        get(SCALE, METADATA_LIST, 406, "the requested object is not a list (*autoscaling.Scale)"),
        // The other end of a connection decides what it can send; a log is text.
        get("/api/v1/nodes/none/proxy", "text/html", 404, "nodes \"none\" not found"),
        get("/api/v1/namespaces/default/pods/none/proxy/x", "image/png", 404, "pods \"none\" not found"),
        get("/api/v1/namespaces/default/pods/none/exec", ";", 404, "pods \"none\" not found"),
        get(
            "/api/v1/namespaces/default/pods/none/log",
            "text/html",
            406,
            "representations: text/plain, application/json",
        ),
        get(
            "/api/v1/namespaces/default/pods/none/log",
            "text/plain",
            406,
            "only the following media types are accepted",
        ),
        get("/api/v1/namespaces/default/finalize", TABLE, 405, "the server does not allow this method"),
        get(&format!("{MAPS}?limit=1&continue=zz"), "application/json", 400, "invalid character"),
    ]
}

/// Paths and content types that Go reads in a way of its own.
fn spelling() -> Vec<Case> {
    let typed = |content_type: &str, code| {
        let path = format!("{MAPS}?dryRun=All");
        case("POST", &path, &[("content-type", content_type)], r#"{"metadata": {"name": "x"}}"#, code, "")
    };
    let here = "/api/v1/namespaces/default";
    vec![
        get(&format!("{here}/configmaps/%2F"), "", 200, r#""kind":"ConfigMapList""#),
        get(&format!("{here}/configmaps//"), "", 200, r#""kind":"ConfigMapList""#),
        get(&format!("{here}/configmaps//c"), "", 404, "the server could not find the requested resource"),
        get("/api/v1/namespaces//default/configmaps", "", 404, "the server could not find the requested resource"),
        get("/api//v1/configmaps", "", 404, "the server could not find the requested resource"),
        get("//api/v1/configmaps", "", 404, "404 page not found"),
        get("/apis//apps/v1/deployments", "", 404, "404 page not found"),
        get("/apis/%2Fapps/v1/deployments", "", 404, "404 page not found"),
        get("/%76ersion", "", 200, r#""gitVersion""#),
        get(&format!("{MAP}?resourceVersion=%zz"), "", 200, r#""kind":"ConfigMap""#),
        send("POST", "/api/v1/watch/namespaces/default/configmaps", "{}", 405, ""),
        typed("APPLICATION/JSON; charset=utf-8", 201),
        typed("application/json; charset", 415),
        typed("application/json; a=1; a=2", 415),
    ]
}

const THINGS: &str = "/apis/answers.example.com/v1/namespaces/default/things";

fn definition() -> Case {
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.answers.example.com"}, "spec": {"group": "answers.example.com",
        "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true,
        "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;
    send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, 201, "")
}

/// Custom resources whose type a patch changes.
fn custom() -> Vec<Case> {
    let thing = &format!("{THINGS}/t");
    let status = &format!("{THINGS}/t/status");
    let merge = "merge-patch+json";
    let version = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
    vec![
        send(
            "POST",
            THINGS,
            r#"{"apiVersion": "answers.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}"#,
            201,
            "",
        ),
        get(thing, METADATA_LIST, 500, "content is not a list"),
        get("/apis/answers.example.com/v1/namespaces//things/t", "", 404, "404 page not found"),
        patch(
            thing,
            merge,
            r#"{"kind": null}"#,
            422,
            "Object 'Kind' is missing in '{\"apiVersion\":\"answers.example.com/v1\"",
        ),
        patch(
            thing,
            merge,
            r#"{"kind": 5}"#,
            422,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number",
        ),
        patch(thing, merge, r#"{"apiVersion": "a/b/c"}"#, 422, "unexpected GroupVersion string: a/b/c"),
        patch(thing, merge, r#"{"apiVersion": null}"#, 500, version),
        patch(thing, merge, r#"{"kind": "Other"}"#, 422, r#"kind: Invalid value: "Other": must be Thing"#),
        patch(status, merge, r#"{"kind": "Other"}"#, 200, r#""kind":"Thing""#),
        patch(
            &format!("{THINGS}/gone/status"),
            "apply-patch+yaml",
            r#"{"apiVersion": "answers.example.com/v1", "kind": "Thing",
            "metadata": {"name": "other"}}"#,
            404,
            r#"things.answers.example.com "gone" not found"#,
        ),
        patch(MAP, merge, r#"{"apiVersion": null}"#, 400, "was undeterminable: name must be provided"),
        patch(
            MAP,
            merge,
            r#"{"apiVersion": "apps/v1", "kind": "Status"}"#,
            422,
            "converting (v1.Status) to (core.ConfigMap)",
        ),
        patch(
            MAP,
            merge,
            r#"{"apiVersion": "meta.k8s.io/v1", "kind": "Table"}"#,
            422,
            r#"no kind "Table" is registered"#,
        ),
    ]
}

/// Requests that are refused before they reach a resource get the refusal in a media type that they accept.
fn refusals() -> Vec<Case> {
    let indented = "{\n  \"kind\": \"Status\"";
    vec![
        get(MAP, "application/json", 403, r#"configmaps "c" is forbidden: User "nobody" cannot get"#),
        get(MAP, TABLE, 403, indented),
        get(MAP, "text/html", 403, indented),
        get(MAP, "application/cbor", 403, indented),
        get(MAP, "application/*", 403, r#"{"kind":"Status""#),
        get(&format!("{MAP}?pretty=1"), "application/json", 403, indented),
        get(&format!("{MAP}?pretty=x"), "application/json", 403, r#"{"kind":"Status""#),
        get(MAP, "application/yaml", 403, "kind: Status\nmessage: 'configmaps \"c\" is forbidden"),
        get(MAP, "application/vnd.kubernetes.protobuf", 403, "k8s\0\n\x0c\n\x02v1\x12\x06Status"),
        get(&format!("{MAP}?timeout=x"), "application/yaml", 400, "message: 'invalid timeout specified"),
    ]
}

fn selection() -> Vec<Case> {
    let certificates = "/apis/certificates.k8s.io/v1/podcertificaterequests?fieldSelector=metadata.namespace=x";
    let slices = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=metadata.namespace=";
    vec![
        get(certificates, "application/json", 400, "field label not supported: metadata.namespace"),
        get(slices, "application/json", 400, "Kind=ResourceSlice: metadata.namespace"),
    ]
}

fn deletion() -> Vec<Case> {
    let unsafely = |path: &str, more: &str| format!("{path}?{UNREADABLE}=true{more}");
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
    vec![
        delete(&format!("{MAP}?dryRun=All&preconditions.uid=x"), 200, ""),
        delete(&format!("{MAP}?dryRun=All&uid=x"), 409, "the UID in the precondition (x) does not match"),
        delete(&format!("{MAP}?dryRun=All&resourceVersion=1"), 409, "the ResourceVersion in the precondition (1)"),
        delete(&unsafely(MAP, ""), 409, "unsafe deletion is not allowed because the object is decodable"),
        delete(&unsafely(MAP, "&gracePeriodSeconds=1"), 422, "cannot be set together with .gracePeriodSeconds"),
        delete(&unsafely(&format!("{MAPS}/gone"), ""), 404, "not found"),
        delete(&unsafely(MAPS, ""), 422, "is not allowed with DELETECOLLECTION"),
        delete(&unsafely(binding, ""), 500, "no unsafe deleter provided"),
        // Upstream refuses to delete system classes one by one only.
        delete(&format!("{CLASSES}/system-node-critical?dryRun=All"), 403, "cannot be deleted"),
        delete(&format!("{CLASSES}?dryRun=All"), 200, "system-node-critical"),
        delete("/api/v1/configmaps", 405, "the server does not allow this method on the requested resource"),
        send("POST", "/api/v1/configmaps", r#"{"metadata": {"name": "x"}}"#, 405, ""),
        get(MAP, "application/json", 200, r#""name":"c""#),
    ]
}

fn patches() -> Vec<Case> {
    let event = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let merge = "merge-patch+json";
    let json = "json-patch+json";
    vec![
        patch("/apis/apps/v1/namespaces/default/deployments/none/scale", merge, "{", 400, "invalid JSON patch"),
        patch(MAP, "apply-patch+yaml", "{", 400, "error decoding patch: error converting YAML to JSON: yaml: line 1: "),
        patch(MAP, "apply-patch+yaml", "a: [", 400, "error encoding patch: yaml: line 1: "),
        patch(MAP, merge, r#"{"kind": "X"}"#, 422, r#"no kind "X" is registered for version "v1""#),
        patch(
            MAP,
            merge,
            r#"{"kind": "Secret"}"#,
            422,
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        patch(MAP, merge, r#"{"apiVersion": "a/b/c"}"#, 422, "unexpected GroupVersion string: a/b/c"),
        patch(MAP, merge, r#"{"data": {"x": 18446744073709551616}}"#, 422, r#"\"x\":18446744073709551616"#),
        patch(
            MAP,
            merge,
            r#"{"data": {"x": 1e400}}"#,
            400,
            "cannot unmarshal number 1e400 into Go value of type float64",
        ),
        patch(
            MAP,
            merge,
            r#"{"metadata": {"generation": 1.0}}"#,
            422,
            "cannot unmarshal number 1.0 into Go struct field",
        ),
        patch(MAP, json, r#"[{"op": "test", "path": "/data/a", "value": "<x>"}]"#, 422, ""),
        patch(MAP, json, r#"[{"op": "test", "path": "/data/a", "value": "\u003cx\u003e"}]"#, 200, ""),
        patch(
            MAP,
            json,
            r#"[{"op": "add", "path": "/data/z", "value": {"b": 1, "a": 2}}]"#,
            422,
            r#"\"z\":{\"b\":1,\"a\":2}"#,
        ),
        case(
            "PATCH",
            &format!("{MAP}?dryRun=All&fieldManager=m&force=true&fieldValidation=Strict"),
            &[("content-type", "application/apply-patch+yaml")],
            "apiVersion: v1\nkind: ConfigMap\ndata: {a: p, a: q}",
            400,
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors",
        ),
        patch(
            event,
            merge,
            r#"{"metadata": {"labels": {"a": "b"}}}"#,
            200,
            r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}}]"#,
        ),
        send(
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/d",
            r#"{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "d"}}"#,
            400,
            "converting (v1.ReplicaSet) to (apps.Deployment): unknown conversion",
        ),
    ]
}

fn subresources() -> Vec<Case> {
    let scale = |metadata: &str| {
        format!(
            r#"{{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {{"name": "d"{metadata}}}, "spec": {{}}}}"#
        )
    };
    let bindings = "/api/v1/namespaces/default/bindings";
    let not_there = "/api/v1/namespaces/default/endpoints/gone?dryRun=All";
    let endpoints = r#"{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "gone", "uid": "u"}}"#;
    vec![
        send(
            "PUT",
            SCALE,
            &scale(r#", "namespace": "other""#),
            400,
            "does not match the namespace sent on the request",
        ),
        send("PUT", SCALE, &scale(r#", "resourceVersion": "x""#), 500, r#"strconv.ParseUint: parsing "x""#),
        send(
            "PUT",
            SCALE,
            &scale(r#", "uid": "u""#),
            409,
            "StorageError: invalid object, Code: 4, Key: /registry/deployments/",
        ),
        send("PUT", not_there, endpoints, 409, "Key: /services/endpoints/default/gone"),
        send("POST", bindings, "{}", 500, "target.name: Required value"),
        send("POST", bindings, r#"{"target": {"name": "n"}}"#, 400, "Name parameter required."),
    ]
}

/// How the rest of a control plane is, which is not there.
fn components() -> Vec<Case> {
    const COMPONENTS: &str = "/api/v1/componentstatuses";
    const JSON: &str = "application/json";
    let selected = |selector: &str| format!("{COMPONENTS}?{selector}");
    let none = r#""metadata":{},"items":[]"#;
    let store = r#"{"metadata":{"name":"etcd-0"},"conditions":[{"type":"Healthy","status":"True","message":"ok"}]}"#;
    let refused =
        r#""status":"False","message":"Get \"https://127.0.0.1:10259/healthz\": dial tcp 127.0.0.1:10259: connect: "#;
    vec![
        get(COMPONENTS, JSON, 200, store),
        get(COMPONENTS, JSON, 200, refused),
        get(
            COMPONENTS,
            TABLE,
            200,
            r#""cells":["etcd-0","Healthy","ok",""],"object":{"kind":"PartialObjectMetadata","apiVersion":"#,
        ),
        get(COMPONENTS, METADATA_LIST, 200, r#""name":"scheduler""#),
        get(&selected("fieldSelector=metadata.name%3Detcd-0"), JSON, 200, store),
        get(&selected("labelSelector=a"), JSON, 200, none),
        get(
            "/api/v1/componentstatuses/etcd-0",
            JSON,
            200,
            r#""kind":"ComponentStatus","apiVersion":"v1","metadata":{"name":"etcd-0"}"#,
        ),
        get("/api/v1/componentstatuses/etcd-9", JSON, 404, "componentstatus \"etcd-9\" not found"),
        send("POST", COMPONENTS, "{}", 405, ""),
        get(&selected("watch=1"), JSON, 405, "watch is not supported on resources of kind \"componentstatuses\""),
    ]
}

/// What others have left in the store that is no object: a value that was cut off, and an encrypted one.
async fn spoil(server: &Server) {
    let catalog = server.running().api.catalog.load();
    for (resource, name, value) in [
        ("configmaps", "cut", &b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\n\x10\n\x01"[..]),
        ("configmaps", "sealed", b"k8s:enc:aescbc:v1:key1:what nobody can read"),
        ("pods", "cut", b"k8s\0\n\x09\n\x02v1\x12\x03Pod\x12\x05\n\x10\n\x01"),
    ] {
        let storage = catalog.stored("", resource).unwrap();
        storage.store.create(storage.key("default", name), value.into(), None).await.unwrap();
    }
}

fn unreadable() -> Vec<Case> {
    const CUT: &str = "/api/v1/namespaces/default/configmaps/cut";
    const SEALED: &str = "/api/v1/namespaces/default/configmaps/sealed";
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const JSON: &str = "application/json";
    let cut = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /configmaps/default/cut, \
        ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";
    let sealed =
        "data from the storage is not transformable revision=0: identity transformer tried to read encrypted data";
    let list = "failed to read one or more configmaps from the storage: StorageError: corrupt object, Code: 7, Key: \
        /registry/configmaps/default/cut, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";
    let pods = "failed to read one or more pods from the storage";
    let selected = |path: &str, selector: &str| format!("{path}?{selector}");
    let done = r#""status":"Success","details":{"name":"cut","kind":"ConfigMap"},"code":200}"#;
    let unsafely = |path: &str, more: &str| format!("{path}?{UNREADABLE}=true{more}");
    vec![
        get(CUT, JSON, 500, cut),
        get(CUT, TABLE, 500, cut),
        get(SEALED, JSON, 500, sealed),
        get(MAPS, JSON, 500, list),
        get(MAPS, TABLE, 500, list),
        get(MAPS, "application/vnd.kubernetes.protobuf", 500, ""),
        get(MAPS, "application/yaml", 500, "(and 1 more)"),
        get(&selected(MAPS, "labelSelector=a%3Db"), JSON, 500, r#"{"kind":"Status""#),
        get(&selected(MAPS, "labelSelector=a%3Db"), JSON, 500, "(and 1 more)"),
        get(&selected(PODS, "fieldSelector=spec.nodeName%3Dn"), JSON, 500, pods),
        get(&selected(MAPS, "watch=1&timeoutSeconds=60"), JSON, 200, r#"{"type":"ERROR""#),
        send("POST", MAPS, r#"{"metadata": {"name": "cut"}}"#, 409, "already exists"),
        send("PUT", CUT, r#"{"metadata": {"name": "cut"}}"#, 500, "object not decodable revision="),
        send(
            "PUT",
            SEALED,
            r#"{"metadata": {"name": "sealed"}}"#,
            500,
            "Internal error occurred: data from the storage",
        ),
        patch(CUT, "merge-patch+json", "{}", 500, "object not decodable revision="),
        delete(CUT, 500, cut),
        delete(MAPS, 500, list),
        get(MAP, JSON, 200, r#""name":"c""#),
        delete(&unsafely(CUT, "&dryRun=All"), 200, done),
        delete(&unsafely(CUT, ""), 200, done),
        delete(&unsafely(CUT, ""), 404, "not found"),
        delete(&unsafely(SEALED, ""), 200, r#""code":200"#),
        get(MAPS, JSON, 200, r#""name":"c""#),
        delete(MAPS, 200, r#""name":"c""#),
    ]
}

/// A list that is being sent already when something in it turns out to be unreadable ends as an error, not as a shorter list.
async fn a_list_is_whole_or_none(server: &Server, client: &Client) {
    for index in 0..20 {
        let body = format!(r#"{{"metadata": {{"name": "large-{index}"}}, "data": {{"a": "{}"}}}}"#, "x".repeat(10_000));
        check(client, send("POST", MAPS, &body, 201, "")).await;
    }
    let storage = server.running().api.catalog.load().stored("", "configmaps").unwrap().clone();
    storage.store.create(storage.key("default", "zz"), (&b"no object"[..]).into(), None).await.unwrap();
    // Whether the client sees the beginning depends on how much of it was sent before.
    if let Ok(response) = client.send(get(MAPS, "application/json", 0, "").request).await {
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_not_overlooked() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    check(&client, send("POST", MAPS, r#"{"metadata": {"name": "c"}}"#, 201, "")).await;
    spoil(&server).await;
    for case in unreadable() {
        check(&client, case).await;
    }
    a_list_is_whole_or_none(&server, &client).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_a_little_off_are_answered_as_upstream_does() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    let all = [setup(), negotiation(), spelling(), selection(), deletion(), patches(), subresources(), components()];
    for case in all.into_iter().flatten() {
        check(&client, case).await;
    }
    check(&client, definition()).await;
    for case in custom() {
        check(&client, case).await;
    }
    let nobody = server.client_for("nobody", &[]).await.unwrap();
    for case in refusals() {
        check(&nobody, case).await;
    }
    server.stop().await;
}
