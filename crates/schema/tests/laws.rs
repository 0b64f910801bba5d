//! Laws of the operations, on values that a seed makes up: some fit their schema, some do not.

#![allow(clippy::unwrap_used)] // A test may panic, and its helpers are tests too.

use object::{Map, Str, Value};
use proptest::prelude::*;
use schema::{
    Field, ListType, Node, Pattern, Rules, Schema, Shape, Struct, Types, builtin, default, equal, normalise, prune,
    validate, validate_lists, validate_update,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_in_kinds(seed in any::<u64>()) {
        let mut random = Random(seed | 1);
        let kinds: Vec<_> = builtin().resources().map(|r| &r.kind).collect();
        let kind = kinds[random.below(kinds.len())];
        let schema = builtin().schema(kind).unwrap();
        let fitting = random.value(schema, 0, false);
        laws(schema, &fitting);

        let mut normal = fitting.clone();
        normalise(schema, &mut normal);
        prop_assert!(equal(schema, &fitting, &normal), "{fitting:?} and {normal:?}");
        let mut pruned = fitting.clone();
        prop_assert!(prune(schema, &mut pruned).is_empty(), "all fields are known");
        prop_assert_eq!(&pruned, &fitting);

        // Anything at all may arrive, and nothing may panic.
        laws(schema, &random.value(schema, 0, true));
    }

    #[test]
    fn custom_kinds(seed in any::<u64>()) {
        let mut random = Random(seed | 1);
        let mut types = Types::new();
        let root = random.node(&mut types, 0);
        types.mark_defaults();
        let schema = Schema::new(&types, &root);
        let value = random.value(schema, 0, true);
        laws(schema, &value);
        let mut other = random.value(schema, 0, true);
        validate_update(schema, &other, &value);
        // An update is never judged more harshly than a new object.
        let strict: Vec<String> = validate(schema, &value).iter().map(|e| e.field.clone()).collect();
        for error in validate_update(schema, &value, &value).iter() {
            prop_assert!(strict.contains(&error.field), "{error} is new");
        }
        default(schema, &mut other);
    }
}

/// What holds for every schema and value.
fn laws(schema: Schema<'_>, value: &Value) {
    assert!(equal(schema, value, value), "{value:?} is not itself");
    for (name, operation) in [("default", default as fn(Schema<'_>, &mut Value)), ("normalise", normalise)] {
        let mut once = value.clone();
        operation(schema, &mut once);
        let mut twice = once.clone();
        operation(schema, &mut twice);
        assert_eq!(once, twice, "{name} twice, from {value:?}");
    }
    let mut pruned = value.clone();
    let unknown = prune(schema, &mut pruned);
    assert_eq!(unknown.is_empty(), &pruned == value, "what is dropped is told: {unknown:?}");
    assert!(prune(schema, &mut pruned).is_empty());
    validate(schema, value);
    validate_lists(schema, value);
}

/// xorshift: enough chance for tests, and the same chance every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A value for a place; a `wild` one need not fit.
    fn value(&mut self, schema: Schema<'_>, depth: usize, wild: bool) -> Value {
        if wild && self.one_in(12) {
            return self.anything(depth);
        }
        match &schema.shape {
            _ if self.one_in(20) => Value::Null,
            Shape::Struct(id) => {
                let known = schema.types.get(*id);
                let mut map = Map::new();
                for field in &known.fields {
                    if depth < 8 && self.one_in(3) {
                        map.insert(field.name.clone(), self.value(schema.with(&field.node), depth + 1, wild));
                    }
                }
                if wild && self.one_in(6) {
                    map.insert("unheardOf", self.anything(depth + 1));
                }
                Value::Map(map)
            }
            Shape::List(inner) => {
                (0..self.below(3)).map(|_| self.value(schema.with(inner), depth + 1, wild)).collect::<Vec<_>>().into()
            }
            Shape::Map(inner) => {
                let keys = ["a", "b.c/d", ""];
                let entries = (0..self.below(3)).map(|i| (keys[i], self.value(schema.with(inner), depth + 1, wild)));
                Value::Map(entries.collect())
            }
            Shape::Bool => self.one_in(2).into(),
            Shape::Int32 | Shape::Int64 => [0, 1, 80, -5][self.below(4)].into(),
            Shape::Float => [Value::Float(0.5), Value::Int(0), Value::Float(3.0)][self.below(3)].clone(),
            Shape::String => ["", "text", "Always"][self.below(3)].into(),
            Shape::Bytes => ["", "eA=="][self.below(2)].into(),
            Shape::IntOrString => [Value::Int(0), "25%".into(), Value::Int(8080)][self.below(3)].clone(),
            Shape::Quantity => ["0", "0.1", "1024Mi", "1e3", "5n"][self.below(5)].into(),
            Shape::Time => ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05+01:00"][self.below(2)].into(),
            Shape::MicroTime => "2024-01-02T03:04:05.000001Z".into(),
            Shape::Duration => ["0s", "1h30m", "90s"][self.below(3)].into(),
            Shape::StructOrBool(_) if self.one_in(2) => true.into(),
            Shape::StructOrStrings(_) if self.one_in(2) => Value::List(vec!["a".into()]),
            Shape::StructOrList(id) if self.one_in(2) => {
                let node = Node { shape: Shape::Struct(*id), ..Node::default() };
                Value::List(vec![self.value(schema.with(&node), depth + 1, wild)])
            }
            Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id) => {
                let node = Node { shape: Shape::Struct(*id), ..Node::default() };
                self.value(schema.with(&node), depth + 1, wild)
            }
            Shape::Any | Shape::RawExtension | Shape::Fields => self.anything(depth),
        }
    }

    fn anything(&mut self, depth: usize) -> Value {
        match self.below(if depth < 8 { 9 } else { 6 }) {
            0 => Value::Null,
            1 => true.into(),
            2 => Value::Int(self.next() as i64),
            3 => Value::Float([0.5, -0.0, 1e300, f64::INFINITY][self.below(4)]),
            4 => "".into(),
            5 => ["x", "\u{0}é\"", "2024-01-02T03:04:05Z"][self.below(3)].into(),
            6 => Value::List((0..self.below(3)).map(|_| self.anything(depth + 1)).collect()),
            _ => Value::Map((0..self.below(3)).map(|i| (["kind", "name", "z"][i], self.anything(depth + 1))).collect()),
        }
    }

    /// A custom schema with a little of everything.
    fn node(&mut self, types: &mut Types, depth: usize) -> Node {
        let shape = match self.below(if depth < 3 { 10 } else { 6 }) {
            0 => Shape::Any,
            1 => Shape::Int64,
            2 => Shape::Float,
            3 => Shape::String,
            4 => Shape::Bool,
            5 => Shape::IntOrString,
            6 => Shape::List(Box::new(self.node(types, depth + 1))),
            7 => Shape::Map(Box::new(self.node(types, depth + 1))),
            _ => {
                let names = ["kind", "name", "spec", "z"];
                let fields: Vec<Field> = (0..self.below(5))
                    .map(|i| Field {
                        name: names[i].into(),
                        node: self.node(types, depth + 1),
                        required: self.one_in(3),
                        pointer: true,
                        ..Field::default()
                    })
                    .collect();
                let id = types.declare("".into());
                let preserve_unknown = self.one_in(4);
                types.define(id, Struct { fields, preserve_unknown, ..Struct::default() });
                Shape::Struct(id)
            }
        };
        let rules = self.one_in(2).then(|| Box::new(self.rules(types, depth)));
        let list_type = match self.below(3) {
            0 => ListType::Set,
            1 => ListType::Map(vec!["name".into()]),
            _ => ListType::Atomic,
        };
        let mut node = Node { shape, nullable: self.one_in(4), list_type, rules, ..Node::default() };
        node.untyped = self.one_in(8);
        node
    }

    fn rules(&mut self, types: &mut Types, depth: usize) -> Rules {
        let mut branches = |random: &mut Random| -> Vec<Node> {
            let count = if depth < 2 { random.below(3) } else { 0 };
            (0..count).map(|_| random.node(types, depth + 1)).collect()
        };
        let (any_of, one_of, all_of) = (branches(self), branches(self), branches(self));
        let formats: [&str; 4] = ["date-time", "int32", "email", "nonsense"];
        Rules {
            format: self.one_in(2).then(|| Str::from(formats[self.below(4)])),
            pattern: self.one_in(3).then(|| Pattern::new(["^x", "(", "[[:alpha:]]"][self.below(3)])),
            minimum: self.one_in(3).then_some(0.5),
            maximum: self.one_in(3).then_some(10.0),
            multiple_of: self.one_in(4).then(|| [0.0, 0.5, 2.0][self.below(3)]),
            max_length: self.one_in(3).then_some(1),
            max_items: self.one_in(3).then_some(1),
            min_properties: self.one_in(3).then_some(1),
            unique_items: self.one_in(3),
            enumeration: if self.one_in(4) { vec![self.anything(7)] } else { vec![] },
            any_of,
            one_of,
            all_of,
            ..Rules::default()
        }
    }
}
