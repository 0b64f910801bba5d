//! Declarations from the OpenAPI schemas of custom resource definitions.

use std::sync::Arc;

use object::{Str, Value};

use super::{Decl, Field, ListKind, MAX_REQUEST_BYTES, Shape};
use crate::escape::escape;

const MAX_DURATION_BYTES: i64 = 32;
const MIN_DURATION_BYTES: i64 = 3;
const DATE_BYTES: i64 = 12;
const MAX_DATE_TIME_BYTES: i64 = 32;
const MIN_DATE_TIME_BYTES: i64 = 21;
const MIN_STRING_BYTES: i64 = 2;
const MIN_BOOL_BYTES: i64 = 4;
const MIN_NUMBER_BYTES: i64 = 1;
/// A code point is up to four bytes long.
const MAX_CODE_POINT_BYTES: i64 = 4;
/// The length of an object's name, which is a DNS subdomain.
const MAX_NAME_LENGTH: i64 = 253;

/// A schema of the API type JSONSchemaProps.
type Properties<'a> = Vec<(&'a str, std::borrow::Cow<'a, Value>)>;

impl Decl {
    /// The declaration for an OpenAPI schema as JSON. `is_resource` adds what every resource has: apiVersion, kind and
    /// the names in its metadata. Object types are called `name` and, below it, after their path.
    pub fn from_openapi(schema: &Value, is_resource: bool, name: &str) -> Arc<Decl> {
        Arc::new(build(schema, is_resource, name))
    }
}

fn build(schema: &Value, is_resource: bool, name: &str) -> Decl {
    let flag = |key: &str| schema.field(key).as_bool() == Some(true);
    let nullable = flag("nullable");
    let make = |shape: Shape, max_elements: i64, min_serialized_size: i64| Decl {
        name: Str::default(),
        shape,
        nullable,
        max_elements,
        min_serialized_size,
    };
    let text_limit =
        || limit(schema, "maxLength").map_or(MAX_REQUEST_BYTES - 2, |n| n.saturating_mul(MAX_CODE_POINT_BYTES));
    if flag("x-kubernetes-int-or-string") {
        return make(Shape::IntOrString, text_limit(), 1);
    }
    match schema.field("type").as_str().unwrap_or("") {
        "array" => array(schema, name, make),
        "object" => object(schema, is_resource, name, make),
        "string" => match schema.field("format").as_str().unwrap_or("") {
            "byte" => make(Shape::Bytes, limit(schema, "maxLength").unwrap_or(MAX_REQUEST_BYTES - 2), MIN_STRING_BYTES),
            "duration" => make(Shape::Duration, MAX_DURATION_BYTES, MIN_DURATION_BYTES),
            "date" => make(Shape::Date, DATE_BYTES, DATE_BYTES),
            "date-time" => make(Shape::DateTime, MAX_DATE_TIME_BYTES, MIN_DATE_TIME_BYTES),
            _ => make(Shape::String, longest_enum(schema).unwrap_or_else(text_limit), MIN_STRING_BYTES),
        },
        "boolean" => make(Shape::Bool, 0, MIN_BOOL_BYTES),
        "number" => make(Shape::Double, 0, MIN_NUMBER_BYTES),
        "integer" => make(Shape::Int, 0, MIN_NUMBER_BYTES),
        _ if flag("x-kubernetes-preserve-unknown-fields") => make(Shape::Preserved, 0, 1),
        other => make(Shape::Unknown(other.into()), 0, 1),
    }
}

/// A bound that the schema states, at least 0.
fn limit(schema: &Value, key: &str) -> Option<i64> {
    schema.field(key).as_int().map(|n| n.max(0))
}

/// The length of the longest of an enumeration's strings, where no maxLength is stated.
fn longest_enum(schema: &Value) -> Option<i64> {
    let values = schema.field("enum").as_list().filter(|values| !values.is_empty())?;
    if schema.field("maxLength").as_int().is_some() {
        return None;
    }
    values.iter().map(|value| value.as_str().map_or(0, str::len) as i64).max()
}

fn array(schema: &Value, name: &str, make: impl Fn(Shape, i64, i64) -> Decl) -> Decl {
    let kind = match schema.field("x-kubernetes-list-type").as_str().unwrap_or("") {
        "" | "atomic" => ListKind::Atomic,
        "set" => ListKind::Set,
        "map" => {
            let keys = schema.list_at(&["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str);
            ListKind::Map(keys.map(|key| escape(key).map_or_else(|| key.into(), Str::from)).collect())
        }
        other => ListKind::Unknown(other.into()),
    };
    let items = schema.get("items").filter(|items| items.as_map().is_some());
    let items = items.map(|items| build(items, is_embedded(items), &format!("{name}.@idx")));
    // One byte for the brackets or the comma goes with every item.
    let smallest = items.as_ref().map_or(0, |items| items.min_serialized_size) + 1;
    let max_items = limit(schema, "maxItems").unwrap_or((MAX_REQUEST_BYTES - 2) / smallest);
    make(Shape::List { items: items.map(Arc::new), kind }, max_items, 2)
}

fn is_embedded(schema: &Value) -> bool {
    schema.field("x-kubernetes-embedded-resource").as_bool() == Some(true)
}

fn object(schema: &Value, is_resource: bool, name: &str, make: impl Fn(Shape, i64, i64) -> Decl) -> Decl {
    let properties = properties(schema, is_resource);
    // A schema cannot have both, so properties that only a resource adds come first.
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.as_map().is_some()) {
        let values = build(values, is_embedded(values), &format!("{name}.@elem"));
        // Two bytes for the quotes of the key, its shortest name, a colon and a comma go with every entry.
        let smallest = values.min_serialized_size + 6;
        let max_properties = limit(schema, "maxProperties").unwrap_or((MAX_REQUEST_BYTES - 2) / smallest);
        return make(Shape::Map(Arc::new(values)), max_properties, 2);
    }
    let required = schema.list_at(&["required"]);
    let is_required = |name: &str| required.iter().any(|field| field.as_str() == Some(name));
    let mut smallest = 2;
    let mut fields = Vec::with_capacity(properties.len());
    for (field, schema) in properties {
        let escaped = escape(field).map(Str::from);
        let path = format!("{name}.{}", escaped.as_deref().unwrap_or(field));
        let decl = Arc::new(build(&schema, is_embedded(&schema), &path));
        if is_required(field) && schema.field("default").is_null() && decl.ty().is_some() {
            smallest += field.len() as i64 + decl.min_serialized_size + 4;
        }
        fields.push(Field { name: field.into(), escaped, decl });
    }
    Decl { name: name.into(), ..make(Shape::Object(fields.into()), 0, smallest) }
}

/// The properties of an object, sorted by name; those of a resource include what every resource has.
fn properties(schema: &Value, is_resource: bool) -> Properties<'_> {
    use std::borrow::Cow;
    let own = schema.get("properties").and_then(Value::as_map);
    let mut properties: Properties<'_> =
        own.into_iter().flat_map(|map| map.iter()).map(|(name, schema)| (name, Cow::Borrowed(schema))).collect();
    if !is_resource || has_type_and_name(schema) {
        return properties;
    }
    let string = object::value!({"type": "string"});
    let named = |name: &str, longest: i64| {
        let stated = limit(schema.at(&["properties", "metadata", "properties", name]), "maxLength");
        object::value!({"type": "string", "maxLength": (stated.unwrap_or(longest).min(longest))})
    };
    let mut metadata = object::value!({"type": "object", "properties": {}});
    metadata.set(&["properties", "name"], named("name", MAX_NAME_LENGTH));
    metadata.set(&["properties", "generateName"], named("generateName", MAX_NAME_LENGTH - 1));
    properties.retain(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata"));
    properties.push(("apiVersion", Cow::Owned(string.clone())));
    properties.push(("kind", Cow::Owned(string)));
    properties.push(("metadata", Cow::Owned(metadata)));
    properties.sort_by(|a, b| a.0.cmp(b.0));
    properties
}

/// Whether the schema itself declares what every resource has.
fn has_type_and_name(schema: &Value) -> bool {
    let is = |path: &[&str], ty: &str| schema.at(path).field("type").as_str() == Some(ty);
    is(&["properties", "kind"], "string")
        && is(&["properties", "apiVersion"], "string")
        && is(&["properties", "metadata"], "object")
        && is(&["properties", "metadata", "properties", "name"], "string")
        && is(&["properties", "metadata", "properties", "generateName"], "string")
}
