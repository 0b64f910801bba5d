//! Values as facts write them, with their types.

use cel::{Arena, List, Map, Time, Val};
use serde_json::{Value as Json, json};

/// JSON of any depth, which recorded values of nested lists need.
pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut deserializer)
}

/// JSON as the server decodes it.
pub fn value(json: &Json) -> object::Value {
    match json {
        Json::Null => object::Value::Null,
        Json::Bool(b) => (*b).into(),
        Json::Number(n) => match n.as_i64() {
            Some(i) => i.into(),
            None => n.as_f64().unwrap().into(),
        },
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => object::Value::List(items.iter().map(value).collect()),
        Json::Object(fields) => object::Value::Map(fields.iter().map(|(k, v)| (k.as_str(), value(v))).collect()),
    }
}

/// A value from its tagged form.
pub fn untag<'a>(tagged: &Json, arena: &'a Arena) -> Val<'a> {
    let (tag, inner) = tagged.as_object().unwrap().iter().next().unwrap();
    match tag.as_str() {
        "null" => Val::Null,
        "bool" => Val::Bool(inner.as_bool().unwrap()),
        "int" => Val::Int(inner.as_i64().unwrap()),
        "uint" => Val::Uint(inner.as_u64().unwrap()),
        "double" => Val::Double(double(inner)),
        "string" => arena.string_val(inner.as_str().unwrap()),
        "bytes" => Val::Bytes(arena.bytes(&base64(inner.as_str().unwrap()))),
        "type" => Val::Type(arena.str(inner.as_str().unwrap())),
        "timestamp" => Val::Timestamp(Time::parse(inner.as_str().unwrap()).unwrap()),
        "duration" => Val::Duration(object::duration::Duration::parse(inner.as_str().unwrap()).unwrap().0),
        "list" => {
            let items: Vec<Val<'a>> = inner.as_array().unwrap().iter().map(|item| untag(item, arena)).collect();
            arena.list_val(&items)
        }
        "map" => {
            let entries = inner.as_array().unwrap().iter().map(|e| (untag(&e[0], arena), untag(&e[1], arena)));
            Val::Map(Map::new(entries.collect(), arena))
        }
        "optional" if inner.is_null() => Val::Optional(None),
        "optional" => Val::Optional(Some(arena.copy(untag(inner, arena)))),
        other => panic!("unknown tag {other}"),
    }
}

fn double(json: &Json) -> f64 {
    match json.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        Some("-0") => -0.0,
        _ => json.as_f64().unwrap(),
    }
}

/// A value in its tagged form.
pub fn tag<'a>(val: Val<'a>, arena: &'a Arena) -> Json {
    match val {
        Val::Null => json!({"null": null}),
        Val::Bool(b) => json!({"bool": b}),
        Val::Int(i) => json!({"int": i}),
        Val::Uint(u) => json!({"uint": u}),
        Val::Double(d) => json!({"double": tag_double(d)}),
        Val::String(s) => json!({"string": s}),
        Val::Bytes(b) => json!({"bytes": to_base64(b)}),
        Val::Duration(nanos) => json!({"duration": object::duration::Duration(nanos).to_string()}),
        Val::Timestamp(t) => json!({"timestamp": Time::utc(t.instant).to_string()}),
        Val::Type(name) => json!({"type": name}),
        Val::List(list) => json!({"list": tag_list(list, arena)}),
        Val::Map(map) => json!({"map": tag_map(map, arena)}),
        Val::Optional(None) => json!({"optional": null}),
        Val::Optional(Some(inner)) => json!({"optional": tag(*inner, arena)}),
        Val::Opaque(opaque) => {
            let mut tagged = serde_json::Map::new();
            match opaque.text() {
                Some(text) => tagged.insert(opaque.type_name().into(), text.into()),
                None => tagged.insert("opaque".into(), opaque.type_name().into()),
            };
            Json::Object(tagged)
        }
        Val::Preserved(_) => json!({"opaque": "unknown"}),
        Val::Struct(value) if value.type_name == "JSONPatch" => {
            let mut fields = json!({"from": "", "op": "", "path": ""});
            for (name, field) in value.fields {
                fields[*name] = match field {
                    Val::String(text) if *name != "value" => json!(text),
                    other => tag(*other, arena),
                };
            }
            json!({"JSONPatch": fields})
        }
        Val::Struct(value) => json!({"object": {"type": value.type_name, "fields": fields(value, arena)}}),
    }
}

fn fields<'a>(value: &cel::Struct<'a>, arena: &'a Arena) -> Json {
    let entry = |(name, field): &(&'a str, Val<'a>)| match field {
        Val::Struct(inner) => json!([{"string": name}, fields(inner, arena)]),
        other => json!([{"string": name}, tag(*other, arena)]),
    };
    json!({"map": value.fields.iter().map(entry).collect::<Vec<_>>()})
}

fn tag_list<'a>(list: List<'a>, arena: &'a Arena) -> Vec<Json> {
    let item = |item: cel::Outcome<'a>| match item {
        Ok(item) => tag(item, arena),
        Err(error) => json!({"error": error.to_string()}),
    };
    list.iter(arena).map(item).collect()
}

fn tag_map<'a>(map: Map<'a>, arena: &'a Arena) -> Vec<Json> {
    let entry = |key: Val<'a>| {
        let value = match map.find(key, arena) {
            Ok(Some(value)) => tag(value, arena),
            Ok(None) => json!({"error": format!("no such key: {key}")}),
            Err(error) => json!({"error": error.to_string()}),
        };
        let key =
            if matches!((map, key), (Map::Typed(..), Val::Null)) { json!({"nil": true}) } else { tag(key, arena) };
        json!([key, value])
    };
    let mut entries: Vec<Json> = map.keys(arena).into_iter().map(entry).collect();
    entries.sort_by_key(|entry| entry[0].to_string());
    entries
}

fn tag_double(d: f64) -> Json {
    match d {
        _ if d.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ if d == 0.0 && d.is_sign_negative() => "-0".into(),
        _ => d.into(),
    }
}

/// The same form for numbers that JSON writes in several ways, and maps in one order.
pub fn normal(tagged: &Json) -> Json {
    match tagged {
        Json::Object(fields) => {
            let field = |(key, value): (&String, &Json)| match (key.as_str(), value) {
                ("double", Json::Number(n)) => (key.clone(), json!(n.as_f64().unwrap())),
                ("map", Json::Array(entries)) => {
                    let mut entries: Vec<Json> = entries.iter().map(normal).collect();
                    entries.sort_by_key(|entry| entry[0].to_string());
                    (key.clone(), Json::Array(entries))
                }
                _ => (key.clone(), normal(value)),
            };
            Json::Object(fields.iter().map(field).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(normal).collect()),
        other => other.clone(),
    }
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn to_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
