//! Defaults in schemas: each must be a value that its own part of the schema accepts.

use object::{Cursor, Errors};
use schema::Schema;

/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

/// Checks all defaults of a structural schema.
pub fn validate(schema: &Cursor, errors: &mut Errors) {
    walk(schema, true, 0, errors);
}

fn walk(schema: &Cursor, is_resource: bool, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return;
    }
    if schema.field("default").is_set() {
        validate_one(schema, errors);
    }
    if schema.field("items").value().as_map().is_some() {
        let items = schema.field("items");
        walk(&items, items.field("x-kubernetes-embedded-resource").bool(), depth + 1, errors);
    }
    for (name, property) in schema.field("properties").entries() {
        // Defaults of an object's own type and metadata are judged together with the rest of the metadata.
        if is_resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        walk(&property, property.field("x-kubernetes-embedded-resource").bool(), depth + 1, errors);
    }
}

fn validate_one(schema: &Cursor, errors: &mut Errors) {
    let default = schema.field("default");
    let (types, node) = schema::from_openapi_part(schema.value());
    let part = Schema::new(&types, &node);
    let mut pruned = default.value().clone();
    if !schema::prune(part, &mut pruned).is_empty() {
        default.invalid(errors, "must not have unknown fields");
    }
    errors.extend(schema::validate_part(part, default.value(), &default.path().to_string()));
}
