//! Warnings about schemas that are accepted but do not do what they say.

use std::collections::BTreeSet;

use object::{Value, quote};

use super::conversion_rules;

/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

/// What a definition of the form of v1 is warned about, except for what its old state was warned about already.
pub fn of(object: &Value, old: Option<&Value>) -> Vec<String> {
    let found = Found::of(object);
    let before = old.map(Found::of).unwrap_or_default();
    let formats = found.formats.iter().filter(|format| !before.formats.contains(format));
    let formats = formats.map(|format| format!("unrecognized format {}", quote(format)));
    let sets = found.sets.iter().filter(|kind| !before.sets.contains(*kind)).map(|kind| {
        format!(
            "x-kubernetes-list-type: set for items of type {} is not supported by server-side apply or CEL validation rules",
            quote(kind)
        )
    });
    let rules =
        conversion_rules::warning(object).filter(|_| old.is_none_or(|old| conversion_rules::warning(old).is_none()));
    formats.chain(sets).chain(rules).collect()
}

#[derive(Default)]
struct Found {
    /// Formats that nothing checks, as often as they are there.
    formats: Vec<String>,
    /// Types of the items of sets that are not scalars.
    sets: BTreeSet<String>,
}

impl Found {
    fn of(object: &Value) -> Found {
        let mut found = Found::default();
        let mut seen: Vec<&Value> = Vec::new();
        for version in object.list_at(&["spec", "versions"]) {
            let schema = version.at(&["schema", "openAPIV3Schema"]);
            // Versions that share a schema are stored with one, and warned about once.
            if seen.contains(&schema) {
                continue;
            }
            seen.push(schema);
            found.walk(schema, 0);
        }
        found
    }

    fn walk(&mut self, schema: &Value, depth: usize) {
        if depth > MAX_DEPTH || schema.as_map().is_none() {
            return;
        }
        let (kind, format) = (schema.str_at(&["type"]), schema.str_at(&["format"]));
        if !format.is_empty() && !schema::is_known_format(kind, format) {
            self.formats.push(format.to_string());
        }
        let items = schema.at(&["items", "type"]).as_str().unwrap_or("");
        if schema.str_at(&["x-kubernetes-list-type"]) == "set" && matches!(items, "object" | "array") {
            self.sets.insert(items.to_string());
        }
        self.walk(schema.field("items"), depth + 1);
        for list in ["allOf", "anyOf", "oneOf"] {
            schema.list_at(&[list]).iter().for_each(|part| self.walk(part, depth + 1));
        }
        self.walk(schema.field("not"), depth + 1);
        for (_, property) in schema.field("properties").as_map().into_iter().flat_map(|map| map.iter()) {
            self.walk(property, depth + 1);
        }
        self.walk(schema.field("additionalProperties"), depth + 1);
    }
}
