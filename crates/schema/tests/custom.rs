//! Custom resources as a real server judged them: a schema, objects, and the message that each was answered with.

#![allow(clippy::unwrap_used)] // A test may panic, and its helpers are tests too.

use object::{Map, Str, Value};
use schema::{
    Field, ListType, Node, Pattern, Rules, Schema, Shape, Struct, Types, normalise, validate, validate_lists,
};
use serde_json::Value as Json;

#[test]
fn objects_are_judged_as_upstream_judges_them() {
    let recorded: Json = serde_json::from_str(include_str!("custom.json")).unwrap();
    let mut types = Types::new();
    let root = node(&mut types, &recorded["schema"], false);
    let mut wrong = Vec::new();
    for case in recorded["cases"].as_array().unwrap() {
        let mut object = Value::map();
        object.set(&["spec"], value(&case["spec"]));
        let schema = Schema::new(&types, &root);
        normalise(schema, &mut object);
        let mut errors = validate(schema, &object);
        errors.extend(validate_lists(schema, &object));
        let answer = if errors.is_empty() { "OK".to_string() } else { errors.aggregate() };
        if case["answer"] != answer.as_str() {
            wrong.push(format!("{}\n  theirs: {}\n  ours:   {answer}", case["spec"], case["answer"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Just enough of a definition's schema to make a node of; branches of alternatives state no type.
fn node(types: &mut Types, schema: &Json, branch: bool) -> Node {
    let shape = match schema["type"].as_str() {
        _ if schema["x-kubernetes-int-or-string"] == true => Shape::IntOrString,
        Some("integer") => Shape::Int64,
        Some("number") => Shape::Float,
        Some("string") => Shape::String,
        Some("boolean") => Shape::Bool,
        Some("array") => Shape::List(Box::new(node(types, &schema["items"], false))),
        Some("object") if schema["additionalProperties"].is_object() => {
            Shape::Map(Box::new(node(types, &schema["additionalProperties"], false)))
        }
        _ => Shape::Struct(object_type(types, schema)),
    };
    let keys = strings(&schema["x-kubernetes-list-map-keys"]);
    let list_type = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(keys),
        _ => ListType::Atomic,
    };
    let rules = Some(Box::new(rules(types, schema)));
    Node { shape, untyped: branch, nullable: schema["nullable"] == true, list_type, rules, ..Node::default() }
}

fn object_type(types: &mut Types, schema: &Json) -> schema::StructId {
    let id = types.declare("".into());
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields = properties.map(|(name, schema)| Field {
        name: name.as_str().into(),
        node: node(types, schema, false),
        pointer: true,
        ..Field::default()
    });
    let definition = Struct { fields: fields.collect(), ..Struct::default() };
    types.define(id, definition);
    id
}

fn rules(types: &mut Types, schema: &Json) -> Rules {
    let mut branches = |name: &str| -> Vec<Node> {
        let list = schema[name].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|schema| node(types, schema, true)).collect()
    };
    let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
    let not = schema["not"].is_object().then(|| node(types, &schema["not"], true));
    Rules {
        enumeration: schema["enum"].as_array().into_iter().flatten().map(value).collect(),
        required: strings(&schema["required"]),
        format: schema["format"].as_str().map(Str::from),
        pattern: schema["pattern"].as_str().map(Pattern::new),
        minimum: schema["minimum"].as_f64(),
        maximum: schema["maximum"].as_f64(),
        exclusive_minimum: schema["exclusiveMinimum"] == true,
        exclusive_maximum: schema["exclusiveMaximum"] == true,
        multiple_of: schema["multipleOf"].as_f64(),
        min_length: schema["minLength"].as_u64(),
        max_length: schema["maxLength"].as_u64(),
        min_items: schema["minItems"].as_u64(),
        max_items: schema["maxItems"].as_u64(),
        min_properties: schema["minProperties"].as_u64(),
        max_properties: schema["maxProperties"].as_u64(),
        all_of,
        any_of,
        one_of,
        not,
        ..Rules::default()
    }
}

fn strings(list: &Json) -> Vec<Str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(Str::from).collect()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => n.as_i64().map_or(Value::Float(n.as_f64().unwrap()), Value::Int),
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => Value::List(items.iter().map(value).collect()),
        Json::Object(map) => Value::Map(map.iter().map(|(k, v)| (k.as_str(), value(v))).collect::<Map>()),
    }
}
