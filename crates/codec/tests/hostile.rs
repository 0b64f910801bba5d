//! Input that means harm: every decoder answers with an error, or with a value, and does so on a small stack.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::thread;

use codec::{DecodeError, MAX_DEPTH, Notes, cbor, json, proto, yaml};
use object::Value;
use schema::{Schema, builtin};

/// What a worker thread of a server has.
const STACK: usize = 2 << 20;

/// Runs a test where recursion without bound would be noticed.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK).spawn(test).unwrap();
    thread.join().unwrap();
}

fn schema(group: &str, version: &str, kind: &str) -> Schema<'static> {
    let kind = builtin().kind(group, version, kind).unwrap();
    Schema::new(builtin().types(), &kind.node)
}

fn pod() -> Schema<'static> {
    schema("", "v1", "Pod")
}

fn read_json(text: &[u8], schema: Option<Schema<'_>>) -> Result<Value, DecodeError> {
    json::decode(text, schema, &mut Notes::collect())
}

#[test]
fn deep_json_is_refused() {
    on_a_small_stack(|| {
        for levels in [MAX_DEPTH + 1, 10_000, 10_001, 1_000_000] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                let error = read_json(text.as_bytes(), None).unwrap_err();
                assert!(error.to_string().contains("exceeded max depth"), "{error}");
            }
        }
        // As deep as allowed, in every way there is to nest.
        let levels = MAX_DEPTH;
        let text = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let value = read_json(text.as_bytes(), None).unwrap();
        let mut out = Vec::new();
        json::encode(&value, None, &mut out);
        assert_eq!(out, text.as_bytes());
        let mut lines = Vec::new();
        yaml::encode(&value, None, &mut lines);
        let mut document = Vec::new();
        cbor::encode(&value, None, &mut document).unwrap();
        assert_eq!(cbor::decode(&document, None, &mut Notes::ignore()).as_ref(), Ok(&value));
        assert_eq!(value.clone(), value);
    });
}

#[test]
fn deep_json_schemas_are_refused() {
    on_a_small_stack(|| {
        let definition = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        for (open, close) in
            [(r#"{"properties":{"a":"#, "}}"), (r#"{"items":"#, "}"), (r#"{"allOf":["#, "]}"), (r#"{"not":"#, "}")]
        {
            for levels in [50, 10_000] {
                let inner = format!("{}{{}}{}", open.repeat(levels), close.repeat(levels));
                let text = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{inner}}}}}]}}}}"#);
                match read_json(text.as_bytes(), Some(definition)) {
                    Ok(value) => {
                        let mut message = Vec::new();
                        proto::encode(&value, definition, &mut message).unwrap();
                        assert_eq!(proto::decode(&message, definition), Ok(value));
                    }
                    Err(error) => assert!(error.to_string().contains("exceeded max depth"), "{error}"),
                }
            }
        }
    });
}

#[test]
fn unknown_fields_may_be_deep() {
    on_a_small_stack(|| {
        let nested = |levels: usize| format!(r#"{{"unknown":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(read_json(nested(9_999).as_bytes(), Some(pod())).is_ok());
        let error = read_json(nested(10_000).as_bytes(), Some(pod())).unwrap_err();
        assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
    });
}

#[test]
fn deep_yaml_protobuf_and_cbor_are_refused() {
    on_a_small_stack(|| {
        for open in ["[", "{a: ", "- ", "? "] {
            let error = yaml::decode(open.repeat(10_000).as_bytes(), None, &mut Notes::ignore()).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        for bytes in [b"\x81".repeat(10_000), b"\xa1\x41a".repeat(10_000), b"\xc6".repeat(10_000)] {
            let error = cbor::decode(&bytes, None, &mut Notes::ignore()).unwrap_err();
            assert!(error.to_string().contains("nested level"), "{error}");
        }
        // JSONSchemaProps.not is 28; each level says how long the rest is.
        let mut message: Vec<u8> = Vec::new();
        for _ in 0..2_000 {
            let mut outer = b"\xe2\x01".to_vec();
            let mut length = message.len();
            while length >= 0x80 {
                outer.push(length as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            outer.extend_from_slice(&message);
            message = outer;
        }
        let definition = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let versions = definition.child("spec").unwrap().child("versions").unwrap().items().unwrap();
        let props = versions.child("schema").unwrap().child("openAPIV3Schema").unwrap();
        let error = proto::decode_message(&message, props).unwrap_err();
        assert_eq!(error.to_string(), "proto: exceeded max depth");
        // Groups nest without recursion.
        let groups = [b"k8s\0\x12\x90\x4e".to_vec(), b"\x9b".repeat(10_000)].concat();
        assert!(proto::decode(&groups, pod()).is_err());
    });
}

#[test]
fn yaml_bombs_are_refused() {
    on_a_small_stack(|| {
        let mut bomb = String::from("a: &a [\"webwebwebwebweb\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]\n");
        for (name, before) in ('b'..='i').zip('a'..) {
            bomb += &format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 18].join(","));
        }
        let error = yaml::decode(bomb.as_bytes(), None, &mut Notes::ignore()).unwrap_err();
        assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
        let merged: String = (1..300).map(|i| format!("m{i}: &m{i} {{<<: [*m{0}, *m{0}]}}\n", i - 1)).collect();
        let merged = format!("m0: &m0 {{x: 1}}\n{merged}");
        assert!(yaml::decode(merged.as_bytes(), None, &mut Notes::ignore()).is_err());
    });
}

#[test]
fn long_strings_are_no_problem() {
    let long = "x".repeat(3 << 20);
    let text = format!(r#"{{"metadata":{{"annotations":{{"a":"{long}"}}}}}}"#);
    let value = read_json(text.as_bytes(), Some(pod())).unwrap();
    assert_eq!(value.str_at(&["metadata", "annotations", "a"]).len(), long.len());
    let mut message = Vec::new();
    proto::encode(&value, pod(), &mut message).unwrap();
    assert_eq!(proto::decode(&message, pod()).as_ref(), Ok(&value));
    let mut lines = Vec::new();
    yaml::encode(&value, Some(pod()), &mut lines);
    assert_eq!(yaml::decode(&lines, Some(pod()), &mut Notes::ignore()).as_ref(), Ok(&value));
    // Where it does not belong it is an error, and one that does not repeat it.
    let error = read_json(format!(r#"{{"metadata":"{long}"}}"#).as_bytes(), Some(pod())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal string into Go struct field Pod.metadata of type v1.ObjectMeta"
    );
}

#[test]
fn many_keys_do_not_take_forever() {
    let keys: String = (0..200_000).map(|i| format!(r#""k{}":{i},"#, i % 100_000)).collect();
    let text = format!("{{{}\"z\":0}}", keys);
    let mut notes = Notes::collect();
    let value = json::decode(text.as_bytes(), None, &mut notes).unwrap();
    assert_eq!(value.as_map().unwrap().len(), 100_001);
    assert_eq!(notes.messages().len(), 100, "complaints are bounded");
    let lines: String = (0..100_000).map(|i| format!("k{i}: {i}\n")).collect();
    assert!(yaml::decode(lines.as_bytes(), None, &mut Notes::collect()).is_ok());
}

#[test]
fn bytes_that_are_no_text() {
    // Go replaces them in JSON and protobuf; YAML and CBOR text must be UTF-8.
    let value = read_json(b"{\"metadata\":{\"name\":\"\xff\xfe\"}}", Some(pod())).unwrap();
    assert_eq!(value.str_at(&["metadata", "name"]), "\u{fffd}\u{fffd}");
    assert!(read_json(b"{\xff:1}", Some(pod())).is_err());
    assert!(yaml::decode(b"a: \xff\n", None, &mut Notes::ignore()).is_err());
    assert!(cbor::decode(b"\x62\xc3\x28", None, &mut Notes::ignore()).is_err());
    let value = proto::decode(b"k8s\0\x12\x05\x0a\x03\x0a\x01\xff", pod()).unwrap();
    assert_eq!(value.str_at(&["metadata", "name"]), "\u{fffd}");
}

#[test]
fn numbers_that_do_not_fit() {
    for (text, want) in [
        (
            r#"{"spec":{"priority":2147483648}}"#,
            "number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"metadata":{"generation":9223372036854775808}}"#,
            "number 9223372036854775808 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (r#"{"spec":{"priority":1.0}}"#, "number 1.0 into Go struct field PodSpec.spec.priority of type int32"),
        (r#"{"spec":{"priority":"1"}}"#, "string into Go struct field PodSpec.spec.priority of type int32"),
    ] {
        let error = read_json(text.as_bytes(), Some(pod())).unwrap_err();
        assert_eq!(error.to_string(), format!("json: cannot unmarshal {want}"));
    }
    assert_eq!(read_json(b"9223372036854775808", None), Ok(Value::Float(9223372036854775808.0)));
    assert!(read_json(b"1e999", None).is_err());
}

#[test]
fn cut_off_input_is_refused() {
    let value =
        read_json(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"b":"c"}}}"#, Some(pod()));
    let value = value.unwrap();
    let (mut text, mut message, mut document) = (Vec::new(), Vec::new(), Vec::new());
    json::encode(&value, Some(pod()), &mut text);
    proto::encode(&value, pod(), &mut message).unwrap();
    cbor::encode(&value, Some(pod()), &mut document).unwrap();
    for end in 0..text.len() {
        assert!(read_json(&text[..end], Some(pod())).is_err());
    }
    for end in 0..document.len() {
        assert!(cbor::decode(&document[..end], Some(pod()), &mut Notes::ignore()).is_err());
    }
    // The last four bytes are the envelope's, and nothing is missing without them.
    for end in 0..message.len() - 4 {
        let cut = proto::decode(&message[..end], pod());
        assert!(cut.is_err() || end <= 15, "{end} of {}", message.len());
    }
}
