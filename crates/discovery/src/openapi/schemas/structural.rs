//! Custom kinds: the schema of their definition, as clients of each version of OpenAPI can read it.

use object::{Map, Value};
use registry::Resource;

use super::{Flavor, write_kinds, write_metadata, write_selectable_fields, write_text_field, write_type_field};
use crate::openapi::json::Json;

/// How deep a schema is written. Definitions are not accepted nearly this deep; it keeps the stack whole.
const MAX_DEPTH: usize = 200;
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const STANDARD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A kind: its schema with the fields that all objects have.
pub fn write_kind(json: &mut Json, resource: &Resource, flavor: Flavor) {
    let definition = resource.definition.as_ref();
    let schema = definition.map(|definition| (definition.openapi)()).unwrap_or_default();
    let preserves = definition.is_some_and(|definition| definition.preserve_unknown) || flag(&schema, PRESERVE);
    json.object(|json| {
        // Given some fields, kubectl would take them for all there may be.
        if schema.is_null() || (flavor == Flavor::V2 && preserves) {
            json.key("type").string("object");
        } else {
            StructuralWriter { flavor, depth: 0 }.write(json, &schema, true);
        }
        write_kinds(json, std::slice::from_ref(&resource.kind));
        write_selectable_fields(json, resource);
    });
}

#[derive(Clone, Copy)]
struct StructuralWriter {
    flavor: Flavor,
    depth: usize,
}

impl StructuralWriter {
    /// Writes the keywords of a schema; `object` says that it has a type and metadata.
    fn write(self, json: &mut Json, schema: &Value, object: bool) {
        let Some(map) = schema.as_map().filter(|_| self.depth <= MAX_DEPTH) else { return };
        let below = StructuralWriter { depth: self.depth + 1, ..self };
        let object = object && !(self.flavor == Flavor::V2 && flag(schema, PRESERVE));
        let mut properties = false;
        for (name, value) in map.iter().filter(|(name, value)| self.is_shown(schema, name, value)) {
            if name == "properties" || (object && !properties && name > "properties") {
                self.write_properties(json, schema, object);
                properties = true;
            }
            match name {
                "properties" => {}
                "items" | "not" => json.key(name).object(|json| below.write(json, value, flag(value, EMBEDDED))),
                "additionalProperties" if value.as_map().is_some() => {
                    json.key(name).object(|json| below.write(json, value, flag(value, EMBEDDED)));
                }
                "allOf" | "anyOf" | "oneOf" => json.key(name).list(|json| {
                    for branch in value.as_list().into_iter().flatten() {
                        json.object(|json| below.write(json, branch, false));
                    }
                }),
                "required" => {
                    let required = self.required(schema, object);
                    json.key(name).strings(required);
                }
                _ => json.key(name).value(value),
            }
        }
        if object && !properties {
            self.write_properties(json, schema, object);
        }
        if object && self.depth > 0 && schema.get("required").is_none() {
            json.key("required").strings(["kind", "apiVersion"]);
        }
        if flag(schema, INT_OR_STRING) && schema.get("anyOf").is_none() && self.flavor == Flavor::V3 {
            json.key("anyOf").list(|json| {
                for kind in ["integer", "string"] {
                    json.object(|json| json.key("type").string(kind));
                }
            });
        }
    }

    /// The second version knows neither null nor unknown fields nor alternatives; what may be either is anything.
    fn is_shown(self, schema: &Value, name: &str, value: &Value) -> bool {
        if value.is_null() || value.as_bool() == Some(false) && name != "additionalProperties" && name != "default" {
            return false;
        }
        let (nullable, preserves) = (flag(schema, "nullable"), flag(schema, PRESERVE));
        match name {
            // Upstream's own marks of a definition are not part of OpenAPI.
            "$schema" | "id" | "$ref" | "definitions" | "dependencies" | "patternProperties" | "additionalItems" => {
                false
            }
            "properties" | "required" if value.is_empty() => false,
            _ if self.flavor == Flavor::V3 => true,
            "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" => false,
            "items" | "properties" => !nullable && !preserves,
            "type" => {
                let kind = value.as_str().unwrap_or("");
                let opaque = kind == "array" && (preserves || schema.get("items").is_none());
                !(nullable || opaque || kind == "object" && preserves)
            }
            "required" => !self.required(schema, false).is_empty(),
            _ => true,
        }
    }

    /// What must be there. In the second version a nullable field cannot be said to be.
    fn required(self, schema: &Value, object: bool) -> Vec<&str> {
        let nullable = |name: &str| flag(schema.at(&["properties", name]), "nullable");
        let stated = schema.list_at(&["required"]).iter().filter_map(Value::as_str);
        let mut required: Vec<&str> = stated.filter(|name| self.flavor == Flavor::V3 || !nullable(name)).collect();
        if object && self.depth > 0 {
            let missing = ["kind", "apiVersion"].into_iter().filter(|name| !required.contains(name));
            required.extend(missing.collect::<Vec<_>>());
        }
        required
    }

    fn write_properties(self, json: &mut Json, schema: &Value, object: bool) {
        let below = StructuralWriter { depth: self.depth + 1, ..self };
        let shown = schema.get("properties").filter(|value| self.is_shown(schema, "properties", value));
        let properties = shown.and_then(Value::as_map).into_iter().flat_map(Map::iter);
        json.key("properties").object(|json| {
            let mut standard = if object { &STANDARD[..] } else { &[] };
            for (name, property) in properties.filter(|(name, _)| !object || !STANDARD.contains(name)) {
                while let Some((first, rest)) = standard.split_first().filter(|(first, _)| **first < name) {
                    self.write_standard(json, first);
                    standard = rest;
                }
                json.key(name).object(|json| below.write(json, property, flag(property, EMBEDDED)));
            }
            standard.iter().for_each(|name| self.write_standard(json, name));
        });
    }

    fn write_standard(self, json: &mut Json, name: &str) {
        match name {
            "metadata" => write_metadata(json, self.flavor),
            // Objects inside of objects have descriptions of their own.
            "apiVersion" if self.depth > 0 => write_text_field(json, name, EMBEDDED_API_VERSION),
            "kind" if self.depth > 0 => write_text_field(json, name, EMBEDDED_KIND),
            name => write_type_field(json, name),
        }
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}
