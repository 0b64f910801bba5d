//! From the `openAPIV3Schema` of a custom resource definition to the [`Types`] and [`Node`] that all operations walk.
//!
//! The definition was validated before it was stored, so what is wrong with a schema is not reported here: keywords that
//! make no sense are left out.

use object::{Map, Path, Str, Value};

use crate::types::{Field, ListType, MapType, Node, Rules, Schema, Shape, Struct, Types, Validation};
use crate::{Pattern, object_meta, prune, visit_embedded};

/// Deeper parts of a schema accept anything. Validation of definitions refuses such schemas.
const MAX_DEPTH: usize = 128;

/// Compiles the schema of one version. The root is an embedded object: apiVersion, kind and metadata are the server's.
///
/// `preserve_unknown` is `spec.preserveUnknownFields` of old definitions: unknown fields are kept everywhere.
pub fn from_openapi(schema: &Value, preserve_unknown: bool) -> (Types, Node) {
    let mut compiler = SchemaCompiler { types: Types::new(), preserve_unknown, int_or_string_is_typed: true };
    let preserve = schema.is_null();
    let mut root = compiler.node(schema, Place { preserve, depth: 0, metadata: Metadata::Outside });
    if !matches!(root.shape, Shape::Struct(_)) {
        root.shape = compiler.structure(schema, Place { preserve: true, depth: 0, metadata: Metadata::Outside });
    }
    root.embedded = true;
    compiler.types.mark_defaults();
    (compiler.types, root)
}

/// Compiles a part of a schema, which need not describe an object, to judge its default. As upstream judges defaults, a value that
/// is to be an integer or a string may be anything.
pub fn from_openapi_part(schema: &Value) -> (Types, Node) {
    let mut compiler = SchemaCompiler { types: Types::new(), preserve_unknown: false, int_or_string_is_typed: false };
    let node = compiler.node(schema, Place { preserve: false, depth: 0, metadata: Metadata::Outside });
    compiler.types.mark_defaults();
    (compiler.types, node)
}

struct SchemaCompiler {
    types: Types,
    preserve_unknown: bool,
    int_or_string_is_typed: bool,
}

#[derive(Clone, Copy)]
struct Place {
    /// A list around this place keeps unknown fields, and with it the objects in it.
    preserve: bool,
    depth: usize,
    metadata: Metadata,
}

/// Whether a place is inside of the metadata of an embedded object.
#[derive(Clone, Copy)]
enum Metadata {
    Outside,
    /// What ObjectMeta has here.
    Known(Schema<'static>),
    /// ObjectMeta has nothing here.
    Unknown,
}

impl Metadata {
    fn of(schema: Option<Schema<'static>>) -> Metadata {
        schema.map_or(Metadata::Unknown, Metadata::Known)
    }
}

impl Place {
    fn below(self) -> Place {
        Place { preserve: false, depth: self.depth + 1, ..self }
    }

    /// The place of a property of the schema.
    fn property(self, schema: &Value, name: &str) -> Place {
        let metadata = match self.metadata {
            Metadata::Known(inside) => Metadata::of(inside.child(name)),
            Metadata::Outside if flag(schema, EMBEDDED) && name == "metadata" => Metadata::of(object_meta()),
            outside => outside,
        };
        Place { metadata, ..self.below() }
    }
}

impl SchemaCompiler {
    fn node(&mut self, schema: &Value, place: Place) -> Node {
        if place.depth > MAX_DEPTH {
            return Node::default();
        }
        let kind = text(schema, "type");
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        let shape = if int_or_string { Shape::IntOrString } else { self.shape(schema, kind, place) };
        let mut node = Node {
            untyped: match shape {
                Shape::Any => false,
                Shape::IntOrString => !self.int_or_string_is_typed,
                _ => kind.is_empty(),
            },
            shape,
            nullable: flag(schema, "nullable"),
            embedded: flag(schema, EMBEDDED),
            list_type: list_type(schema),
            map_type: if text(schema, "x-kubernetes-map-type") == "atomic" {
                MapType::Atomic
            } else {
                MapType::Granular
            },
            rules: self.rules(schema, place),
            ..Node::default()
        };
        if node.embedded {
            self.types.note_embedded();
        }
        node.stated.list_type = schema.get("x-kubernetes-list-type").is_some();
        node.stated.map_type = schema.get("x-kubernetes-map-type").is_some();
        if let Some(default) = schema.get("default").filter(|_| !matches!(place.metadata, Metadata::Unknown)) {
            node.stated.default = true;
            node.default = Some(self.pruned(default.clone(), &node, place));
        }
        node
    }

    /// A default without what neither its schema nor, in metadata, ObjectMeta knows.
    fn pruned(&self, mut default: Value, node: &Node, place: Place) -> Value {
        let schema = Schema::new(&self.types, node);
        if let Metadata::Known(known) = place.metadata {
            prune(known, &mut default);
            return default;
        }
        prune(schema, &mut default);
        if self.types.has_embedded() {
            let visited = visit_embedded(schema, &mut default, &Path::root(), &mut |object, _| {
                if let (Some(known), Some(metadata)) = (object_meta(), object.get_mut("metadata")) {
                    prune(known, metadata);
                }
                Ok::<(), ()>(())
            });
            debug_assert!(visited.is_ok(), "the visitor never fails");
        }
        default
    }

    fn shape(&mut self, schema: &Value, kind: &str, place: Place) -> Shape {
        match kind {
            "object" => self.object(schema, place),
            "array" => self.list(schema, place),
            "string" => Shape::String,
            "integer" => Shape::Int64,
            "number" => Shape::Float,
            "boolean" => Shape::Bool,
            _ if schema.get("properties").is_some() => self.structure(schema, place),
            _ if schema.get("additionalProperties").is_some() => self.object(schema, place),
            _ if schema.get("items").is_some() => self.list(schema, place),
            _ => Shape::Any,
        }
    }

    fn object(&mut self, schema: &Value, place: Place) -> Shape {
        let has_properties = schema.get("properties").is_some_and(|properties| !properties.is_empty());
        match schema.get("additionalProperties").filter(|_| !has_properties) {
            Some(values @ Value::Map(_)) => Shape::Map(Box::new(self.node(values, place.property(schema, "*")))),
            Some(Value::Bool(_)) => {
                let keeps = place.preserve || flag(schema, PRESERVE);
                let shape = self.define(Vec::new(), keeps);
                // Values have no schema, so that null is as good as any other.
                Shape::Map(Box::new(Node { shape, untyped: true, nullable: true, ..Node::default() }))
            }
            _ => self.structure(schema, place),
        }
    }

    fn list(&mut self, schema: &Value, place: Place) -> Shape {
        let preserve = place.preserve || flag(schema, PRESERVE);
        match schema.get("items") {
            Some(items @ Value::Map(_)) => {
                let metadata = match place.metadata {
                    Metadata::Known(list) => Metadata::of(match &list.node.shape {
                        Shape::List(inner) => Some(list.with(inner)),
                        _ => None,
                    }),
                    other => other,
                };
                Shape::List(Box::new(self.node(items, Place { preserve, metadata, ..place.below() })))
            }
            _ => Shape::List(Box::default()),
        }
    }

    fn structure(&mut self, schema: &Value, place: Place) -> Shape {
        let properties = schema.get("properties").and_then(Value::as_map);
        let fields = properties.into_iter().flat_map(Map::iter).map(|(name, property)| Field {
            name: name.into(),
            node: self.node(property, place.property(schema, name)),
            pointer: true,
            ..Field::default()
        });
        let fields = fields.collect();
        let open = schema.get("additionalProperties").is_some_and(|values| !values.is_null());
        self.define(fields, place.preserve || open || flag(schema, PRESERVE))
    }

    fn define(&mut self, fields: Vec<Field>, preserve_unknown: bool) -> Shape {
        let preserve_unknown = preserve_unknown || self.preserve_unknown;
        let id = self.types.declare(Str::default());
        self.types.define(id, Struct { fields, preserve_unknown, ..Struct::default() });
        Shape::Struct(id)
    }

    fn rules(&mut self, schema: &Value, place: Place) -> Option<Box<Rules>> {
        let mut branches = |name: &str| -> Vec<Node> {
            schema.list_at(&[name]).iter().map(|branch| self.node(branch, place.below())).collect()
        };
        let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
        let rules = Rules {
            enumeration: schema.list_at(&["enum"]).to_vec(),
            required: schema.list_at(&["required"]).iter().filter_map(Value::as_str).map(Str::from).collect(),
            format: Some(text(schema, "format")).filter(|format| !format.is_empty()).map(Str::from),
            pattern: Some(text(schema, "pattern")).filter(|pattern| !pattern.is_empty()).map(Pattern::new),
            minimum: number(schema, "minimum"),
            maximum: number(schema, "maximum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            multiple_of: number(schema, "multipleOf"),
            min_length: count(schema, "minLength"),
            max_length: count(schema, "maxLength"),
            min_items: count(schema, "minItems"),
            max_items: count(schema, "maxItems"),
            unique_items: flag(schema, "uniqueItems"),
            min_properties: count(schema, "minProperties"),
            max_properties: count(schema, "maxProperties"),
            immutable: false,
            forbids_others: schema.get("additionalProperties").and_then(Value::as_bool) == Some(false),
            all_of,
            any_of,
            one_of,
            not: schema.get("not").filter(|not| !not.is_null()).map(|not| self.node(not, place.below())),
            validations: schema.list_at(&["x-kubernetes-validations"]).iter().map(validation).collect(),
        };
        (rules != Rules::default()).then(|| Box::new(rules))
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

fn validation(rule: &Value) -> Validation {
    let stated = |name: &str| Some(text(rule, name)).filter(|text| !text.is_empty()).map(Str::from);
    Validation {
        rule: text(rule, "rule").into(),
        message: stated("message"),
        message_expression: stated("messageExpression"),
        reason: stated("reason"),
        field_path: stated("fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

fn list_type(schema: &Value) -> ListType {
    match text(schema, "x-kubernetes-list-type") {
        "set" => ListType::Set,
        "map" => {
            let keys = schema.list_at(&["x-kubernetes-list-map-keys"]);
            ListType::Map(keys.iter().filter_map(Value::as_str).map(Str::from).collect())
        }
        _ => ListType::Atomic,
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or("")
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn number(schema: &Value, name: &str) -> Option<f64> {
    match schema.get(name)? {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Bounds below zero hold for every value, so they are as good as none.
fn count(schema: &Value, name: &str) -> Option<u64> {
    number(schema, name).filter(|number| *number >= 0.0).map(|number| number as u64)
}

#[cfg(test)]
mod tests;
