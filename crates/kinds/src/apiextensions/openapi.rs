//! Rules about every part of a definition's schema, structural or not.

use std::collections::BTreeSet;

use object::{BadValue, Cursor, Errors, Value};

use super::demands::Demands;
use super::field_path;
use crate::common::checks::Checks;
use crate::common::internal;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;
/// What the root may have besides its type when status is written by itself, as upstream calls it and as the API does.
const AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// The root of a schema: what comes before anything else is looked at.
pub fn validate_root(schema: &Cursor, has_status: bool, errors: &mut Errors) {
    let kind = schema.field("type");
    if has_status {
        let others = schema.value().as_map().into_iter().flat_map(|map| map.iter());
        let other =
            others.filter(|(key, value)| !is_zero(key, value)).find(|(key, _)| !AT_ROOT.iter().any(|(_, f)| f == key));
        if !kind.is_empty() && kind.str() != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                          enabled";
            kind.bad(errors, detail);
        } else if other.is_some() {
            let allowed: Vec<&str> = AT_ROOT.iter().map(|(name, _)| *name).collect();
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                allowed.join(" ")
            );
            schema.invalid_as(errors, internal::shown("JSONSchemaProps", schema.value()), detail);
        }
    }
    if schema.field("nullable").bool() {
        schema.field("nullable").forbidden(errors, "nullable cannot be true at the root");
    }
}

/// Whether a field has Go's zero value, which an empty list and a number behind a pointer have not.
fn is_zero(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on && !matches!(key, "additionalProperties" | "additionalItems"),
        Value::String(text) => text.is_empty() && matches!(key, "id" | "$schema"),
        _ => false,
    }
}

/// What the parts around a schema say about it.
#[derive(Clone, Copy)]
struct Inside<'a> {
    root: bool,
    /// In a part that every object has.
    metadata: bool,
    /// Why there may be no defaults here.
    no_defaults: Option<&'a str>,
    depth: usize,
    demands: &'a Demands,
}

/// Checks a schema and all that is in it.
pub fn validate(schema: &Cursor, demands: &Demands, errors: &mut Errors) {
    let no_defaults = (!demands.defaults).then_some("");
    walk(schema, Inside { root: true, metadata: false, no_defaults, depth: 0, demands }, errors);
}

fn walk(schema: &Cursor, inside: Inside, errors: &mut Errors) {
    if inside.depth > MAX_DEPTH || !schema.is_set() {
        return;
    }
    validate_supported(schema, inside, errors);
    let below = Inside { root: false, depth: inside.depth + 1, ..inside };
    let (properties, additional) = (schema.field("properties"), schema.field("additionalProperties"));
    if schema.field("uniqueItems").bool() {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        schema.field("uniqueItems").forbidden(errors, detail);
    }
    if additional.is_set() {
        if !properties.is_empty() && additional.opt_bool() != Some(true) {
            additional.forbidden(errors, "additionalProperties and properties are mutual exclusive");
        }
        let reason = "inside additionalProperties applying to object metadata";
        let no_defaults = if inside.metadata { Some(reason) } else { inside.no_defaults };
        if additional.value().as_map().is_some() {
            walk(&additional, Inside { no_defaults, ..below }, errors);
        }
    }
    let is_resource = inside.root || schema.field("x-kubernetes-embedded-resource").bool();
    for (name, property) in properties.entries() {
        let metadata = is_resource && matches!(name, "metadata" | "kind" | "apiVersion");
        let reason = (metadata && inside.root).then(|| format!("in top-level {name}"));
        let no_defaults = reason.as_deref().or(inside.no_defaults);
        walk(&property, Inside { metadata: inside.metadata || metadata, no_defaults, ..below }, errors);
    }
    walk(&schema.field("not"), below, errors);
    for list in ["allOf", "oneOf", "anyOf"] {
        schema.field(list).each().for_each(|nested| walk(&nested, below, errors));
    }
    for (_, definition) in schema.field("definitions").entries() {
        walk(&definition, below, errors);
    }
    let items = schema.field("items");
    match items.value() {
        Value::List(_) => items.each().for_each(|item| walk(&item, below, errors)),
        _ => walk(&items, below, errors),
    }
    for (_, dependency) in schema.field("dependencies").entries() {
        if dependency.value().as_map().is_some() {
            walk(&dependency, below, errors);
        }
    }
    validate_map_type(schema, errors);
    validate_list_type(schema, inside.demands, errors);
    validate_list_keys(schema, inside.demands, errors);
    validate_rules(schema, errors);
}

fn validate_supported(schema: &Cursor, inside: Inside, errors: &mut Errors) {
    let kind = schema.field("type");
    if inside.demands.known_types && has_unknown_type(schema.value()) {
        kind.not_supported(errors, &TYPES);
    }
    if let Some(reason) = inside.no_defaults
        && schema.field("default").is_set()
    {
        schema.field("default").forbidden(errors, format!("must not be set {reason}").trim_end());
    }
    let unsupported = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
    for name in unsupported {
        let field = schema.field(name);
        let set = if matches!(name, "additionalItems" | "dependencies" | "$ref") {
            field.is_set()
        } else {
            !field.is_empty()
        };
        if set {
            field.forbidden(errors, format!("{name} is not supported"));
        }
    }
    if kind.str() == "null" {
        kind.forbidden(errors, "type cannot be set to null, use nullable as an alternative");
    }
    if schema.field("items").value().as_list().is_some_and(|list| !list.is_empty()) {
        schema.field("items").forbidden(errors, "items must be a schema object and not an array");
    }
    let embeds = schema.field("x-kubernetes-embedded-resource");
    if inside.metadata && embeds.bool() {
        embeds.forbidden(errors, "must not be used inside of resource meta");
    }
}

/// Whether a schema states a type that OpenAPI does not have.
pub fn has_unknown_type(schema: &Value) -> bool {
    let kind = schema.str_at(&["type"]);
    !kind.is_empty() && !TYPES.contains(&kind)
}

fn needs_type(schema: &Cursor, wanted: &str, by: &str, errors: &mut Errors) {
    let kind = schema.field("type");
    let detail = format!("must be {wanted} if x-kubernetes-{by} is specified");
    if kind.is_empty() {
        kind.required(errors, detail);
    } else {
        kind.bad(errors, detail);
    }
}

fn validate_map_type(schema: &Cursor, errors: &mut Errors) {
    let preserve = schema.field("x-kubernetes-preserve-unknown-fields");
    if preserve.opt_bool() == Some(false) {
        preserve.invalid(errors, "must be true or undefined");
    }
    let map_type = schema.field("x-kubernetes-map-type");
    if !map_type.is_set() {
        return;
    }
    if schema.field("type").str() != "object" {
        needs_type(schema, "object", "map-type", errors);
    }
    if !matches!(map_type.str(), "atomic" | "granular") {
        map_type.not_supported(errors, &["atomic", "granular"]);
    }
}

/// Whether a schema is a set whose items are not atomic.
pub fn is_set_of_granular(schema: &Value) -> bool {
    let items = schema.field("items");
    let inner_list = items.field("x-kubernetes-list-type");
    schema.str_at(&["x-kubernetes-list-type"]) == "set"
        && match items.str_at(&["type"]) {
            "array" => inner_list.as_str().is_some_and(|kind| kind != "atomic"),
            "object" => items.str_at(&["x-kubernetes-map-type"]) != "atomic",
            _ => false,
        }
}

fn validate_list_type(schema: &Cursor, demands: &Demands, errors: &mut Errors) {
    let list_type = schema.field("x-kubernetes-list-type");
    let (items, detail) = (schema.field("items"), "must be atomic as item of a list with x-kubernetes-list-type=set");
    if list_type.is_set() && schema.field("type").str() != "array" {
        needs_type(schema, "array", "list-type", errors);
    } else if demands.atomic_sets && is_set_of_granular(schema.value()) {
        let (inner_list, inner_map) = (items.field("x-kubernetes-list-type"), items.field("x-kubernetes-map-type"));
        match items.field("type").str() {
            "array" => inner_list.bad(errors, detail),
            _ => inner_map.invalid_as(errors, inner_list.value().clone(), detail),
        }
    }
    if list_type.is_set() && !matches!(list_type.str(), "atomic" | "set" | "map") {
        list_type.not_supported(errors, &["atomic", "set", "map"]);
    }
}

/// Lists whose items are told apart by some of their fields.
fn validate_list_keys(schema: &Cursor, demands: &Demands, errors: &mut Errors) {
    let (list_type, keys) = (schema.field("x-kubernetes-list-type"), schema.field("x-kubernetes-list-map-keys"));
    let items = schema.field("items");
    if !keys.is_empty() && list_type.str() != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        if list_type.is_set() {
            list_type.bad(errors, detail);
        } else {
            list_type.required(errors, detail);
        }
    }
    if list_type.str() == "map" {
        if keys.is_empty() {
            keys.required(errors, "must not be empty if x-kubernetes-list-type is map");
        }
        if !items.is_set() {
            items.required(errors, "must have a schema if x-kubernetes-list-type is map");
        } else if items.value().as_map().is_none() {
            let shown = match items.value().as_list() {
                Some([_, ..]) => internal::shown("JSONSchemaPropsOrArray", items.value()),
                _ => BadValue::Raw(r#"{"Schema":null,"JSONSchemas":null}"#.into()),
            };
            items.invalid_as(errors, shown, "must only have a single schema if x-kubernetes-list-type is map");
        } else if items.field("type").str() == "object" {
            validate_keys(&items, &keys, errors);
        } else {
            items.field("type").bad(errors, "must be object if parent array's x-kubernetes-list-type is map");
        }
    }
    if demands.list_keys {
        validate_key_properties(schema, errors);
    }
}

fn validate_keys(items: &Cursor, keys: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for key in keys.strs() {
        let property = items.field("properties").key(key);
        let kind = property.field("type");
        if !property.is_set() {
            keys.invalid(errors, "entries must all be names of item properties");
        } else if matches!(kind.str(), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            kind.invalid_as(errors, items.field("type").value().clone(), detail);
        }
        if !seen.insert(key) {
            keys.invalid(errors, "must not contain duplicate entries");
        }
    }
}

/// The keys of list items are always there.
pub fn validate_key_properties(schema: &Cursor, errors: &mut Errors) {
    let list_type = schema.field("x-kubernetes-list-type").str();
    let (items, keys) = (schema.field("items"), schema.field("x-kubernetes-list-map-keys"));
    if items.value().as_map().is_none() || !matches!(list_type, "set" | "map") {
        return;
    }
    if items.field("nullable").bool() {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        items.field("nullable").forbidden(errors, detail);
    }
    if list_type != "map" {
        return;
    }
    const BECAUSE: &str = "this property is in x-kubernetes-list-map-keys, so it";
    for key in keys.strs() {
        let property = items.field("properties").key(key);
        let required = items.field("required").strs().any(|name| name == key);
        if property.is_set() && !required && !property.field("default").is_set() {
            let detail = format!("{BECAUSE} must have a default or be a required property");
            property.field("default").required(errors, detail);
        }
        if property.field("nullable").bool() {
            property.field("nullable").forbidden(errors, format!("{BECAUSE} cannot be nullable"));
        }
    }
}

/// Rules in expressions; what the expressions say is not looked at here.
fn validate_rules(schema: &Cursor, errors: &mut Errors) {
    let rules = schema.field("x-kubernetes-validations");
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    for rule in rules.each() {
        let [expression, message, message_expression, path] =
            ["rule", "message", "messageExpression", "fieldPath"].map(|name| rule.field(name));
        let is_blank = |field: &Cursor| !field.str().is_empty() && field.str().trim().is_empty();
        if expression.str().trim().is_empty() {
            expression.required(errors, "rule is not specified");
        } else if is_blank(&message) {
            message.bad(errors, "must be non-empty if specified");
        } else if has_newlines(message.str().trim()) {
            message.bad(errors, "must not contain line breaks");
        } else if has_newlines(expression.str().trim()) && message.is_empty() {
            message.required(errors, "message must be specified if rule contains line breaks");
        }
        if is_blank(&message_expression) {
            message_expression.required(errors, "messageExpression must be non-empty if specified");
        }
        if rule.field("reason").is_set() {
            rule.field("reason").one_of(errors, &REASONS);
        }
        if is_blank(&path) {
            path.bad(errors, "must be non-empty if specified");
        }
        if has_newlines(path.str()) {
            path.bad(errors, "must not contain line breaks");
        }
        if !path.is_empty() && field_path::find(path.str(), schema.value(), true).is_err() {
            path.bad(errors, "must be a valid path");
        }
    }
}
