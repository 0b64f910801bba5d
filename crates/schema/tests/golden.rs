//! The table against the recorded golden objects: one object of each of 194 kinds with every field set.
//!
//! Each field must be known, be of a type that fits, and stand where the table says it is printed.

#![allow(clippy::unwrap_used)] // A test may panic, and its helpers are tests too.

use schema::{Omit, Schema, Shape, builtin};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

const KINDS: usize = 194;

#[test]
fn every_golden_field_is_known_and_in_its_place() {
    let facts = facts::current().unwrap();
    let files: Vec<&str> = facts.names("codec/").filter(|name| name.ends_with(".json")).collect();
    assert_eq!(files.len(), KINDS);
    let mut problems = Vec::new();
    for file in files {
        let stem = file.strip_prefix("codec/").and_then(|name| name.strip_suffix(".json")).unwrap();
        let json: Json = serde_json::from_slice(facts.bytes(file).unwrap()).unwrap();
        let (group, version, kind) = name(stem);
        match builtin().kind(&group, &version, &kind) {
            None => problems.push(format!("{stem}: unknown kind")),
            Some(kind) => walk(Schema::new(builtin().types(), &kind.node), &json, stem, &mut problems),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// `apps.v1.Deployment`, `rbac.authorization.k8s.io.v1.Role`, `core.v1.Pod`.
fn name(stem: &str) -> (String, String, String) {
    let (rest, kind) = stem.rsplit_once('.').unwrap();
    let (group, version) = rest.rsplit_once('.').unwrap();
    (if group == "core" { "" } else { group }.into(), version.into(), kind.into())
}

fn walk(schema: Schema<'_>, json: &Json, path: &str, problems: &mut Vec<String>) {
    match (&schema.shape, json) {
        (Shape::Struct(id), Json::Map(entries)) => {
            let known = schema.types.get(*id);
            let order: Vec<&str> = known.in_print_order().map(|f| f.name.as_str()).collect();
            let mut last = None;
            for (key, value) in entries {
                let place = format!("{path}.{key}");
                let Some(field) = known.field(key) else {
                    problems.push(format!("{place}: unknown"));
                    continue;
                };
                let at = order.iter().position(|name| name == key);
                if at <= last {
                    problems.push(format!("{place}: printed too late"));
                }
                last = at;
                if matches!(value, Json::Null) && (field.omit != Omit::Never || !can_be_null(&field.node.shape)) {
                    problems.push(format!("{place}: null"));
                }
                walk(schema.with(&field.node), value, &place, problems);
            }
        }
        (Shape::List(_), Json::List(items)) => {
            let inner = schema.items().unwrap();
            items.iter().for_each(|item| walk(inner, item, &format!("{path}[]"), problems));
        }
        (Shape::Map(values), Json::Map(entries)) => {
            entries.iter().for_each(|(_, value)| walk(schema.with(values), value, &format!("{path}[]"), problems));
        }
        (_, Json::Null) | (Shape::Any | Shape::RawExtension | Shape::Fields, _) => {}
        (Shape::Bool, Json::Bool) => {}
        (Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString, Json::Number) => {}
        (Shape::String | Shape::Bytes | Shape::IntOrString | Shape::Quantity, Json::String) => {}
        (Shape::Time | Shape::MicroTime | Shape::Duration, Json::String) => {}
        (shape, json) => problems.push(format!("{path}: {shape:?} is {json:?}")),
    }
}

fn can_be_null(shape: &Shape) -> bool {
    !matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float | Shape::String | Shape::Quantity)
}

/// JSON that remembers the order of its keys.
#[derive(Debug)]
enum Json {
    Null,
    Bool,
    Number,
    String,
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_str<E>(self, _: &str) -> Result<Json, E> {
        Ok(Json::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Json::Map(entries))
    }
}
