//! The table against the recorded OpenAPI document: what it says of each field must come out again.

#![allow(clippy::unwrap_used, clippy::panic)] // A test may panic, and its helpers are tests too.

use std::collections::BTreeSet;

use object::{Map, Value};
use schema::{Field, ListType, MapType, Node, Shape, builtin};
use serde_json::Value as Json;

#[test]
fn every_recorded_definition_is_in_the_table() {
    let facts = facts::current().unwrap();
    let mut problems = Vec::new();
    let mut compared = 0;
    for file in ["openapi/v3-schemas.json", "all-apis/v3-schemas-added.json"] {
        let document = facts.json(file).unwrap();
        for (name, definition) in document.as_object().unwrap() {
            if name.starts_with("io.k8s.") && definition["properties"].is_object() {
                compared += 1;
                compare(name, definition, &mut problems);
            }
        }
    }
    assert!(compared > 800, "only {compared} definitions");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn compare(name: &str, definition: &Json, problems: &mut Vec<String>) {
    let types = builtin().types();
    let Some(known) = types.find(name).map(|id| types.get(id)) else {
        problems.push(format!("{name} is not in the table"));
        return;
    };
    let properties = definition["properties"].as_object().unwrap();
    let ours: BTreeSet<&str> = known.fields.iter().map(|f| f.name.as_str()).collect();
    let theirs: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    if ours != theirs {
        problems.push(format!("{name}: {:?}", ours.symmetric_difference(&theirs)));
        return;
    }
    let required = strings(&definition["required"]);
    for field in &known.fields {
        let said = attributes_said(&properties[field.name.as_str()], required.contains(&field.name.to_string()));
        let held = attributes_held(field);
        if said != held {
            problems.push(format!("{name}.{}: {said:?} was recorded, the table has {held:?}", field.name));
        }
    }
}

/// Required, default, list type and keys, map type, patch strategies and key, enum.
type Attributes = (bool, Option<Value>, String, Vec<String>, String, String, Vec<String>);

fn attributes_said(schema: &Json, required: bool) -> Attributes {
    let text = |key: &str| schema[key].as_str().unwrap_or_default().to_string();
    let element = ["items", "additionalProperties"].iter().map(|key| &schema[*key]).find(|s| s.is_object());
    let keys = strings(&schema["x-kubernetes-list-map-keys"]);
    let patch = [text("x-kubernetes-patch-strategy"), text("x-kubernetes-patch-merge-key")].join(":");
    (
        required,
        schema.get("default").map(value),
        text("x-kubernetes-list-type"),
        keys,
        text("x-kubernetes-map-type"),
        patch,
        strings(element.map_or(&schema["enum"], |e| &e["enum"])),
    )
}

fn attributes_held(field: &Field) -> Attributes {
    let node = &field.node;
    let (list, keys) = match &node.list_type {
        _ if !node.stated.list_type => ("", vec![]),
        ListType::Atomic => ("atomic", vec![]),
        ListType::Set => ("set", vec![]),
        ListType::Map(keys) => ("map", keys.iter().map(ToString::to_string).collect()),
    };
    let map = match node.map_type {
        _ if !node.stated.map_type => "",
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    };
    let strategies: Vec<&str> =
        [(node.patch_merge, "merge"), (node.patch_replace, "replace"), (node.patch_retain_keys, "retainKeys")]
            .iter()
            .filter(|s| s.0)
            .map(|s| s.1)
            .collect();
    let patch = format!("{}:{}", strategies.join(","), node.patch_merge_key.as_deref().unwrap_or_default());
    (field.required, field.stated_default(), list.into(), keys, map.into(), patch, enumeration(node))
}

fn enumeration(node: &Node) -> Vec<String> {
    match &node.shape {
        Shape::List(inner) | Shape::Map(inner) => enumeration(inner),
        _ => {
            let values = node.rules.as_ref().map(|r| r.enumeration.as_slice()).unwrap_or_default();
            values.iter().map(|v| v.as_str().unwrap().to_string()).collect()
        }
    }
}

fn strings(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_string()).collect()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Int(n.as_i64().unwrap()),
        Json::String(s) => Value::from(s.as_str()),
        Json::Object(map) => Value::Map(map.iter().map(|(k, v)| (k.as_str(), value(v))).collect::<Map>()),
        other => panic!("no default looks like {other}"),
    }
}
