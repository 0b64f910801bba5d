//! Whether a schema is structural: every value in an object has one type that the schema names, and what `allOf`, `anyOf`,
//! `oneOf` and `not` say is about values that are named outside of them.

use object::{Cursor, Errors, Path, Value};

use super::pattern;
use crate::common::checks::Checks;

/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Reports what is not structural about the `openAPIV3Schema` of a version, in the order of the messages; says whether it
/// is.
pub fn validate(schema: &Cursor, errors: &mut Errors) -> bool {
    let mut found = Errors::new();
    validate_level(schema, Level::Root, 0, &mut found);
    complete(schema, schema, 0, &mut found);
    let mut all: Vec<_> = found.iter().cloned().collect();
    all.sort_by_key(ToString::to_string);
    let fine = all.is_empty();
    all.into_iter().for_each(|error| errors.push(error));
    fine
}

/// Whether a schema is structural.
pub fn is_structural(schema: &Value) -> bool {
    is_convertible(schema).is_ok() && validate(&Cursor::root(schema), &mut Errors::new())
}

/// Whether a schema has nothing in it that a structural schema cannot have at all; says what it has.
pub fn is_convertible(schema: &Value) -> Result<(), String> {
    fits(schema, 0)
}

fn fits(schema: &Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    let unsupported = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = unsupported.iter().find(|(field, _)| !schema.field(field).is_empty()) {
        return Err(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.field("x-kubernetes-preserve-unknown-fields").as_bool() == Some(false) {
        return Err("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_string());
    }
    if schema.field("items").as_list().is_some_and(|items| !items.is_empty()) {
        return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_string());
    }
    let single = ["items", "additionalProperties", "not"].map(|name| schema.field(name));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| schema.list_at(&[name]));
    let properties = schema.field("properties").as_map().into_iter().flat_map(|map| map.iter()).map(|(_, value)| value);
    let mut parts = single.into_iter().chain(lists).chain(properties);
    parts.try_for_each(|part| if part.as_map().is_some() { fits(part, depth + 1) } else { Ok(()) })
}

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub const EMBEDDED: &str = "x-kubernetes-embedded-resource";

fn validate_level(schema: &Cursor, level: Level, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return schema.forbidden(errors, "must not be nested this deeply");
    }
    let (items, additional) = (schema.field("items"), schema.field("additionalProperties"));
    if has_items(schema) {
        validate_level(&items, Level::Item, depth + 1, errors);
    } else if schema.field("type").str() == "array" {
        items.required(errors, "must be specified");
    }
    for (_, property) in schema.field("properties").entries() {
        validate_level(&property, Level::Field, depth + 1, errors);
    }
    if additional.is_set() {
        if level == Level::Root {
            additional.forbidden(errors, "must not be used at the root");
        }
        if additional.value().as_map().is_some() {
            validate_level(&additional, Level::Field, depth + 1, errors);
        }
    }
    validate_extensions(schema, errors);
    let (any, all) = (schema.field("anyOf"), schema.field("allOf"));
    let skip = (is_int_or_string(any.value()), is_int_or_string(all.index(0).field("anyOf").value()));
    validate_values(schema, skip, depth + 1, errors);
    validate_type(schema, level, errors);
    validate_metadata(schema, level, errors);
}

/// Whether a schema has one for items. Upstream decodes `items` that is neither a schema nor a list without a schema in it.
fn has_items(schema: &Cursor) -> bool {
    schema.field("items").value().as_map().is_some()
}

fn validate_extensions(schema: &Cursor, errors: &mut Errors) {
    if !schema.field(INT_OR_STRING).bool() {
        return;
    }
    for name in [PRESERVE, EMBEDDED] {
        let flag = schema.field(name);
        if flag.bool() {
            flag.invalid(errors, "must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn validate_type(schema: &Cursor, level: Level, errors: &mut Errors) {
    let kind = schema.field("type");
    let flag = |name: &'static str| schema.field(name).bool();
    let embeds = flag(EMBEDDED);
    if embeds && kind.str() != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            kind.required(errors, detail);
        } else {
            kind.bad(errors, detail);
        }
    } else if kind.is_empty() && !flag(INT_OR_STRING) && !flag(PRESERVE) {
        let at = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        kind.required(errors, format!("must not be empty {at}"));
    }
    if embeds && schema.field("additionalProperties").is_set() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        schema.field("additionalProperties").forbidden(errors, detail);
    }
    if level == Level::Root && !kind.is_empty() && kind.str() != "object" {
        kind.bad(errors, "must be object at the root");
    }
    if embeds && !flag(PRESERVE) && schema.field("properties").is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        schema.field("properties").required(errors, detail);
    }
}

/// What every object has is the server's; a definition may say a little about names.
fn validate_metadata(schema: &Cursor, level: Level, errors: &mut Errors) {
    let properties = schema.field("properties");
    let is_resource = level == Level::Root || schema.field(EMBEDDED).bool();
    for name in ["kind", "apiVersion"] {
        let property = properties.key(name);
        if is_resource && property.is_set() && property.field("type").str() != "string" {
            property.field("type").bad(errors, "must be string");
        }
    }
    let metadata = properties.key("metadata");
    if !metadata.is_set() {
        return;
    }
    if is_resource && metadata.field("type").str() != "object" {
        metadata.field("type").bad(errors, "must be object");
    }
    if level == Level::Root && !only_names(metadata.value()) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        metadata.forbidden(errors, detail);
    }
}

fn only_names(metadata: &Value) -> bool {
    let is_name = |name: &str| matches!(name, "name" | "generateName");
    metadata.as_map().is_some_and(|map| {
        map.iter().all(|(key, value)| match key {
            "type" | "default" => true,
            "properties" => value.as_map().is_some_and(|properties| properties.keys().all(is_name)),
            _ => value.is_empty(),
        })
    })
}

/// The one use of `anyOf` that may name types.
fn is_int_or_string(any: &Value) -> bool {
    let is = |schema: &Value, kind: &str| {
        schema.as_map().is_some_and(|map| map.len() == 1) && schema.str_at(&["type"]) == kind
    };
    matches!(any.as_list(), Some([first, second]) if is(first, "integer") && is(second, "string"))
}

/// Checks what combines schemas, with the exceptions for `anyOf` here and in the first of `allOf`.
fn validate_values(schema: &Cursor, (skip_any, skip_first): (bool, bool), depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return;
    }
    if !skip_any {
        schema.field("anyOf").each().for_each(|nested| validate_nested(&nested, false, depth + 1, errors));
    }
    for (i, nested) in schema.field("allOf").each().enumerate() {
        validate_nested(&nested, skip_first && i == 0, depth + 1, errors);
    }
    schema.field("oneOf").each().for_each(|nested| validate_nested(&nested, false, depth + 1, errors));
    if schema.field("not").is_set() {
        validate_nested(&schema.field("not"), false, depth + 1, errors);
    }
    pattern::validate(&schema.field("pattern"), errors);
}

/// Inside of `allOf` and the like, values are judged and not described.
fn validate_nested(schema: &Cursor, skip_any: bool, depth: usize, errors: &mut Errors) {
    validate_values(schema, (skip_any, false), depth + 1, errors);
    if depth > MAX_DEPTH {
        return;
    }
    if has_items(schema) {
        validate_nested(&schema.field("items"), false, depth + 1, errors);
    }
    for (_, property) in schema.field("properties").entries() {
        validate_nested(&property, false, depth + 1, errors);
    }
    let forbidden = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (name, detail) in forbidden {
        let field = schema.field(name);
        let set = if detail.contains("undefined") { field.is_set() } else { !field.is_empty() };
        if set {
            field.forbidden(errors, detail);
        }
    }
    let metadata = schema.field("properties").key("metadata");
    if metadata.is_set() {
        metadata.forbidden(errors, "must not be specified in a nested context");
    }
}

/// Every value that `values` judges must be described by `schema`.
fn complete(schema: &Cursor, values: &Cursor, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return;
    }
    let lists = ["allOf", "anyOf", "oneOf"].map(|name| values.field(name));
    let not = Some(values.field("not")).filter(Cursor::is_set);
    for nested in not.into_iter().chain(lists.iter().flat_map(|list| list.each())) {
        complete_nested(schema, &nested, depth + 1, errors);
    }
}

fn complete_nested(schema: &Cursor, values: &Cursor, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        return;
    }
    complete(schema, values, depth + 1, errors);
    let missing = |path: &Path, from: &Path, errors: &mut Errors| {
        errors.required(path, format!("because it is defined in {from}"));
    };
    if has_items(values) {
        let (described, judged) = (schema.field("items"), values.field("items"));
        if has_items(schema) {
            complete_nested(&described, &judged, depth + 1, errors);
        } else {
            missing(described.path(), judged.path(), errors);
        }
    }
    for (name, judged) in values.field("properties").entries() {
        let described = schema.field("properties").key(name);
        if described.is_set() {
            complete_nested(&described, &judged, depth + 1, errors);
        } else {
            missing(described.path(), judged.path(), errors);
        }
    }
}
