//! Walking all parts of the schemas of a definition, whether or not they are structural.

use object::{Cursor, Value};

/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

/// The schemas of all versions of a spec in the form of v1.
pub fn each_schema<'a>(spec: &Cursor<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    let schemas = spec.field("versions").each().map(|version| version.at(&["schema", "openAPIV3Schema"]).value());
    schemas.filter(|schema| !schema.is_null())
}

/// Whether the predicate holds for a schema or for any schema inside of it.
pub fn any_part(schema: &Value, predicate: &dyn Fn(&Value) -> bool) -> bool {
    walk(schema, predicate, 0)
}

fn walk(schema: &Value, predicate: &dyn Fn(&Value) -> bool, depth: usize) -> bool {
    if depth > MAX_DEPTH || schema.as_map().is_none() {
        return false;
    }
    let single = ["items", "not", "additionalProperties", "additionalItems"].map(|name| schema.field(name));
    let lists = ["items", "allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| schema.list_at(&[name]));
    let maps = ["properties", "patternProperties", "definitions", "dependencies"];
    let maps = maps.into_iter().filter_map(|name| schema.field(name).as_map()).flat_map(|map| map.values());
    predicate(schema) || single.into_iter().chain(lists).chain(maps).any(|part| walk(part, predicate, depth + 1))
}
