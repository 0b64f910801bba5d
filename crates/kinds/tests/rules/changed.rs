//! Objects that a real server accepted, with one thing about them changed, through every decoder, patch and rule: most of them
//! get as far as the rules, where an object made up from nothing hardly ever gets.
//!
//! `FERROKUBE_FUZZ_SECONDS` says how long to try, `FERROKUBE_FUZZ_SEED` where to start.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::common::{self, Stored};
use codec::{Notes, cbor, json, proto, yaml};
use object::{Map, Meta, Value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schema::{Schema, Shape};

/// How long to try unless `FERROKUBE_FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 2;
/// No object here is large, so none may take long, whatever was done to it.
const ONE_MAX: Duration = Duration::from_secs(5);

#[test]
fn one_change_to_a_valid_object_breaks_nothing() {
    let kinds = common::stored_kinds();
    let end = Instant::now() + Duration::from_secs(common::setting("FERROKUBE_FUZZ_SECONDS", SECONDS));
    let mut seed = common::setting("FERROKUBE_FUZZ_SEED", 1);
    let (mut tried, mut decoded) = (0u64, 0u64);
    while tried < kinds.len() as u64 || Instant::now() < end {
        let stored = &kinds[seed as usize % kinds.len()];
        let mut random = StdRng::seed_from_u64(seed);
        let mut object = stored.base.clone();
        change(&mut object, stored.schema(), &mut random, 0);
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| request(stored, &object, &mut random)));
        let shown = || format!("{} with seed {seed}: {}", stored.gvk, common::json(&object));
        match outcome {
            Ok(was_decoded) => decoded += u64::from(was_decoded),
            Err(_) => panic!("{}", shown()),
        }
        assert!(began.elapsed() < ONE_MAX, "{} took {:?}", shown(), began.elapsed());
        tried += 1;
        seed += 1;
    }
    println!("{tried} objects, {decoded} of them passed decoding");
    assert!(decoded * 2 > tried, "only {decoded} of {tried} objects passed decoding");
}

/// Sends the object in one of the ways clients can; says whether it could be decoded.
fn request(stored: &Stored, object: &Value, random: &mut StdRng) -> bool {
    let schema = stored.schema();
    let live = stored.create(stored.defaulted(stored.base.clone())).0;
    let text = || {
        let mut out = Vec::new();
        json::encode(object, None, &mut out);
        out
    };
    let decoded = match random.random_range(0..10) {
        0 => {
            let mut body = Vec::new();
            yaml::encode(object, None, &mut body);
            yaml::decode(&body, Some(schema), &mut Notes::collect()).ok()
        }
        1 => {
            let mut body = Vec::new();
            cbor::encode(object, None, &mut body)
                .ok()
                .and_then(|()| cbor::decode(&body, Some(schema), &mut Notes::collect()).ok())
        }
        2 => {
            // What protobuf says is what was decoded before, with a few bytes changed.
            let decoded =
                json::decode(&text(), Some(schema), &mut Notes::ignore()).unwrap_or_else(|_| stored.base.clone());
            let mut body = Vec::new();
            let written = proto::encode(&decoded, schema, &mut body);
            if written.is_ok() && random.random_bool(0.5) && !body.is_empty() {
                let at = random.random_range(0..body.len());
                body[at] = random.random();
            }
            proto::decode(&body, schema).ok()
        }
        3 => return apply(stored, object, &live, random),
        4 => {
            let patch = json::decode_exact(&text(), &mut Notes::collect()).unwrap_or_default();
            let patched = patch::merge_patch(patch::as_printed(&live, schema), patch, patch::Reading::Checked);
            patched.ok().and_then(|patched| settled(&patched, schema))
        }
        5 => {
            let mut patch = json::decode(&text(), None, &mut Notes::collect()).unwrap_or_default();
            directives(&mut patch, random);
            let patched = patch::strategic_patch(&patch::as_printed(&live, schema), &mut patch, schema);
            patched.ok().and_then(|patched| settled(&patched, schema))
        }
        6 => return json_patch(stored, object, &live, random),
        _ => json::decode(&text(), Some(schema), &mut Notes::collect()).ok(),
    };
    let Some(decoded) = decoded else { return false };
    let decoded = stored.defaulted(decoded);
    let (created, _) = stored.create(decoded.clone());
    for subresource in ["", "status", "finalize", "resize", "ephemeralcontainers", "approval"] {
        stored.update(decoded.clone(), &live, subresource);
    }
    stored.update(stored.base.clone(), &created, "");
    true
}

fn settled(patched: &Value, schema: Schema<'_>) -> Option<Value> {
    let mut text = Vec::new();
    json::encode(patched, None, &mut text);
    json::decode(&text, Some(schema), &mut Notes::collect()).ok()
}

/// Applies the object twice, the second time over managed fields that were tampered with.
fn apply(stored: &Stored, object: &Value, live: &Value, random: &mut StdRng) -> bool {
    let mut config = object.clone();
    if config.field("metadata").as_map().is_some() {
        config.metadata_mut().remove("resourceVersion");
    }
    let Some(once) = stored.applied(live, &config, "a", true) else { return false };
    let mut tampered = once;
    for entry in tampered.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut).into_iter().flatten() {
        if let Value::Raw(raw) = entry.field("fieldsV1") {
            let text = tampered_text(raw.text(), random);
            let kept = json::decode(text.as_bytes(), None, &mut Notes::ignore()).is_ok();
            if kept {
                entry.set(&["fieldsV1"], Value::Raw(object::Raw::new(text)));
            }
        }
    }
    let _ = stored.applied(&tampered, &config, "b", random.random_bool(0.5));
    let updated = stored.updated(live, tampered, "c");
    stored.update(updated, live, "");
    true
}

/// FieldsV1 with one of its elements exchanged.
fn tampered_text(text: &str, random: &mut StdRng) -> String {
    const ELEMENTS: [&str; 10] =
        ["f:", "f:name", "k:{}", r#"k:{\"name\":1}"#, "v:", r#"v:\"x\""#, "i:0", "i:-1", ".", "x:y"];
    let starts: Vec<usize> = text.match_indices("\"f:").map(|(at, _)| at + 1).collect();
    let Some(&start) = starts.get(random.random_range(0..starts.len().max(1))) else { return text.to_string() };
    let end = text[start..].find('"').map_or(text.len(), |length| start + length);
    format!("{}{}{}", &text[..start], ELEMENTS[random.random_range(0..ELEMENTS.len())], &text[end..])
}

/// Puts strategic merge patch's directives into a random map of the patch.
fn directives(patch: &mut Value, random: &mut StdRng) {
    const DIRECTIVES: [&str; 6] = [
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$setElementOrder",
    ];
    let mut slot = patch;
    while random.random_bool(0.7) {
        let next = match slot {
            Value::Map(map) if !map.is_empty() => {
                let at = random.random_range(0..map.len());
                map.iter_mut().nth(at).map(|(_, value)| value)
            }
            Value::List(list) if !list.is_empty() => {
                let at = random.random_range(0..list.len());
                list.get_mut(at)
            }
            _ => return,
        };
        match next {
            Some(next) => slot = next,
            None => return,
        }
    }
    if let Value::Map(map) = slot {
        let value = match random.random_range(0..5) {
            0 => "replace".into(),
            1 => "delete".into(),
            2 => Value::List(vec![object::value!({"name": "a"}), "x".into()]),
            3 => Value::Null,
            _ => Value::List(vec!["name".into()]),
        };
        map.insert(DIRECTIVES[random.random_range(0..DIRECTIVES.len())], value);
    }
}

/// The fields of the object as operations on the live one.
fn json_patch(stored: &Stored, object: &Value, live: &Value, random: &mut StdRng) -> bool {
    let kinds = ["add", "replace", "remove", "test", "copy", "move", ""];
    let mut operations = Vec::new();
    for (key, value) in object.as_map().into_iter().flat_map(Map::iter) {
        let kind = if random.random_bool(0.6) { "replace" } else { kinds[random.random_range(0..kinds.len())] };
        let mut path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        if random.random_bool(0.2) {
            path.push_str(["/-", "/0", "/-1", "/x", "//", "/~"][random.random_range(0..6)]);
        }
        operations.push(object::value!({"op": (kind), "path": (path), "from": "/metadata", "value": (value.clone())}));
    }
    let Ok(patch) = patch::JsonPatch::parse(&common::json(&Value::List(operations)), patch::Reading::Checked) else {
        return false;
    };
    let schema = stored.schema();
    let Ok(patched) = patch.run(patch::as_printed(live, schema), Some(schema)) else { return false };
    let Some(decoded) = settled(&patched.document, schema) else { return false };
    stored.update(stored.defaulted(decoded), live, "");
    true
}

/// Changes one thing: goes down along the schema a random way, and at its end sets, removes or repeats something.
fn change(value: &mut Value, schema: Schema<'static>, random: &mut StdRng, depth: usize) {
    match (&schema.node.shape, &mut *value) {
        (Shape::Struct(id), Value::Map(map)) if depth < 9 => {
            let fields = &schema.types.get(*id).fields;
            let present: Vec<usize> = (0..fields.len()).filter(|i| map.contains_key(&fields[*i].name)).collect();
            let at = match present.len() {
                count if count > 0 && random.random_bool(0.7) => present[random.random_range(0..count)],
                _ if fields.is_empty() => return,
                _ => random.random_range(0..fields.len()),
            };
            let field = &fields[at];
            match map.get_mut(&field.name) {
                Some(inner) if random.random_bool(0.85) => change(inner, schema.with(&field.node), random, depth + 1),
                Some(_) if random.random_bool(0.3) => drop(map.remove(&field.name)),
                _ => drop(map.insert(field.name.clone(), made_up(&field.node, schema, random))),
            }
        }
        (Shape::List(items), Value::List(list)) if !list.is_empty() && random.random_bool(0.8) => {
            let at = random.random_range(0..list.len());
            match random.random_range(0..6) {
                0 => {
                    let copy = list[at].clone();
                    (0..random.random_range(1..40)).for_each(|_| list.push(copy.clone()));
                }
                1 => drop(list.remove(at)),
                2 => list.push(made_up(items, schema, random)),
                _ => change(&mut list[at], schema.with(items), random, depth + 1),
            }
        }
        (Shape::Map(values), Value::Map(map)) => {
            map.insert(text(random), made_up(values, schema, random));
        }
        _ => *value = made_up(schema.node, schema, random),
    }
}

/// A value for a place: mostly of its type, and mostly odd.
fn made_up(node: &'static schema::Node, schema: Schema<'static>, random: &mut StdRng) -> Value {
    const INTS: [i64; 10] = [0, 1, -1, 2, 80, 65_536, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
    if random.random_bool(0.06) {
        return [Value::Null, true.into(), 7.into(), "x".into(), Value::List(vec![]), Value::map()]
            [random.random_range(0..6)]
        .clone();
    }
    match &node.shape {
        Shape::Int32 => Value::from(INTS[random.random_range(0..8)]),
        Shape::Int64 => Value::from(INTS[random.random_range(0..INTS.len())]),
        Shape::Bool => random.random_bool(0.5).into(),
        Shape::String => text(random).into(),
        Shape::IntOrString if random.random_bool(0.5) => text(random).into(),
        Shape::Quantity => ["0", "-1", "1e18", "100m", "9223372036854775807", "1Ki"][random.random_range(0..6)].into(),
        _ => common::plausible(schema.types, node, random.random_range(0..3), 0),
    }
}

fn text(random: &mut StdRng) -> String {
    const TEXTS: [&str; 24] = [
        "",
        "a",
        "A",
        "-",
        ".",
        "..",
        "/",
        "a/b",
        "a.b/c",
        "*",
        "0",
        "-1",
        "80",
        "é世",
        "x\u{0}y",
        "True",
        "1.2.3.4",
        "::1",
        "10.0.0.0/8",
        "50%",
        "In",
        "Always",
        "{\"a\": [}",
        "2024-01-01T00:00:00Z",
    ];
    match random.random_range(0..20) {
        0 => "x".repeat(300),
        _ => TEXTS[random.random_range(0..TEXTS.len())].to_string(),
    }
}
