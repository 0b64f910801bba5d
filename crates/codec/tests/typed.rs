//! What Go's decoder leaves in a struct, and what it says when it cannot.

#![allow(clippy::panic, clippy::unwrap_used)]

use codec::{Notes, json};
use schema::{Schema, builtin};

fn schema(kind: &str) -> Schema<'static> {
    let group = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io" } else { "" };
    let kind = builtin().kind(group, "v1", kind).unwrap();
    Schema::new(builtin().types(), &kind.node)
}

/// Decodes, notes and encodes again: the JSON that comes out and what was noted, or the error.
fn decoded(kind: &str, text: &str) -> Result<(String, Vec<String>), String> {
    let mut notes = Notes::collect();
    let value = json::decode(text.as_bytes(), Some(schema(kind)), &mut notes).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    json::encode(&value, Some(schema(kind)), &mut out);
    Ok((String::from_utf8(out).unwrap(), notes.messages().to_vec()))
}

#[test]
fn values_become_what_go_makes_of_them() {
    for (kind, text, want) in [
        ("Pod", "null", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        (
            "Pod",
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"0.1","memory":"1024Mi","a":" 1 ","b":1.5e3,"c":"1e3","d":null}}}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"","resources":{"limits":{"a":"1","b":"1500","c":"1e3","cpu":"100m","d":"0","memory":"1Gi"}}}]},"status":{}}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"2020-01-01T01:02:03.5+02:00","deletionTimestamp":"0001-01-01T00:00:00Z","labels":{"a":null},"finalizers":[null]},"spec":{"containers":[null],"overhead":{}}}"#,
            r#"{"metadata":{"creationTimestamp":"2019-12-31T23:02:03Z","deletionTimestamp":null,"labels":{"a":""},"finalizers":[""]},"spec":{"containers":[{"name":"","resources":{}}]},"status":{}}"#,
        ),
        (
            "Secret",
            r#"{"data":{"a":[97,98],"b":null,"c":"YWJ\nj","d":""}}"#,
            r#"{"metadata":{},"data":{"a":"YWI=","b":null,"c":"YWJj","d":""}}"#,
        ),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":8081},{"targetPort":null}],"clusterIPs":[],"selector":{}}}"#,
            r#"{"metadata":{},"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":8081},{"port":0,"targetPort":0}]},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"hostNetwork":false,"terminationGracePeriodSeconds":0,"nodeName":"","securityContext":{}}}"#,
            r#"{"metadata":{},"spec":{"containers":null,"terminationGracePeriodSeconds":0,"securityContext":{}},"status":{}}"#,
        ),
    ] {
        assert_eq!(decoded(kind, text), Ok((want.into(), vec![])), "{text}");
    }
}

#[test]
fn unknown_and_repeated_fields_are_noted() {
    let pod = |spec: &str| format!(r#"{{"metadata":{{}},"spec":{spec},"status":{{}}}}"#);
    for (text, want, notes) in [
        (
            r#"{"bad":1,"bad":2,"spec":{"nope":{"a":1,"a":2},"containers":[{"x":1},{"x":1,"name":"a","name":"b"}]}}"#,
            pod(r#"{"containers":[{"name":"","resources":{}},{"name":"b","resources":{}}]}"#),
            vec![
                r#"unknown field "bad""#,
                r#"unknown field "spec.nope""#,
                r#"unknown field "spec.containers[0].x""#,
                r#"unknown field "spec.containers[1].x""#,
                r#"duplicate field "spec.containers[1].name""#,
            ],
        ),
        // What comes second is decoded over what came first.
        (
            r#"{"spec":{"nodeSelector":{"a":"1","b":"2"},"nodeSelector":{"b":"3"},"containers":[{"name":"x","image":"y"},{"name":"z"}],"containers":[{"name":"w"}]},"spec":{"nodeName":"n","hostname":null}}"#,
            pod(
                r#"{"containers":[{"name":"w","image":"y","resources":{}}],"nodeSelector":{"a":"1","b":"3"},"nodeName":"n"}"#,
            ),
            vec![
                r#"duplicate field "spec.nodeSelector""#,
                r#"duplicate field "spec.containers""#,
                r#"duplicate field "spec""#,
            ],
        ),
        (
            r#"{"Metadata":{},"spec":{"nodeSelector":{"a":"1","a":"2"}}}"#,
            pod(r#"{"containers":null,"nodeSelector":{"a":"2"}}"#),
            vec![r#"unknown field "Metadata""#, r#"duplicate field "spec.nodeSelector.a""#],
        ),
    ] {
        let notes: Vec<String> = notes.into_iter().map(String::from).collect();
        assert_eq!(decoded("Pod", text), Ok((want, notes)), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_in_gos_words() {
    let field = |found: &str, field: &str, wanted: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
    };
    for (kind, text, want) in [
        ("Pod", "[]", "json: cannot unmarshal array into Go value of type v1.Pod".to_string()),
        ("Pod", r#"{"metadata":"x"}"#, field("string", "Pod.metadata", "v1.ObjectMeta")),
        ("Pod", r#"{"metadata":{"labels":{"a":1}}}"#, field("number", "ObjectMeta.metadata.labels", "string")),
        ("Pod", r#"{"metadata":{"labels":[]}}"#, field("array", "ObjectMeta.metadata.labels", "map[string]string")),
        ("Pod", r#"{"spec":{"containers":{}}}"#, field("object", "PodSpec.spec.containers", "[]v1.Container")),
        ("Pod", r#"{"spec":{"containers":["x"]}}"#, field("string", "PodSpec.spec.containers", "v1.Container")),
        (
            "Pod",
            r#"{"spec":{"containers":[{"imagePullPolicy":5}]}}"#,
            field("number", "Container.spec.containers.imagePullPolicy", "v1.PullPolicy"),
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":5}}]}}"#,
            field("number", "Probe.spec.containers.livenessProbe.ProbeHandler.httpGet", "v1.HTTPGetAction"),
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}"#,
            field("bool", "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port", "int32"),
        ),
        (
            "PersistentVolume",
            r#"{"spec":{"hostPath":"x"}}"#,
            field("string", "PersistentVolumeSpec.spec.PersistentVolumeSource.hostPath", "v1.HostPathVolumeSource"),
        ),
        (
            "ResourceQuota",
            r#"{"spec":{"hard":"x"}}"#,
            field("string", "ResourceQuotaSpec.spec.hard", "v1.ResourceList"),
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":5}}"#,
            field("number", "ObjectMeta.metadata.creationTimestamp", "string"),
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#.into(),
        ),
        (
            "ResourceQuota",
            r#"{"spec":{"hard":{"cpu":"x"}}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into(),
        ),
        ("Secret", r#"{"data":{"a":"zz"}}"#, "illegal base64 data at input byte 0".into()),
        ("Secret", r#"{"data":{"a":[980]}}"#, field("number 980", "Secret.data", "uint8")),
        // The first mistake is told, unless a later one is worse, and what is no JSON at all is worst.
        ("Pod", r#"{"kind":1,"metadata":2}"#, field("number", "Pod.TypeMeta.kind", "string")),
        (
            "Pod",
            r#"{"spec":5,"metadata":{"creationTimestamp":true}}"#,
            field("bool", "ObjectMeta.metadata.creationTimestamp", "string"),
        ),
        ("Pod", r#"{"metadata":5,"spec":["#, "unexpected end of JSON input".into()),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":5}}}}]}}"#,
            field("number", "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type", "string"),
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":5}}}]}}"#,
            "boolean or JSON schema expected".into(),
        ),
    ] {
        assert_eq!(decoded(kind, text), Err(want), "{text}");
    }
}

/// Opaque JSON text keeps its order and spelling through JSON and protobuf; CBOR has no spelling to keep.
#[test]
fn raw_extensions_stay_as_they_were_written() {
    let kind = builtin().kind("apps", "v1", "ControllerRevision").unwrap();
    let schema = Schema::new(builtin().types(), &kind.node);
    for (data, printed, sorted) in [
        (r#"{"b": 1.50, "a": "\u0041<"}"#, r#"{"b":1.50,"a":"\u0041\u003c"}"#, r#"{"a":"A\u003c","b":1.5}"#),
        ("[ 1e2, null ]", "[1e2,null]", "[100,null]"),
        ("\"text\"", "\"text\"", "\"text\""),
        ("null", "null", "null"),
        (r#"{"a":1,"a":{}}"#, r#"{"a":1,"a":{}}"#, r#"{"a":{}}"#),
    ] {
        let whole = |data: &str| format!(r#"{{"metadata":{{}},"data":{data},"revision":1}}"#);
        let value = json::decode(whole(data).as_bytes(), Some(schema), &mut Notes::collect()).unwrap();
        let text = |value| {
            let mut out = Vec::new();
            json::encode(value, Some(schema), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&value), whole(printed));
        let mut stored = Vec::new();
        codec::proto::encode(&value, schema, &mut stored).unwrap();
        assert_eq!(codec::proto::decode(&stored, schema).unwrap(), value, "{data}");
        let mut cbor = Vec::new();
        codec::cbor::encode(&value, Some(schema), &mut cbor).unwrap();
        let read = codec::cbor::decode(&cbor, Some(schema), &mut Notes::ignore()).unwrap();
        assert_eq!(text(&read), whole(sorted));
    }
    let deep = format!(r#"{{"data":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert!(json::decode(deep.as_bytes(), Some(schema), &mut Notes::ignore()).is_err());
}
