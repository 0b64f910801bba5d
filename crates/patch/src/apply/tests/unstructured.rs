//! Custom resources with random schemas: what is owned by one manager is found as a comparison finds it.

use schema::{Field, ListType, MapType, Node, Shape, Stated, Struct, Types};

use super::created::{LATER, NOW, Plain, Random, change};
use super::*;

const NAMES: [&str; 5] = ["a", "b", "key", "kind", "metadata"];

/// Fields with random types, nested up to a depth.
fn any_struct(random: &mut Random, types: &mut Types, depth: usize) -> Shape {
    let mut fields = Vec::new();
    for name in NAMES {
        if random.below(2) == 0 {
            fields.push(Field { name: name.into(), node: any_node(random, types, depth), ..Field::default() });
        }
    }
    let id = types.declare("".into());
    types.define(id, Struct { fields, preserve_unknown: random.below(5) == 0, ..Struct::default() });
    Shape::Struct(id)
}

fn any_node(random: &mut Random, types: &mut Types, depth: usize) -> Node {
    let shape = match random.below(if depth < 5 { 14 } else { 7 }) {
        0 => Shape::Bool,
        1 => Shape::Int64,
        2 => Shape::Float,
        3 => Shape::IntOrString,
        4 => Shape::Any,
        5 | 6 => Shape::String,
        7 => Shape::RawExtension,
        8 => Shape::Map(any_node(random, types, depth + 1).into()),
        9 | 10 => Shape::List(any_node(random, types, depth + 1).into()),
        _ => any_struct(random, types, depth + 1),
    };
    let list_type = match (&shape, random.below(3)) {
        (Shape::List(_) | Shape::Any, 0) => ListType::Set,
        (Shape::List(_) | Shape::Any, 1) => ListType::Map(vec!["a".into(), "key".into()]),
        _ => ListType::Atomic,
    };
    let has_default = matches!(shape, Shape::String) && random.below(3) == 0;
    Node {
        embedded: matches!(shape, Shape::Struct(_)) && random.below(6) == 0,
        list_type,
        map_type: if random.below(6) == 0 { MapType::Atomic } else { MapType::Granular },
        default: has_default.then(|| "default".into()),
        stated: Stated { default: has_default, ..Stated::default() },
        shape,
        ..Node::default()
    }
}

/// A value that mostly fits its place.
fn any_value(random: &mut Random, schema: Schema<'_>, depth: usize) -> Value {
    if random.below(60) == 0 {
        return any_junk(random);
    }
    match &schema.node.shape {
        Shape::Struct(id) => {
            let (of, mut map) = (schema.types.get(*id), Value::map());
            for field in &of.fields {
                if random.below(3) > 0 || matches!(field.name.as_str(), "a" | "key") {
                    map.set(&[&field.name], any_value(random, schema.with(&field.node), depth + 1));
                }
            }
            if random.below(if of.preserve_unknown { 2 } else { 50 }) == 0 {
                map.set(&["unknown"], any_junk(random));
            }
            if schema.node.embedded {
                map.set(&["kind"], "Inner");
                map.set(&["metadata"], any_metadata(random));
            }
            map
        }
        Shape::List(items) => {
            let count = random.below(4);
            Value::List((0..count).map(|_| any_value(random, schema.with(items), depth + 1)).collect())
        }
        Shape::Map(values) => {
            let mut map = Value::map();
            for name in &NAMES[..random.below(4) as usize] {
                map.set(&[name], any_value(random, schema.with(values), depth + 1));
            }
            map
        }
        Shape::Any | Shape::RawExtension => any_junk(random),
        Shape::Float if random.below(2) == 0 => Value::Float(0.5),
        _ => random.value(schema, 1, depth),
    }
}

fn any_junk(random: &mut Random) -> Value {
    match random.below(7) {
        0 => Value::Null,
        1 => Value::from(7),
        2 => value!({}),
        3 => value!([]),
        4 => value!({"free": {"form": [1, {"x": null}]}, "empty": {}}),
        5 => value!([{"a": 1, "key": "k"}, {"a": "", "key": "k"}]),
        _ => random.word(),
    }
}

fn any_metadata(random: &mut Random) -> Value {
    let schema = schema::object_meta().expect("the table has ObjectMeta");
    let sparse = 1 + random.below(4);
    let mut metadata = random.value(schema, sparse, 0);
    metadata.remove(&["managedFields"]);
    metadata
}

/// Stored objects have their managed fields as JSON and not as text.
fn as_stored(mut object: Value) -> Value {
    let entries = object.at(&["metadata", "managedFields"]).clone();
    let opened = |entry: &Value| match entry.field("fieldsV1") {
        Value::Raw(raw) => {
            let mut opened = entry.clone();
            opened.set(&["fieldsV1"], codec::json::open(raw));
            opened
        }
        _ => entry.clone(),
    };
    if let Some(entries) = entries.as_list() {
        object.set(&["metadata", "managedFields"], entries.iter().map(opened).collect::<Vec<_>>());
    }
    object
}

/// Creates and updates an object, and tells for either whether no comparison was needed.
fn check(random: &mut Random, schema: Schema<'_>, subresource: &str, resets: &Resets) -> [bool; 2] {
    let gvk = GroupVersionKind::new("example.com", "v1", "Sample");
    let plain = Plain { schema, is_structured: false };
    let fields = FieldManager { kind: &plain, gvk: gvk.clone(), subresource, resets };
    let mut object = any_value(random, schema, 0);
    if object.as_map().is_none() {
        object = Value::map();
    }
    object.set_type(&gvk);
    object.set(&["metadata"], any_metadata(random));
    object.set(&["metadata", "uid"], "u");
    let nothing = Value::map();
    let created = ready(fields.update_by_comparison(&nothing, object.clone(), "me", NOW));
    assert_eq!(ready(fields.update(&nothing, object.clone(), "me", NOW)), created, "{}", go::json(&object));
    let live = as_stored(created.clone());
    let mut new = if random.below(2) == 0 { live.clone() } else { created };
    for _ in 0..random.below(3) {
        for part in NAMES {
            if let Some(part) = new.get_mut(part).filter(|_| part != "kind") {
                change(part, random);
            }
        }
    }
    if random.below(2) == 0 {
        managed::clear(&mut new);
    }
    let want = ready(fields.update_by_comparison(&live, new.clone(), "me", LATER));
    assert_eq!(ready(fields.update(&live, new.clone(), "me", LATER)), want, "{}\n{}", go::json(&live), go::json(&new));
    [(&nothing, &object), (&live, &new)]
        .map(|(live, new)| fields.update_of_one_owner(live, new.clone(), "me", LATER).is_ok())
}

#[test]
fn one_walk_along_a_custom_resource_gives_what_a_comparison_gives() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut created, mut updated, mut all) = (0, 0, 0);
    for round in 0..2000 {
        let mut types = Types::new();
        let shape = any_struct(&mut random, &mut types, 0);
        let root = Node { shape, embedded: true, ..Node::default() };
        let (subresource, resets) = match round % 3 {
            0 => ("", Resets::Nothing),
            1 => ("", Resets::Fields(FieldSet::of([&["a"][..], &["b", "a"], &["metadata", "labels"]]))),
            _ => ("status", Resets::Fields(FieldSet::of([&["metadata"][..], &["b"]]))),
        };
        let [was_created, was_updated] = check(&mut random, Schema::new(&types, &root), subresource, &resets);
        all += 1;
        created += usize::from(was_created);
        updated += usize::from(was_updated);
    }
    assert!(created * 3 > all && updated * 4 > all, "{created} and {updated} of {all}");
}

/// `additionalProperties: true`: whatever is in the map, its entries are owned.
#[test]
fn entries_of_maps_without_a_schema_are_owned() {
    let schema = value!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}});
    let (types, node) = schema::from_openapi(&schema, false);
    let object = value!({"m": {"a": 1, "b": "x", "c": [1], "d": {}, "e": null}});
    let owned = created_unstructured(&object, Schema::new(&types, &node), None, &FieldSet::default());
    assert_eq!(owned.as_deref(), Some(r#"{"f:m":{".":{},"f:a":{},"f:b":{},"f:c":{},"f:d":{},"f:e":{}}}"#));
}
