//! Custom kinds: their structural schema, back in the form that definitions of custom resources are written in.

use object::{Str, Value};
use registry::Resource;
use schema::{ListType, MapType, Node, Rules, Schema, Shape, Struct};

use super::{Flavor, write_kinds, write_metadata, write_type_field};
use crate::openapi::json::Json;

/// How deep a schema is written. Definitions are not accepted nearly this deep; it keeps the stack whole.
const MAX_DEPTH: usize = 200;

/// A kind: its schema with the fields that all objects have.
pub fn write_kind(json: &mut Json, resource: &Resource, flavor: Flavor) {
    let schema = resource.shape.schema();
    json.object(|json| {
        let writer = Writer { schema, flavor, object: true, depth: 0 };
        // kubectl would take the fields that are stated for all there may be.
        let open = flavor == Flavor::V2 && schema.as_struct().is_none_or(|kind| kind.preserve_unknown);
        if open || schema.as_struct().is_none() {
            json.key("type").string("object");
        } else {
            writer.write(json);
        }
        write_kinds(json, std::slice::from_ref(&resource.kind));
    });
}

#[derive(Clone, Copy)]
struct Writer<'a> {
    schema: Schema<'a>,
    flavor: Flavor,
    /// An object of its own: it has a type and metadata.
    object: bool,
    depth: usize,
}

impl<'a> Writer<'a> {
    fn write(self, json: &mut Json) {
        let node = self.schema.node;
        if self.depth > MAX_DEPTH {
            return;
        }
        let no_rules = Rules::default();
        let rules = node.rules.as_deref().unwrap_or(&no_rules);
        // The second version knows neither null nor unknown fields; what may be either is anything.
        let anything = self.flavor == Flavor::V2 && (node.nullable || self.preserves_unknown());
        if !anything && !node.untyped {
            self.write_type(json, rules);
        }
        if let Some(default) = node.default.as_ref().filter(|_| self.flavor == Flavor::V3) {
            json.key("default").value(default);
        }
        write_bounds(json, rules);
        let required = self.required(rules);
        if !required.is_empty() && !anything {
            json.key("required").strings(required);
        }
        if let (Shape::List(items), false) = (&node.shape, anything) {
            json.key("items").object(|json| self.child(items).write(json));
        }
        if self.flavor == Flavor::V3 {
            self.write_junctors(json, rules);
        }
        if !anything {
            self.write_children(json);
        }
        self.write_extensions(json);
    }

    fn write_type(self, json: &mut Json, rules: &Rules) {
        let node = self.schema.node;
        let kind = match &node.shape {
            Shape::Bool => "boolean",
            Shape::Int32 | Shape::Int64 => "integer",
            Shape::Float => "number",
            Shape::List(_) => "array",
            Shape::Struct(_) | Shape::Map(_) | Shape::RawExtension => "object",
            Shape::String | Shape::Bytes | Shape::Quantity | Shape::Time | Shape::MicroTime | Shape::Duration => {
                "string"
            }
            _ => "",
        };
        if !kind.is_empty() {
            json.key("type").string(kind);
        }
        if node.nullable {
            json.key("nullable").bool(true);
        }
        let format = match (&rules.format, &node.shape) {
            (Some(format), _) => format.as_str(),
            (None, Shape::Int32) => "int32",
            (None, Shape::Bytes) => "byte",
            (None, Shape::Time | Shape::MicroTime) => "date-time",
            _ => "",
        };
        if !format.is_empty() {
            json.key("format").string(format);
        }
    }

    fn as_struct(self) -> Option<&'a Struct> {
        self.schema.as_struct()
    }

    fn preserves_unknown(self) -> bool {
        matches!(self.schema.node.shape, Shape::Any) || self.as_struct().is_some_and(|s| s.preserve_unknown)
    }

    /// What must be there, without what cannot be said to be there: nullable fields, in the second version.
    fn required(self, rules: &'a Rules) -> Vec<&'a str> {
        let fields = self.as_struct().map(|kind| kind.fields.as_slice()).unwrap_or_default();
        let stated: Vec<&Str> = match rules.required.as_slice() {
            [] => fields.iter().filter(|field| field.required).map(|field| &field.name).collect(),
            stated => stated.iter().collect(),
        };
        let is_nullable = |name: &str| fields.iter().any(|field| field.name == name && field.node.nullable);
        let kept = stated.into_iter().filter(|name| self.flavor == Flavor::V3 || !is_nullable(name));
        kept.map(Str::as_str).collect()
    }

    fn write_children(self, json: &mut Json) {
        match &self.schema.node.shape {
            Shape::Struct(id) => {
                let fields = &self.schema.types.get(*id).fields;
                let own = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
                if fields.is_empty() && !self.object {
                    return;
                }
                json.key("properties").object(|json| {
                    let mut standard = if self.object { vec!["apiVersion", "kind", "metadata"] } else { Vec::new() };
                    for field in fields.iter().filter(|field| !self.object || !own(&field.name)) {
                        while let Some(name) = standard.first().filter(|name| **name < field.name.as_str()) {
                            self.write_standard(json, name);
                            standard.remove(0);
                        }
                        json.key(&field.name).object(|json| self.child(&field.node).write(json));
                    }
                    standard.iter().for_each(|name| self.write_standard(json, name));
                });
            }
            Shape::Map(values) => json.key("additionalProperties").object(|json| self.child(values).write(json)),
            _ => {}
        }
    }

    fn write_standard(self, json: &mut Json, name: &str) {
        match name {
            "metadata" => write_metadata(json, self.flavor),
            name => write_type_field(json, name),
        }
    }

    fn child(self, node: &'a Node) -> Writer<'a> {
        Writer { schema: self.schema.with(node), flavor: self.flavor, object: node.embedded, depth: self.depth + 1 }
    }

    fn write_junctors(self, json: &mut Json, rules: &'a Rules) {
        let mut list = |name: &str, nodes: &'a [Node]| {
            if !nodes.is_empty() {
                json.key(name).list(|json| {
                    nodes.iter().for_each(|node| json.object(|json| self.child(node).write(json)));
                });
            }
        };
        list("allOf", &rules.all_of);
        list("oneOf", &rules.one_of);
        list("anyOf", &rules.any_of);
        if matches!(self.schema.node.shape, Shape::IntOrString) && rules.any_of.is_empty() {
            json.key("anyOf").list(|json| {
                for kind in ["integer", "string"] {
                    json.object(|json| json.key("type").string(kind));
                }
            });
        }
        if let Some(not) = &rules.not {
            json.key("not").object(|json| self.child(not).write(json));
        }
    }

    fn write_extensions(self, json: &mut Json) {
        let node = self.schema.node;
        if node.embedded {
            json.key("x-kubernetes-embedded-resource").bool(true);
        }
        if matches!(node.shape, Shape::IntOrString) {
            json.key("x-kubernetes-int-or-string").bool(true);
        }
        if node.stated.list_type {
            if let ListType::Map(keys) = &node.list_type {
                json.key("x-kubernetes-list-map-keys").strings(keys.iter().map(Str::as_str));
            }
            json.key("x-kubernetes-list-type").string(super::list_type_name(&node.list_type));
        }
        let atomic = node.map_type == MapType::Atomic;
        if node.stated.map_type || atomic {
            json.key("x-kubernetes-map-type").string(super::map_type_name(node.map_type));
        }
        if self.preserves_unknown() && !node.untyped {
            json.key("x-kubernetes-preserve-unknown-fields").bool(true);
        }
    }
}

fn write_bounds(json: &mut Json, rules: &Rules) {
    let mut float = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            json.key(name).value(&whole(value));
        }
    };
    float("maximum", rules.maximum);
    if rules.exclusive_maximum {
        json.key("exclusiveMaximum").bool(true);
    }
    if let Some(minimum) = rules.minimum {
        json.key("minimum").value(&whole(minimum));
    }
    if rules.exclusive_minimum {
        json.key("exclusiveMinimum").bool(true);
    }
    let count = |json: &mut Json, name: &str, value: Option<u64>| {
        if let Some(value) = value {
            json.key(name).raw(value.to_string().as_bytes());
        }
    };
    count(json, "maxLength", rules.max_length);
    count(json, "minLength", rules.min_length);
    if let Some(pattern) = &rules.pattern {
        json.key("pattern").string(pattern.as_str());
    }
    count(json, "maxItems", rules.max_items);
    count(json, "minItems", rules.min_items);
    if rules.unique_items {
        json.key("uniqueItems").bool(true);
    }
    if let Some(multiple) = rules.multiple_of {
        json.key("multipleOf").value(&whole(multiple));
    }
    if !rules.enumeration.is_empty() {
        json.key("enum").list(|json| rules.enumeration.iter().for_each(|value| json.value(value)));
    }
    count(json, "maxProperties", rules.max_properties);
    count(json, "minProperties", rules.min_properties);
}

/// A number as it was most likely written.
fn whole(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    if is_whole { Value::Int(number as i64) } else { Value::Float(number) }
}
