use object::Value;

use super::*;
use crate::{default, validate};

fn json(text: &str) -> Value {
    serde_json::from_str::<serde_json::Value>(text).map(|value| from_serde(&value)).unwrap()
}

fn from_serde(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => (*flag).into(),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap()), Value::Int)
        }
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => Value::List(items.iter().map(from_serde).collect()),
        serde_json::Value::Object(map) => {
            Value::Map(map.iter().map(|(key, value)| (Str::from(key.as_str()), from_serde(value))).collect())
        }
    }
}

/// Prunes and defaults `object` by `schema`, and compares it, the dropped paths and the errors.
fn check(schema: &str, object: &str, want: &str, dropped: &[&str], errors: &[&str]) {
    let (types, node) = from_openapi(&json(schema), false);
    let schema = Schema::new(&types, &node);
    let mut object = json(object);
    assert_eq!(prune(schema, &mut object), dropped);
    default(schema, &mut object);
    assert_eq!(object, json(want));
    let found: Vec<String> = validate(schema, &object).iter().map(ToString::to_string).collect();
    assert_eq!(found, errors);
}

#[test]
fn objects_are_pruned_defaulted_and_validated() {
    let schema = r#"{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{
        "a":{"type":"string","default":"x","maxLength":2},
        "port":{"x-kubernetes-int-or-string":true},
        "any":{"x-kubernetes-preserve-unknown-fields":true},
        "map":{"type":"object","additionalProperties":{"type":"integer","minimum":1}},
        "open":{"type":"object","additionalProperties":true},
        "list":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object"}}
    }}}}"#;
    check(schema, r#"{"kind":"A","spec":{"b":1}}"#, r#"{"kind":"A","spec":{"a":"x"}}"#, &["spec.b"], &[]);
    check(
        schema,
        r#"{"spec":{"a":"xyz","port":true,"any":{"x":1},"map":{"k":0},"list":[{"q":1}]},"other":1}"#,
        r#"{"spec":{"a":"xyz","port":true,"any":{"x":1},"map":{"k":0},"list":[{"q":1}]}}"#,
        &["other"],
        &[
            "spec.a: Too long: may not be more than 2 bytes",
            "spec.map.k: Invalid value: 0: spec.map.k in body should be greater than or equal to 1",
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ],
    );
    check(
        schema,
        r#"{"spec":{"a":"x","open":{"s":1,"m":{"gone":1},"n":null,"l":[1]}}}"#,
        r#"{"spec":{"a":"x","open":{"s":1,"m":{},"n":null,"l":[1]}}}"#,
        &["spec.open.m.gone"],
        &[],
    );
    // What should be an object that keeps unknown fields and is a list loses nothing.
    let kept = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
    let schema = format!(r#"{{"type":"object","properties":{{"p":{kept}}}}}"#);
    let list = r#"{"p":[{"q":1}]}"#;
    check(&schema, list, list, &[], &[r#"p: Invalid value: "array": p in body must be of type object: "array""#]);
}

#[test]
fn a_hundred_thousand_properties_are_a_schema() {
    let properties: Vec<String> = (0..100_000).map(|at| format!(r#""p{at}":{{"type":"string"}}"#)).collect();
    let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
    check(&schema, r#"{"p99999":"a","q":1}"#, r#"{"p99999":"a"}"#, &["q"], &[]);
}

#[test]
fn old_definitions_keep_unknown_fields_everywhere() {
    let schema =
        json(r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}"#);
    for (preserve, dropped) in [(true, vec![]), (false, vec!["other", "spec.b"])] {
        let (types, node) = from_openapi(&schema, preserve);
        let mut object = json(r#"{"other":1,"spec":{"a":"x","b":{"c":1}}}"#);
        assert_eq!(prune(Schema::new(&types, &node), &mut object), dropped);
    }
}
