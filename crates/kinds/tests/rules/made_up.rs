//! No object that the schema lets through makes a rule panic.
//!
//! Objects are made up field by field from the schema of each kind, with values that rules are known to stumble over:
//! empty and null, negative and huge, almost right. What the rules say about them does not matter here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use object::{Cursor, Errors, GroupVersionKind, Map, Timestamp, Value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use registry::{Context, Deletion, Features, Strategy};
use request::User;
use schema::{Node, Schema, Shape, StructId};

use crate::common::{self, json, wait};

/// How long to try unless `FERROKUBE_FUZZ_SECONDS` says otherwise; every kind is tried a few times in any case.
const SECONDS: u64 = 2;
const OBJECTS_PER_ROUND: u64 = 8;
/// Deeper than any rule looks; types that contain themselves would never end.
const DEPTH: usize = 9;

const TEXTS: [&str; 48] = [
    "",
    "a",
    "A",
    "None",
    "-",
    ".",
    "/",
    "a/b",
    "a.b/c",
    "*",
    "0",
    "-1",
    "1",
    "80",
    "http",
    "x\u{0}y",
    "é世",
    "True",
    "1.2.3.4",
    "::1",
    "fd00::/64",
    "10.0.0.0/8",
    "10.0.0.1/33",
    "a=b",
    "a,b",
    "..",
    "TCP",
    "ClusterIP",
    "NodePort",
    "LoadBalancer",
    "ExternalName",
    "IPv4",
    "IPv6",
    "Local",
    "In",
    "Exists",
    "SingleStack",
    "PreferDualStack",
    "Always",
    "RollingUpdate",
    "50%",
    "AAAA",
    "kubernetes.io/tls",
    "kubernetes.io/dockerconfigjson",
    "Container",
    "* * * * *",
    "Bound",
    "{\"a\": [}",
];

const INTS: [i64; 12] = [0, 1, -1, 2, 80, 443, 65535, 65536, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];

const QUANTITIES: [&str; 10] =
    ["0", "1", "-1", "100m", "1Gi", "1500u", "9223372036854775807", "-9223372036854775808", "1e18", "0.5"];

const TIMES: [&str; 4] =
    ["2024-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"];

#[test]
fn no_rule_panics() {
    let table = schema::builtin();
    let stored = |group: &str, resource: &str| {
        table.resources().find(|r| r.name.group == group && r.name.resource == resource)?.stored.clone()
    };
    let kinds: Vec<_> =
        kinds::strategies().into_iter().filter_map(|(g, r, strategy)| Some((stored(g, r)?, strategy))).collect();
    assert!(kinds.len() > 60, "only {} kinds are tried", kinds.len());
    let seconds = common::setting("FERROKUBE_FUZZ_SECONDS", SECONDS);
    let (began, mut round) = (Instant::now(), 0);
    while round == 0 || began.elapsed().as_secs() < seconds {
        for (kind, strategy) in &kinds {
            (0..OBJECTS_PER_ROUND).for_each(|i| run(strategy, kind, round * OBJECTS_PER_ROUND + i));
        }
        round += 1;
    }
}

fn run(strategy: &Arc<dyn Strategy>, kind: &GroupVersionKind, seed: u64) {
    let schema = schema::builtin().schema(kind).expect("a stored kind has a schema");
    let mut random = StdRng::seed_from_u64(seed);
    let old = object(schema, &mut random);
    let new = if random.random_bool(0.5) { changed(schema, &old, &mut random) } else { object(schema, &mut random) };
    let outcome = catch_unwind(AssertUnwindSafe(|| exercise(strategy, schema, old.clone(), new.clone())));
    assert!(outcome.is_ok(), "{kind} with seed {seed}:\n{}\n{}", json(&old), json(&new));
}

/// Every hook that sees an object, in the order a request meets them.
fn exercise(strategy: &Arc<dyn Strategy>, schema: Schema<'_>, mut old: Value, mut new: Value) {
    let (user, features) = (User::default(), Features::default());
    let context = |subresource: &'static str| Context {
        namespace: "ns",
        subresource,
        dry_run: true,
        ..Context::of_server(Timestamp::new(1_700_000_000, 0), &user, &features)
    };
    for object in [&mut old, &mut new] {
        schema::default(schema, object);
        strategy.default(object);
    }
    let cx = context("");
    let mut errors = Errors::new();
    let mut created = new.clone();
    let _ = wait(strategy.begin_create(&cx, &mut created));
    strategy.prepare_create(&cx, &mut created);
    strategy.validate(&cx, &Cursor::root(&created), &mut errors);
    strategy.warnings(&cx, &created, None);
    strategy.canonicalize(&mut created);
    let mut updated = new.clone();
    let _ = wait(strategy.begin_update(&cx, &mut updated, &old));
    strategy.prepare_update(&cx, &mut updated, &old);
    strategy.validate_update(&cx, &Cursor::root(&updated), &Cursor::root(&old), &mut errors);
    strategy.warnings(&cx, &updated, Some(&old));
    strategy.facts().bumps_generation(&updated, &old);
    let mut status = new.clone();
    strategy.prepare_status_update(&context("status"), &mut status, &old);
    strategy.validate_status_update(&context("status"), &Cursor::root(&status), &Cursor::root(&old), &mut errors);
    strategy.status_warnings(&context("status"), &status, &old);
    for subresource in ["finalize", "resize", "ephemeralcontainers", "approval"] {
        let cx = context(subresource);
        let mut view = new.clone();
        strategy.prepare_subresource(&cx, &mut view, &old);
        strategy.validate_subresource(&cx, &Cursor::root(&view), &Cursor::root(&old), &mut errors);
    }
    strategy.cells(&cx, &new);
    (strategy.facts().may_finish)(&new);
    match strategy.facts().deletion {
        Deletion::Immediate => {}
        Deletion::Graceful(grace_period) => drop(grace_period(&new, &Value::map())),
        Deletion::Marked(mark) => mark(&mut status),
    }
    for field in strategy.selectable_fields() {
        strategy.select_field(&new, field);
    }
    wait(strategy.after_delete(&cx, &new));
    errors.dedup();
    errors.aggregate();
}

fn object(schema: Schema<'_>, random: &mut StdRng) -> Value {
    let mut object = value(schema, random, 0);
    object.set(&["metadata", "name"], "x");
    object.set(&["metadata", "namespace"], "ns");
    // The server counts generations itself, and never this far.
    object.remove(&["metadata", "generation"]);
    object
}

/// The object with one part made anew, as most updates are.
fn changed(schema: Schema<'_>, object: &Value, random: &mut StdRng) -> Value {
    let mut changed = object.clone();
    let other = self::object(schema, random);
    let fields: Vec<String> = other.as_map().into_iter().flat_map(Map::keys).map(String::from).collect();
    if let Some(field) = fields.get(random.random_range(0..fields.len().max(1))) {
        changed.keep(&[field], &other);
    }
    changed
}

fn value(schema: Schema<'_>, random: &mut StdRng, depth: usize) -> Value {
    match &schema.shape {
        Shape::Bool => random.random_bool(0.5).into(),
        Shape::Int32 => i64::from(pick(&INTS, random) as i32).into(),
        Shape::Int64 => pick(&INTS, random).into(),
        Shape::Float => Value::Float(pick(&INTS, random) as f64 / 3.0),
        Shape::String | Shape::Duration => text(random),
        Shape::Bytes => pick(&["", "AA==", "AAAA", "e30=", "eyJhIjp9"], random).into(),
        Shape::IntOrString if random.random_bool(0.5) => i64::from(pick(&INTS, random) as i32).into(),
        Shape::IntOrString => text(random),
        Shape::Quantity => pick(&QUANTITIES, random).into(),
        Shape::Time => pick(&TIMES, random).into(),
        Shape::MicroTime => pick(&["2024-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z"], random).into(),
        Shape::Any | Shape::RawExtension | Shape::Fields => Value::map(),
        Shape::Struct(id) => fields(schema, *id, random, depth),
        Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id) => {
            fields(schema, *id, random, depth)
        }
        Shape::List(node) => Value::List(many(schema, node, random, depth)),
        Shape::Map(node) => {
            let values = many(schema, node, random, depth);
            Value::Map(values.into_iter().map(|value| (pick(&TEXTS, random), value)).collect::<Map>())
        }
    }
}

fn many(schema: Schema<'_>, node: &Node, random: &mut StdRng, depth: usize) -> Vec<Value> {
    let count = if depth >= DEPTH { 0 } else { random.random_range(0..4) };
    (0..count).map(|_| value(schema.with(node), random, depth + 1)).collect()
}

fn fields(schema: Schema<'_>, id: StructId, random: &mut StdRng, depth: usize) -> Value {
    let mut map = Map::new();
    // Structs that hold very much are left sparse, so that the depths are reached as well.
    let fields = &schema.types.get(id).fields;
    let likely = (8.0 / fields.len().max(1) as f64).clamp(0.25, 0.8);
    for field in fields.iter().filter(|_| depth < DEPTH) {
        if field.name != "managedFields" && random.random_bool(likely) {
            map.insert(field.name.clone(), value(schema.with(&field.node), random, depth + 1));
        }
    }
    Value::Map(map)
}

fn text(random: &mut StdRng) -> Value {
    match random.random_range(0..12) {
        0 => "x".repeat(300).into(),
        _ => pick(&TEXTS, random).into(),
    }
}

fn pick<T: Copy>(from: &[T], random: &mut StdRng) -> T {
    from[random.random_range(0..from.len())]
}
