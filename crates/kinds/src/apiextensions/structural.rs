//! Whether a schema is structural: every value in an object has one type that the schema names.

use object::{Cursor, Errors};

use crate::common::checks::Checks;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Checks the `openAPIV3Schema` of a version.
pub fn validate(schema: &Cursor, errors: &mut Errors) {
    validate_level(schema, Level::Root, 0, errors);
}

fn validate_level(schema: &Cursor, level: Level, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return schema.forbidden(errors, "must not be nested this deeply");
    }
    validate_type(schema, level, errors);
    for (_, property) in schema.field("properties").entries() {
        validate_level(&property, Level::Field, depth + 1, errors);
    }
    let additional = schema.field("additionalProperties");
    if additional.value().as_map().is_some() {
        validate_level(&additional, Level::Field, depth + 1, errors);
    }
    let items = schema.field("items");
    if items.is_set() {
        validate_level(&items, Level::Item, depth + 1, errors);
    } else if schema.field("type").str() == "array" {
        items.required(errors, "must be specified");
    }
}

fn validate_type(schema: &Cursor, level: Level, errors: &mut Errors) {
    let kind = schema.field("type");
    let flag = |name: &str| schema.field(&format!("x-kubernetes-{name}")).bool();
    let (preserves, embeds) = (flag("preserve-unknown-fields"), flag("embedded-resource"));
    if level == Level::Root && !matches!(kind.str(), "" | "object") {
        kind.bad(errors, "must be object at the root");
    }
    match (kind.str(), level) {
        ("", Level::Root) => kind.required(errors, "must not be empty at the root"),
        ("", _) if flag("int-or-string") || preserves => {}
        ("", Level::Field) => kind.required(errors, "must not be empty for specified object fields"),
        ("", Level::Item) => kind.required(errors, "must not be empty for specified array items"),
        (known, _) if !TYPES.contains(&known) => kind.not_supported(errors, &TYPES),
        (known, _) if known != "object" && embeds => {
            kind.bad(errors, "must be object if x-kubernetes-embedded-resource is true");
        }
        (known, _) if known != "object" && preserves => {
            kind.bad(errors, "must be object if x-kubernetes-preserve-unknown-fields is true");
        }
        (_, _) if flag("int-or-string") => kind.bad(errors, "must be empty if x-kubernetes-int-or-string is true"),
        _ => {}
    }
}
