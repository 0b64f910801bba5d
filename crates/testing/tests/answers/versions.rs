//! Custom resources in several versions: owners of fields that a version lacks, versions that are gone, and conversion webhooks
//! that fail.

use testing::Server;

use super::{Case, case, check, delete, get, patch, send};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";

fn path(version: &str, name: &str) -> String {
    let collection = format!("/apis/answers.example.com/{version}/namespaces/default/gauges");
    if name.is_empty() { collection } else { format!("{collection}/{name}") }
}

fn gauge(version: &str, name: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion": "answers.example.com/{version}", "kind": "Gauge", "metadata": {{"name": "{name}"}}, "spec": {spec}}}"#
    )
}

fn apply(manager: &str, version: &str, spec: &str, code: u16, text: &'static str) -> Case {
    let path = format!("{}?fieldManager={manager}&force=true", path(version, "g"));
    case("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], &gauge(version, "g", spec), code, text)
}

/// v1 has two fields, v2 one of them, and in v3, which is not served, one is a number.
fn definition(versions: &[&str], conversion: &str) -> String {
    let string = r#"{"type": "string"}"#;
    let of = |version: &&str| {
        let fields = match *version {
            "v1" => format!(r#""a": {string}, "b": {string}"#),
            "v2" => format!(r#""a": {string}"#),
            _ => format!(r#""a": {string}, "b": {{"type": "integer"}}"#),
        };
        let (served, storage) = (*version != "v3", *version == "v1");
        format!(
            r#"{{"name": "{version}", "served": {served}, "storage": {storage}, "schema": {{"openAPIV3Schema":
            {{"type": "object", "properties": {{"spec": {{"type": "object", "properties": {{{fields}}}}}}}}}}}}}"#
        )
    };
    let versions: Vec<String> = versions.iter().map(of).collect();
    let versions = versions.join(", ");
    format!(
        r#"{{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata":
        {{"name": "gauges.answers.example.com"}}, "spec": {{"group": "answers.example.com", "scope": "Namespaced",
        "names": {{"plural": "gauges", "kind": "Gauge"}}, "versions": [{versions}], "conversion": {conversion}}}}}"#
    )
}

/// A write of an object whose managed fields are of this version.
fn owned_in(version: &str, name: &str) -> String {
    gauge("v1", name, r#"{"a": "x", "b": "y"}"#).replacen(
        r#""metadata": {"#,
        &format!(
            r#""metadata": {{"managedFields": [{{"apiVersion": "{version}", "fieldsType": "FieldsV1", "operation": "Update",
            "manager": "old", "time": "2020-01-01T00:00:00Z", "fieldsV1": {{"f:spec": {{"f:a": {{}}}}}}}}], "#
        ),
        1,
    )
}

fn owners() -> Vec<Case> {
    let lacks = ".spec.b: field not declared in schema";
    let lost = "failed to convert new object: .spec.b: field not declared in schema";
    let kept = r#""managedFields":[{"apiVersion":"answers.example.com/v2","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}},"manager":"one","operation":"Apply","time":"#;
    let merge = format!("{}?fieldManager=three", path("v1", "g"));
    let mut cases = vec![
        send("POST", DEFINITIONS, &definition(&["v1", "v2", "v3"], r#"{"strategy": "None"}"#), 201, ""),
        apply("one", "v2", r#"{"a": "x"}"#, 201, ""),
        apply("two", "v1", r#"{"b": "y"}"#, 500, lost),
        case(
            "PATCH",
            &merge,
            &[("content-type", "application/merge-patch+json")],
            r#"{"spec": {"b": "y"}}"#,
            200,
            kept,
        ),
        apply("two", "v1", r#"{"b": "y"}"#, 500, lacks),
    ];
    // Owners in versions that the object cannot be converted to are not stored, so that an apply finds none.
    for (index, version) in
        ["answers.example.com/v2", "answers.example.com/v9", "other.io/v1", "v1", "a/b/c"].iter().enumerate()
    {
        let name = format!("o{index}");
        let applied = format!("{}?fieldManager=two&force=true", path("v1", &name));
        let headers = [("content-type", "application/apply-patch+yaml")];
        cases.push(send("POST", &path("v1", ""), &owned_in(version, &name), 201, ""));
        cases.push(case(
            "PATCH",
            &applied,
            &headers,
            &gauge("v1", &name, r#"{"b": "z"}"#),
            200,
            r#""manager":"before-first-apply""#,
        ));
    }
    cases
}

fn without_the_second_version() -> Vec<Case> {
    let gone = "request to convert CR to an invalid group/version: answers.example.com/v2";
    vec![apply("two", "v1", r#"{"b": "y"}"#, 500, gone), get(&path("v1", "g"), JSON, 200, r#""b":"y""#)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apply_fails_where_an_owners_version_lacks_a_field_or_is_gone() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    for case in owners() {
        check(&client, case).await;
    }
    let gone = definition(&["v1"], r#"{"strategy": "None"}"#);
    let patched = case(
        "PATCH",
        &format!("{DEFINITIONS}/gauges.answers.example.com"),
        &[("content-type", "application/merge-patch+json")],
        &gone,
        200,
        "",
    );
    check(&client, patched).await;
    for case in without_the_second_version() {
        check(&client, case).await;
    }
    server.stop().await;
}

fn without_a_webhook() -> Vec<Case> {
    let webhook = r#"{"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service":
        {"namespace": "default", "name": "absent"}}}}"#;
    let why = "object not decodable revision=";
    let list = r#"{"name":"list","group":"answers.example.com","kind":"gauges","causes":[{"reason":"UnexpectedServerResponse""#;
    let one = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /answers.example.com/gauges/default/g, \
        ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";
    let all = "failed to read one or more gauges.answers.example.com from the storage: StorageError: corrupt object, Code: 7, Key: \
        /registry/answers.example.com/gauges/default/g, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";
    let post = "conversion webhook for answers.example.com/v2, Kind=Gauge failed: Post \
        \"https://absent.default.svc:443/?timeout=30s\": service \"absent\" not found";
    vec![
        send("POST", DEFINITIONS, &definition(&["v1", "v2"], webhook), 201, ""),
        send("POST", &path("v1", ""), &gauge("v1", "g", r#"{"a": "x"}"#), 201, ""),
        send("POST", &path("v1", ""), &gauge("v1", "h", r#"{"a": "x"}"#), 201, ""),
        get(&path("v2", "g"), JSON, 500, one),
        get(&path("v2", ""), JSON, 500, all),
        get(&path("v2", ""), JSON, 500, "(and 1 more)"),
        get(&path("v2", ""), JSON, 500, list),
        get(&path("v2", ""), super::TABLE, 500, all),
        delete(&path("v2", "g"), 500, one),
        delete(&path("v2", ""), 500, all),
        patch(&path("v2", "g"), "merge-patch+json", r#"{"spec": {"a": "y"}}"#, 500, why),
        send("PUT", &path("v2", "g"), &gauge("v2", "g", r#"{"a": "y"}"#), 500, why),
        send("POST", &path("v2", ""), &gauge("v2", "i", r#"{"a": "y"}"#), 500, post),
        get(&path("v1", ""), JSON, 200, r#""name":"h""#),
        delete(&path("v1", "g"), 200, ""),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_webhook_does_not_convert_cannot_be_read() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    for case in without_a_webhook() {
        check(&client, case).await;
    }
    server.stop().await;
}

fn policies() -> Vec<Case> {
    const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
    let policy = |name: &str, expression: &str| {
        let body = format!(
            r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata":
            {{"name": "{name}"}}, "spec": {{"failurePolicy": "Ignore", "reinvocationPolicy": "Never",
            "matchConditions": [{{"name": "n", "expression": "object.metadata.name == '{name}'"}}],
            "matchConstraints": {{"resourceRules": [{{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"]}}]}},
            "mutations": [{{"patchType": "JSONPatch", "jsonPatch": {{"expression": "{expression}"}}}}]}}}}"#
        );
        let binding = format!(
            r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {{"name": "{name}"}}, "spec": {{"policyName": "{name}"}}}}"#
        );
        [
            send("POST", &format!("{REGISTRATIONS}/mutatingadmissionpolicies"), &body, 201, ""),
            send("POST", &format!("{REGISTRATIONS}/mutatingadmissionpolicybindings"), &binding, 201, ""),
        ]
    };
    let made = |name: &str, code, text| {
        let body = format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {{"a": "b"}}}}"#);
        send("POST", &format!("{}?dryRun=All", super::MAPS), &body, code, text)
    };
    let mut cases = Vec::new();
    for (name, expression) in [
        ("unknown", "[JSONPatch{op: 'add', path: '/nope', value: 'x'}]"),
        ("removed", "[JSONPatch{op: 'add', path: '/nope', value: 'x'}, JSONPatch{op: 'remove', path: '/nope'}]"),
        ("nested", "[JSONPatch{op: 'add', path: '/metadata/nope', value: 'x'}]"),
        ("known", "[JSONPatch{op: 'add', path: '/data/c', value: 'd'}]"),
    ] {
        cases.extend(policy(name, expression));
    }
    cases.extend([
        made("unknown", 500, "Internal error occurred: strict decoding error: unknown field \"nope\""),
        made("nested", 500, "Internal error occurred: strict decoding error: unknown field \"metadata.nope\""),
        made("removed", 201, r#""data":{"a":"b"}"#),
        made("known", 201, r#""c":"d""#),
    ]);
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_makes_unknown_fields_refuses_the_request() {
    let server = Server::builder().bare().start().await.unwrap();
    let client = server.client().await.unwrap();
    for case in policies() {
        check(&client, case).await;
    }
    server.stop().await;
}
