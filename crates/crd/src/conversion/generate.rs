//! [`ObjectGenerator`]: objects that fit a schema, for the proof that conversions lose nothing.

use object::{Map, Str, Value, value};
use schema::{ListType, Rules, Schema, Shape};

/// Fields beyond this are left out unless they are required.
const MAX_FIELDS: usize = 3_000;
/// How often a value is made again that does not fit.
const TRIES: usize = 8;
/// Texts for patterns: the first that fits is taken.
const TEXTS: &[&str] = &[
    "text",
    "a",
    "b-c",
    "example.com",
    "10s",
    "1h0m0s",
    "5m",
    "100m",
    "1Gi",
    "1",
    "10",
    "50%",
    "*",
    "/",
    "/path",
    "A",
    "Text",
    "1.2.3.4",
    "10.0.0.0/8",
    "https://example.com/path",
    "example.com/name",
    "example.com/v1",
    "user@example.com",
    "@daily",
    "0 * * * *",
    "v1.2.3",
    "1.2.3",
    "2024-01-02T03:04:05Z",
    "00:00",
    "sha256:0123456789abcdef",
    "TEXT",
    "=",
    "true",
    "-1",
    "YWJj",
    "abcdefghijklmnopqrstuvwxyz",
    "name=value",
    "http",
    "Ready",
    "Never",
];

/// Makes objects. The same seed makes the same objects.
pub struct ObjectGenerator {
    random: u64,
    /// Of 100 optional fields, how many are there.
    density: u64,
    fields: usize,
    /// Fields for which no value was found that fits.
    pub missing: Vec<String>,
}

impl ObjectGenerator {
    pub fn new(seed: u64) -> ObjectGenerator {
        ObjectGenerator {
            random: seed.wrapping_add(0x9e37_79b9_7f4a_7c15),
            density: 100,
            fields: 0,
            missing: Vec::new(),
        }
    }

    /// An object of the version. The first has every field, the second only those that are required. None if a required field has no
    /// value that fits.
    pub fn object(&mut self, schema: Schema<'_>, number: usize) -> Option<Value> {
        self.density = match number {
            0 => 100,
            1 => 0,
            number => [90, 70, 50, 30, 15][number % 5],
        };
        self.fields = 0;
        let mut object = self.value(schema, "")?;
        object.set(&["metadata"], value!({"name": "generated", "labels": {"a": "b"}, "annotations": {"c": "d"}}));
        Some(object)
    }

    /// A number below `end`, by xorshift.
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end.max(1)
    }

    fn value(&mut self, schema: Schema<'_>, path: &str) -> Option<Value> {
        let rules = schema.rules.as_deref();
        if let Some(rules) = rules.filter(|rules| !rules.enumeration.is_empty()) {
            let at = self.below(rules.enumeration.len() as u64) as usize;
            return rules.enumeration.get(at).filter(|value| !value.is_null()).cloned();
        }
        // Alternatives, and what else the shape does not tell, are tried out.
        for _ in 0..TRIES {
            let made = self.shaped(schema, rules, path)?;
            if matches!(made, Value::Map(_)) && path.is_empty() || schema::validate(schema, &made).is_empty() {
                return Some(made);
            }
        }
        None
    }

    fn shaped(&mut self, schema: Schema<'_>, rules: Option<&Rules>, path: &str) -> Option<Value> {
        Some(match &schema.shape {
            Shape::Bool => Value::Bool(self.below(2) == 1),
            Shape::Int32 | Shape::Int64 => Value::Int(self.int(rules)),
            Shape::Float => Value::Float(self.int(rules) as f64 + 0.5),
            Shape::IntOrString => match self.below(2) {
                0 => Value::Int(self.int(rules)),
                _ => self.text(schema)?,
            },
            Shape::Any | Shape::RawExtension | Shape::Fields => value!({"any": "thing"}),
            Shape::List(items) => self.list(schema, schema.with(items), rules, path),
            Shape::Map(values) => {
                let least = rules.and_then(|rules| rules.min_properties).unwrap_or(1);
                let mut entries = Vec::new();
                for at in 0..least.clamp(1, 3) {
                    let key = format!("key{at}");
                    entries.push((Str::from(key), self.value(schema.with(values), &format!("{path}[*]"))?));
                }
                Value::Map(Map::from_entries(entries, |_| {}))
            }
            Shape::Struct(_) => self.structure(schema, rules, path)?,
            _ => self.text(schema)?,
        })
    }

    fn int(&mut self, rules: Option<&Rules>) -> i64 {
        let least = rules.and_then(|rules| rules.minimum).unwrap_or(1.0);
        let most = rules.and_then(|rules| rules.maximum).unwrap_or(least + 100.0);
        least as i64 + self.below((most - least).clamp(0.0, 100.0) as u64 + 1) as i64
    }

    /// A text that fits format, pattern and length.
    fn text(&mut self, schema: Schema<'_>) -> Option<Value> {
        let format = schema.rules.as_ref().and_then(|rules| rules.format.as_deref());
        let of_format = match format {
            Some("date-time") => Some("2024-01-02T03:04:05Z"),
            Some("date") => Some("2024-01-02"),
            Some("duration") => Some("1h0m0s"),
            Some("byte") => Some("YWJj"),
            Some("uuid") => Some("0b6bf0c5-6a0b-4a2b-8a4e-0f2d6f0a0001"),
            _ => None,
        };
        if let Some(text) = of_format {
            return Some(text.into());
        }
        let begin = self.below(4) as usize;
        let texts = TEXTS.iter().cycle().skip(begin).take(TEXTS.len());
        let long = rules_length(schema).map(|least| "a".repeat(least));
        let mut texts = texts.map(|text| Value::from(*text)).chain(long.map(Value::from));
        texts.find(|text| schema::validate(schema, text).is_empty())
    }

    fn list(&mut self, schema: Schema<'_>, items: Schema<'_>, rules: Option<&Rules>, path: &str) -> Value {
        let least = rules.and_then(|rules| rules.min_items).unwrap_or(1).max(1);
        let count = (least + self.below(2)).min(rules.and_then(|rules| rules.max_items).unwrap_or(u64::MAX)).min(8);
        let path = format!("{path}[*]");
        let mut list: Vec<Value> = Vec::new();
        for _ in 0..count {
            let Some(item) = self.value(items, &path) else { continue };
            let is_known = match &schema.list_type {
                ListType::Map(keys) => {
                    list.iter().any(|known| keys.iter().all(|key| known.field(key) == item.field(key)))
                }
                _ => list.contains(&item),
            };
            if !is_known {
                list.push(item);
            }
        }
        Value::List(list)
    }

    fn structure(&mut self, schema: Schema<'_>, rules: Option<&Rules>, path: &str) -> Option<Value> {
        let fields = schema.as_struct().map(|described| described.fields.iter()).into_iter().flatten();
        let mut entries = Vec::new();
        for field in fields {
            if schema.embedded && matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let required = field.required || rules.is_some_and(|rules| rules.required.contains(&field.name));
            self.fields += 1;
            if !required && (self.fields > MAX_FIELDS || self.below(100) >= self.density) {
                continue;
            }
            let path = match path {
                "" => field.name.to_string(),
                path => format!("{path}.{}", field.name),
            };
            match self.value(schema.with(&field.node), &path) {
                Some(value) => entries.push((field.name.clone(), value)),
                None if required => return None,
                None if !self.missing.contains(&path) => self.missing.push(path),
                None => {}
            }
        }
        if schema.embedded && !path.is_empty() {
            entries.push(("apiVersion".into(), "v1".into()));
            entries.push(("kind".into(), "Embedded".into()));
        }
        Some(Value::Map(Map::from_entries(entries, |_| {})))
    }
}

/// The least length of a text, if it is one that a text can be made for.
fn rules_length(schema: Schema<'_>) -> Option<usize> {
    let rules = schema.rules.as_ref()?;
    let least = rules.min_length.or(rules.max_length)?;
    usize::try_from(least).ok().filter(|least| *least <= 1024)
}
