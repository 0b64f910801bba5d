//! Any value a schema allows survives every round trip, for every recorded kind and made-up ones.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod common;

use codec::{DecodeError, Notes, cbor, json, proto, yaml};
use object::{Map, Raw, Str, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use schema::{Schema, Shape, builtin};

/// How deeply made-up values nest; schemas may be recursive.
const DEPTH: usize = 8;
/// How many values are made up for each kind.
const CASES: u32 = 3;

/// A made-up value: choices are drawn from `seed`, so that one number replays it.
struct Maker {
    seed: u64,
}

impl Maker {
    fn draw(&mut self, below: u64) -> u64 {
        // Xorshift: plain, and the same on every machine.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.draw(choices.len() as u64) as usize]
    }

    fn value(&mut self, schema: Schema<'_>, depth: usize) -> Value {
        match &schema.shape {
            Shape::Any => self.anything(depth),
            Shape::RawExtension | Shape::Fields => {
                // Sorted and compact, as the formats that have no spelling to keep write it.
                let mut text = Vec::new();
                json::encode(&self.anything(depth), None, &mut text);
                Value::Raw(Raw::new(String::from_utf8(text).unwrap()))
            }
            Shape::Bool => Value::Bool(self.draw(2) == 1),
            Shape::Int32 => Value::from(self.pick(&[0, 1, -1, 443, i32::MAX, i32::MIN])),
            Shape::Int64 => Value::Int(self.pick(&[0, 1, -1, 1 << 53, i64::MAX, i64::MIN])),
            Shape::Float => Value::Float(self.pick(&[0.0, 1.5, -2.0, 1e21, 1e-7, 0.1, f64::MAX])),
            Shape::String => Value::from(self.text()),
            Shape::Bytes => Value::from(self.pick(&["", "AA==", "/+8=", "aGVsbG8gd29ybGQ="])),
            Shape::IntOrString if self.draw(2) == 0 => Value::from(self.pick(&[0, 80, -1, i32::MAX])),
            Shape::IntOrString => Value::from(self.pick(&["http", "25%", "80"])),
            Shape::Quantity => Value::from(self.pick(&["0", "100m", "1Gi", "1500m", "1e3", "5", "3Ei"])),
            Shape::Time => Value::from(self.pick(&["2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z"])),
            Shape::MicroTime => Value::from(self.pick(&["2026-01-02T03:04:05.000006Z", "1969-12-31T23:59:59.999999Z"])),
            Shape::Duration => Value::from(self.pick(&["1h0m0s", "1.5s", "-2m0s", "100ns"])),
            Shape::Struct(_) => self.structure(schema, depth),
            Shape::List(items) => {
                let count = if depth == 0 { 0 } else { 1 + self.draw(2) };
                Value::List((0..count).map(|_| self.value(schema.with(items), depth - 1)).collect())
            }
            Shape::Map(values) => {
                let count = if depth == 0 { 0 } else { 1 + self.draw(2) };
                Value::Map((0..count).map(|_| (self.text(), self.value(schema.with(values), depth - 1))).collect())
            }
            Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id) => {
                self.union(schema, *id, depth)
            }
        }
    }

    fn union(&mut self, schema: Schema<'_>, id: schema::StructId, depth: usize) -> Value {
        let node = schema::Node { shape: Shape::Struct(id), ..schema::Node::default() };
        match (&schema.shape, self.draw(2)) {
            (Shape::StructOrBool(_), 0) => Value::Bool(self.draw(2) == 1),
            (Shape::StructOrStrings(_), 0) => Value::from(vec![self.text(), self.text()]),
            (Shape::StructOrList(_), 0) if depth > 0 => {
                Value::List(vec![self.structure(Schema::new(schema.types, &node), depth - 1)])
            }
            _ => self.structure(Schema::new(schema.types, &node), depth.saturating_sub(1)),
        }
    }

    /// Some of the fields. What Go cannot tell from unset is left unset, as decoders do it.
    fn structure(&mut self, schema: Schema<'_>, depth: usize) -> Value {
        let mut map = Map::new();
        let Some(of) = schema.as_struct().filter(|_| depth > 0) else { return Value::Map(map) };
        for field in &of.fields {
            if self.draw(4) == 0 || matches!(field.name.as_str(), "kind" | "apiVersion") && field.tag == 0 {
                continue;
            }
            let value = self.value(schema.with(&field.node), depth - 1);
            let unset = value.is_null() || value.is_empty() && !keeps_empty(&field.node.shape, field.pointer);
            let zero = !field.pointer && matches!(value.as_str(), Some("0")) && field.node.shape == Shape::Quantity;
            if !unset && !zero {
                map.insert(field.name.clone(), value);
            }
        }
        Value::Map(map)
    }

    fn anything(&mut self, depth: usize) -> Value {
        match self.draw(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Int(self.pick(&[0, 7, -7])),
            1 => Value::Float(self.pick(&[0.5, -1.25])),
            2 => Value::Bool(true),
            3 => Value::from(self.text()),
            4 => Value::List(vec![self.anything(depth - 1), Value::Null]),
            _ => Value::Map([(self.text(), self.anything(depth - 1))].into_iter().collect()),
        }
    }

    fn text(&mut self) -> Str {
        let pieces =
            ["a", "Z9", "-", ".", "/", "é", "世", "😀", "\n", "\"", "\\", "<&>", "\u{2028}", "yes", "1", " ", ": "];
        let count = self.draw(4);
        (0..count).map(|_| self.pick(&pieces)).collect::<String>().into()
    }
}

/// Whether an empty value of that type is something other than nothing.
fn keeps_empty(shape: &Shape, pointer: bool) -> bool {
    match shape {
        Shape::List(_) | Shape::Map(_) | Shape::Bytes => false,
        Shape::Any | Shape::RawExtension => true,
        Shape::StructOrList(_) | Shape::StructOrBool(_) | Shape::StructOrStrings(_) => true,
        _ => pointer,
    }
}

fn same(format: &str, decoded: Result<Value, DecodeError>, value: &Value) -> Result<(), TestCaseError> {
    match decoded {
        Ok(decoded) => prop_assert_eq!(&decoded, value, "{}", format),
        Err(error) => return Err(TestCaseError::fail(format!("{format}: {error}"))),
    }
    Ok(())
}

fn check(schema: Schema<'static>, value: &Value, has_proto: bool) -> Result<(), TestCaseError> {
    let mut ignore = Notes::ignore();
    let mut text = Vec::new();
    json::encode(value, Some(schema), &mut text);
    same("JSON", json::decode(&text, Some(schema), &mut ignore), value)?;

    let mut pretty = Vec::new();
    json::indent(&text, &mut pretty);
    // Spaces count inside raw extensions until they are printed again.
    let read = json::decode(&pretty, Some(schema), &mut ignore).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let mut again = Vec::new();
    json::encode(&read, Some(schema), &mut again);
    prop_assert_eq!(&again, &text, "pretty JSON");

    let mut lines = Vec::new();
    yaml::encode(value, Some(schema), &mut lines);
    same("YAML", yaml::decode(&lines, Some(schema), &mut ignore), value)?;

    let mut document = Vec::new();
    cbor::encode(value, Some(schema), &mut document).map_err(|e| TestCaseError::fail(e.to_string()))?;
    same("CBOR", cbor::decode(&document, Some(schema), &mut ignore), value)?;

    if has_proto {
        let mut message = Vec::new();
        proto::encode(value, schema, &mut message).map_err(|e| TestCaseError::fail(e.to_string()))?;
        same("protobuf", proto::decode(&message, schema), value)?;
    }
    // Untyped, what was printed reads back as itself.
    let printed = json::decode(&text, None, &mut ignore).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let mut again = Vec::new();
    json::encode(&printed, None, &mut again);
    prop_assert_eq!(json::decode(&again, None, &mut ignore), Ok(printed), "untyped JSON");
    Ok(())
}

#[test]
fn values_survive_every_round_trip() {
    let mut kinds: Vec<_> = builtin().kinds().collect();
    kinds.sort_by_key(|kind| format!("{:?}", kind.name));
    // A fixed start makes failures the same everywhere; proptest shrinks the number that is printed.
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    for kind in kinds {
        let schema = Schema::new(builtin().types(), &kind.node);
        let has_proto = schema.as_struct().is_some_and(|of| !of.proto_order.is_empty());
        let result = runner.run(&(1..u64::MAX), |seed| {
            let value = Maker { seed }.value(schema, DEPTH);
            check(schema, &value, has_proto)
        });
        if let Err(failure) = result {
            panic!("{:?}: {failure}", kind.name);
        }
    }
}

/// The same for objects in which every field is set.
#[test]
fn recorded_objects_survive_every_round_trip() {
    for golden in common::goldens() {
        let value = json::decode(&golden.compact_json(), Some(golden.schema()), &mut Notes::ignore()).unwrap();
        check(golden.schema(), &value, true).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
    }
}
