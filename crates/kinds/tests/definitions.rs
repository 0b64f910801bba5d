//! Random definitions and random objects of random schemas: whatever is wrong with them, nothing may panic or take long.
//!
//! Deterministic and bounded in time: `FERROKUBE_FUZZ_SECONDS` for each test, a couple by default, and
//! `FERROKUBE_FUZZ_SEED` to start elsewhere.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use cel::rules::{Budget, Ratchet, Validator};
use object::{Cursor, Errors, Path, Timestamp, Value, value};
use registry::{Context, Features, Strategy, custom};
use request::User;
use schema::Schema;

/// What one definition or object may take on a slow machine.
const SLOW: Duration = Duration::from_secs(5);

#[allow(clippy::disallowed_methods)]
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(setting("FERROKUBE_FUZZ_SEED", 1) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

const KEYWORDS: [&str; 24] = [
    "type",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "enum",
    "required",
    "default",
    "nullable",
    "description",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "uniqueItems",
];
const NAMES: [&str; 8] = ["spec", "metadata", "kind", "apiVersion", "a", "b", "status", "a.b/c"];
const TYPES: [&str; 9] = ["object", "array", "string", "integer", "number", "boolean", "null", "", "object"];
const PATTERNS: [&str; 8] = ["^a+$", "(a*)*b", "[", "(?=x)", "a{1000}{1000}", "\\p{Greek}", ".*", "(a|aa)+$"];
const RULES: [&str; 8] = [
    "self == oldSelf",
    "self.all(x, x == 1)",
    "size(self) < 3",
    "self.a.matches('a*')",
    "self.exists(x, self.exists(y, x == y))",
    "has(self.b) || true",
    "((((",
    "",
];

/// Any value, now and then of an unlikely kind.
fn any(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth > 5 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => Value::from(random.below(2) == 0),
        2 => Value::from(random.below(10) as i64 - 3),
        3 => Value::Float([0.5, -1e308, 1e19, 3.0][random.below(4)]),
        4 => Value::from(i64::MAX),
        5 | 6 => Value::from(random.pick(&["", "a", "true", "2024-01-01T00:00:00Z", "1s", "é", "spec", "map", "set"])),
        7 => Value::List((0..random.below(4)).map(|_| any(random, depth + 1)).collect()),
        _ => {
            let mut map = Value::map();
            for _ in 0..random.below(5) {
                let name = random.pick(&NAMES);
                map.set(&[name], any(random, depth + 1));
            }
            map
        }
    }
}

/// A schema that is mostly in order.
fn schema(random: &mut Random, depth: usize) -> Value {
    let mut schema = Value::map();
    let kind = if depth == 0 { "object" } else { random.pick(&TYPES) };
    schema.set(&["type"], kind);
    for _ in 0..random.below(4) {
        let keyword = random.pick(&KEYWORDS);
        let stated = match keyword {
            "pattern" => random.pick(&PATTERNS).into(),
            "x-kubernetes-validations" => {
                value!([{"rule": (random.pick(&RULES)), "messageExpression": (random.pick(&["self.a", "'x'", ""]))}])
            }
            "x-kubernetes-list-map-keys" | "required" => value!([(random.pick(&NAMES))]),
            "x-kubernetes-list-type" => random.pick(&["map", "set", "atomic", "x"]).into(),
            "type" => random.pick(&TYPES).into(),
            _ => any(random, depth + 2),
        };
        schema.set(&[keyword], stated);
    }
    if depth < 5 {
        for name in ["items", "additionalProperties", "not"] {
            if random.below(5) == 0 || (name == "items" && kind == "array") {
                schema.set(&[name], self::schema(random, depth + 1));
            }
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            if random.below(8) == 0 {
                schema.set(&[name], vec![self::schema(random, depth + 1)]);
            }
        }
        for _ in 0..random.below(4) {
            let name = random.pick(&NAMES);
            schema.set(&["properties", name], self::schema(random, depth + 1));
        }
    }
    schema
}

fn definition(random: &mut Random) -> Value {
    let names = value!({"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"});
    let versions = (0..random.below(3)).map(|i| {
        value!({
            "name": (random.pick(&["v1", "v2", "v1beta1"])),
            "served": (random.below(2) == 0),
            "storage": (i == 0),
            "schema": {"openAPIV3Schema": (schema(random, 0))},
            "additionalPrinterColumns": (any(random, 3)),
            "selectableFields": [{"jsonPath": (random.pick(&[".spec.a", "spec", ".a[0]", ".", ".spec['a.b/c']"]))}],
            "subresources": (any(random, 3)),
        })
    });
    let mut object = value!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": (versions.collect::<Vec<_>>())},
    });
    // Something is replaced by something else.
    if random.below(3) == 0 {
        let (first, second) =
            (random.pick(&["spec", "status", "metadata"]), random.pick(&["versions", "names", "conversion"]));
        object.set(&[first, second], any(random, 0));
    }
    object
}

fn strategy() -> std::sync::Arc<dyn Strategy> {
    let all = kinds::strategies();
    all.into_iter().find(|(_, resource, _)| *resource == "customresourcedefinitions").unwrap().2
}

/// Calls `round` with random numbers until the time is over; no round may be slow.
fn for_a_while(mut round: impl FnMut(&mut Random)) {
    let until = Instant::now() + Duration::from_secs(setting("FERROKUBE_FUZZ_SECONDS", 2));
    let mut random = Random::new();
    while Instant::now() < until {
        let seed = random.0;
        let began = Instant::now();
        round(&mut random);
        assert!(began.elapsed() < SLOW, "slow with FERROKUBE_FUZZ_SEED={seed}");
    }
}

#[test]
fn definitions() {
    let strategy = strategy();
    let (user, features) = (User::default(), Features::default());
    for_a_while(|random| {
        let version = random.pick(&["v1", "v1beta1"]);
        let cx = Context {
            group: "apiextensions.k8s.io",
            version,
            verb: "create",
            ..Context::of_server(Timestamp::new(0, 0), &user, &features)
        };
        let mut objects = [definition(random), definition(random)];
        for object in &mut objects {
            *object = kinds::apiextensions::to_stored(object.clone());
            strategy.default(object);
        }
        let (new, old) = (Cursor::root(&objects[0]), Cursor::root(&objects[1]));
        let mut errors = Errors::new();
        strategy.validate(&cx, &new, &mut errors);
        strategy.validate_update(&cx, &new, &old, &mut errors);
        strategy.warnings(&cx, &objects[0], Some(&objects[1]));
        strategy.cells(&cx, &objects[0]);
        errors.aggregate();
        let served = kinds::apiextensions::to_v1(objects[0].clone());
        let _ = kinds::apiextensions::structural_problems(&served);
        kinds::apiextensions::is_ca_bundle_valid(&served);
    });
}

#[test]
fn objects_of_schemas() {
    for_a_while(|random| {
        let stated = schema(random, 0);
        let (types, node) = schema::from_openapi(&stated, random.below(8) == 0);
        let schema = Schema::new(&types, &node);
        let validator = Validator::new(&stated, true, &cel::Pool::default());
        for _ in 0..5 {
            let mut object = any(random, 0);
            object = if object.as_map().is_some() { object } else { Value::map() };
            let mut stored = object.clone();
            let _ = custom::settle_stored(schema, &mut stored, false);
            let Ok((mut object, _)) = custom::settle(object, schema) else { continue };
            // Settling what is settled changes nothing.
            let again = custom::settle(object.clone(), schema);
            assert_eq!(again.map(|(object, _)| object).as_ref(), Ok(&object), "{stated:?}");
            schema::default(schema, &mut object);
            schema::default(schema, &mut stored);
            let mut errors = schema::validate(schema, &object);
            errors.extend(schema::validate_update(schema, &object, &stored));
            errors.extend(schema::validate_lists(schema, &object));
            custom::validate_embedded(schema, &object, custom::At::Resource, &mut errors);
            if let Some(validator) = &validator {
                let ratchet = Ratchet::update(schema, &object, &stored);
                validator.validate(&Path::root(), &object, Some(&stored), ratchet, &mut Budget::default(), &mut errors);
            }
            errors.aggregate();
        }
    });
}
