//! What a schema is made of.
//!
//! A [`Struct`] is a set of named fields and may be used in many places (and inside itself, as `JSONSchemaProps` is); a
//! [`Node`] is one use of a type, with everything that belongs to the place: default, list type, constraints. Structs live
//! in the arena of a [`Types`]; built-in kinds share one, each custom resource definition brings its own.
//! A [`Schema`] is a node together with its arena: what operations and codecs walk.

use std::ops::Deref;

use hashbrown::HashMap;
use object::{Str, Value, compare_names};

use crate::Pattern;

/// All structs of one origin.
#[derive(Debug, Default)]
pub struct Types {
    structs: Vec<Struct>,
    by_name: HashMap<Str, StructId>,
    zeros: bool,
    embedded: bool,
}

/// The place of a struct in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(u32);

/// Named fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// The OpenAPI definition name, `io.k8s.api.core.v1.PodSpec`; "" for anonymous structs of custom resources.
    pub name: Str,
    /// How Go's decoder names the type in its errors, `v1.PodSpec`.
    pub go_name: Str,
    /// Sorted by name, as the entries of a `Map` are, so that a value and its struct can be walked together.
    pub fields: Vec<Field>,
    /// Indexes into `fields` in the order JSON is printed. Custom resources print sorted.
    pub print_order: Vec<u16>,
    /// Indexes into `fields` by protobuf tag; empty where there is no protobuf form.
    pub proto_order: Vec<u16>,
    /// Unknown fields are kept instead of pruned.
    pub preserve_unknown: bool,
    /// Go embeds that JSON inlines but protobuf nests, by tag. Their fields are in `fields` too, with tag 0.
    pub proto_inlines: Vec<ProtoInline>,
    /// What the definition itself says about its map type; nodes that use the struct have it in their own `map_type`.
    pub map_type: Option<MapType>,
    /// Groups of fields of which at most one is set.
    pub unions: Vec<Union>,
    /// Nothing in it or below it has a default, so defaulting need not look. [`Types::mark_defaults`] finds out.
    pub no_defaults: bool,
}

/// A Go embedded struct: its fields are the outer struct's in JSON, and a message of its own, with the tags that
/// `target` gives them, in protobuf. The message is always written, be it empty.
#[derive(Debug, Clone)]
pub struct ProtoInline {
    /// The tag of the message.
    pub tag: u32,
    /// The embedded struct.
    pub target: StructId,
}

/// Fields of which at most one is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Union {
    /// The field that names the member in use.
    pub discriminator: Option<Str>,
    /// Member fields with the discriminator's value for each.
    pub members: Vec<(Str, Str)>,
}

/// A named field of a struct.
#[derive(Debug, Clone, Default)]
pub struct Field {
    /// Its name in JSON.
    pub name: Str,
    /// Its type.
    pub node: Node,
    /// The protobuf tag; 0 where there is none (or the field lives in a `ProtoInline`).
    pub tag: u32,
    /// Whether it must be there.
    pub required: bool,
    /// When Go leaves it out.
    pub omit: Omit,
    /// Held by a pointer in Go: unset is nil and not zero. Protobuf writes it only when set, whereas scalars and structs
    /// held by value are always written. Custom resources have no zero values, so all of their fields are pointers.
    pub pointer: bool,
    /// Neither it nor anything in it has a default, so defaulting need not look. [`Types::mark_defaults`] finds out.
    pub no_defaults: bool,
}

/// When Go's encoder leaves a field out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Omit {
    /// A pointer, slice or map with `omitempty`: left out when nil. An empty list or map is left out too, a pointer to a
    /// zero scalar or an empty struct is printed.
    #[default]
    Nil,
    /// A scalar held by value with `omitempty`: left out when zero. In protobuf it is always written. A `Time` here
    /// (`omitzero`) is left out when unset.
    Zero,
    /// Always printed: a scalar held by value as its zero, a struct as `{}`, a quantity as "0", an int-or-string as 0; an
    /// unset pointer, list, map, time or raw extension as `null`. Structs held by value are here even with `omitempty`,
    /// which Go does not heed for them.
    Never,
}

/// One use of a type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// The kind of value that stands here.
    pub shape: Shape,
    /// No type is stated: the shape tells what children would be, and any value passes. Branches of `anyOf` and the like.
    pub untyped: bool,
    /// Whether null is a value.
    pub nullable: bool,
    /// What an unset field becomes. Zero values that Go would print anyway are not here.
    pub default: Option<Value>,
    /// How a list is merged.
    pub list_type: ListType,
    /// How a map or struct is merged.
    pub map_type: MapType,
    /// What the OpenAPI document says at this place, as opposed to what holds here: it leaves out defaults that live in
    /// upstream's code, and list and map types that are what they are without being said.
    pub stated: Stated,
    /// Strategic merge patch: lists are merged, by this key where the items are objects.
    pub patch_merge: bool,
    /// The field that tells the items of such a list apart.
    pub patch_merge_key: Option<Str>,
    /// Strategic merge patch: clients say which fields stay, with `$retainKeys`.
    pub patch_retain_keys: bool,
    /// Strategic merge patch: a map is replaced instead of merged.
    pub patch_replace: bool,
    /// An embedded object: apiVersion, kind and metadata are its own.
    pub embedded: bool,
    /// A list that protobuf wraps in a message of its own: `repeated items = 1`.
    pub proto_wrapped: bool,
    /// How Go names the type in decoding errors where the shape does not tell: `v1.PullPolicy`. See [`Schema::go_type`].
    pub go_type: Option<Str>,
    /// Constraints of the value.
    pub rules: Option<Box<Rules>>,
}

/// Which of the facts about a place the OpenAPI document states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stated {
    /// Its default.
    pub default: bool,
    /// Its list type.
    pub list_type: bool,
    /// Its map type.
    pub map_type: bool,
}

/// What kind of value stands here.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Shape {
    /// Anything at all, kept as it is: `x-kubernetes-preserve-unknown-fields` without a type, `JSON`. The
    /// built-in ones are a message with the JSON text in `bytes raw = 1` in protobuf.
    #[default]
    Any,
    /// `runtime.RawExtension`: any JSON object; in protobuf the bytes of an encoded object.
    RawExtension,
    /// `FieldsV1`: JSON that is kept as text, because only field tracking looks inside.
    Fields,
    /// A boolean.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A number with a fraction.
    Float,
    /// A text.
    String,
    /// base64 text in JSON, raw bytes in protobuf and CBOR.
    Bytes,
    /// An integer or a text.
    IntOrString,
    /// An amount such as `500m`.
    Quantity,
    /// A time with seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// `metav1.Duration`.
    Duration,
    /// An object with named fields.
    Struct(StructId),
    /// A list of values of one type.
    List(Box<Node>),
    /// A map with values of one type.
    Map(Box<Node>),
    /// `JSONSchemaPropsOrArray`: one struct or a list of them; in protobuf `schema = 1` or `repeated jSONSchemas = 2`.
    StructOrList(StructId),
    /// `JSONSchemaPropsOrBool`: a struct or a bool; in protobuf `allows = 1` and `schema = 2`.
    StructOrBool(StructId),
    /// `JSONSchemaPropsOrStringArray`: a struct or a list of strings; in protobuf `schema = 1`, `repeated property = 2`.
    StructOrStrings(StructId),
}

/// How the items of a list belong together: `x-kubernetes-list-type`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Every item is there once.
    Set,
    /// Items are told apart by these keys.
    Map(Vec<Str>),
}

/// How the fields of a map or struct belong together: `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MapType {
    /// Every field has owners of its own.
    #[default]
    Granular,
    /// The map is one value.
    Atomic,
}

/// The value constraints of a place; rare on built-in kinds, the daily bread of custom ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// OpenAPI's `enum`.
    pub enumeration: Vec<Value>,
    /// Fields that must be there, in the order stated, also such as no field of the struct stands for. Where it is empty
    /// the fields' own `required` counts.
    pub required: Vec<Str>,
    /// OpenAPI's `format`.
    pub format: Option<Str>,
    /// OpenAPI's `pattern`.
    pub pattern: Option<Pattern>,
    /// OpenAPI's `minimum`.
    pub minimum: Option<f64>,
    /// OpenAPI's `maximum`.
    pub maximum: Option<f64>,
    /// OpenAPI's `exclusiveMinimum`: the minimum itself is too small.
    pub exclusive_minimum: bool,
    /// OpenAPI's `exclusiveMaximum`: the maximum itself is too large.
    pub exclusive_maximum: bool,
    /// OpenAPI's `multipleOf`.
    pub multiple_of: Option<f64>,
    /// OpenAPI's `minLength`, in characters.
    pub min_length: Option<u64>,
    /// OpenAPI's `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// OpenAPI's `minItems`.
    pub min_items: Option<u64>,
    /// OpenAPI's `maxItems`.
    pub max_items: Option<u64>,
    /// OpenAPI's `uniqueItems`.
    pub unique_items: bool,
    /// OpenAPI's `minProperties`.
    pub min_properties: Option<u64>,
    /// OpenAPI's `maxProperties`.
    pub max_properties: Option<u64>,
    /// Whether updates must leave the value as it is.
    pub immutable: bool,
    /// `additionalProperties: false`: properties that the schema does not name are errors.
    pub forbids_others: bool,
    /// OpenAPI's `allOf`.
    pub all_of: Vec<Node>,
    /// OpenAPI's `anyOf`.
    pub any_of: Vec<Node>,
    /// OpenAPI's `oneOf`.
    pub one_of: Vec<Node>,
    /// OpenAPI's `not`.
    pub not: Option<Node>,
    /// Rules in CEL: `x-kubernetes-validations`.
    pub validations: Vec<Validation>,
}

impl Rules {
    /// Whether other schemas count too: `anyOf`, `oneOf`, `allOf` or `not`.
    pub fn has_alternatives(&self) -> bool {
        !self.any_of.is_empty() || !self.one_of.is_empty() || !self.all_of.is_empty() || self.not.is_some()
    }
}

/// One rule of `x-kubernetes-validations`, as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// The expression.
    pub rule: Str,
    /// The error where the rule does not hold.
    pub message: Option<Str>,
    /// An expression that makes the error.
    pub message_expression: Option<Str>,
    /// The reason of the error, such as `FieldValueForbidden`.
    pub reason: Option<Str>,
    /// The field that the error is about.
    pub field_path: Option<Str>,
    /// Whether the rule is also evaluated where there is no old value.
    pub optional_old_self: Option<bool>,
}

/// The Go type of amounts of resources, which defaulting rounds.
pub(crate) const RESOURCE_LIST: &str = "v1.ResourceList";

/// A node in its arena. Copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    /// The types that the node refers to.
    pub types: &'a Types,
    /// The node itself.
    pub node: &'a Node,
}

impl Types {
    /// The types of a custom resource definition, whose values are JSON as it came.
    pub fn new() -> Types {
        Types::default()
    }

    /// The types of Go structs. These have zero values: a null in a list or a map of them becomes one, whereas among
    /// custom types a null is a null.
    pub fn with_zeros() -> Types {
        Types { zeros: true, ..Types::default() }
    }

    /// Whether fields of these types have zero values, as those of Go's structs do.
    pub fn have_zeros(&self) -> bool {
        self.zeros
    }

    /// Whether objects are embedded below the root of a custom resource.
    pub fn has_embedded(&self) -> bool {
        self.embedded
    }

    pub(crate) fn note_embedded(&mut self) {
        self.embedded = true;
    }

    /// Makes room for so many more structs at once.
    pub fn reserve(&mut self, structs: usize) {
        self.structs.reserve(structs);
        self.by_name.reserve(structs);
    }

    /// Makes room for a struct that will be defined later, so that structs can refer to each other.
    pub fn declare(&mut self, name: Str) -> StructId {
        let id = StructId(u32::try_from(self.structs.len()).expect("fewer than four billion structs"));
        if !name.is_empty() {
            self.by_name.insert(name.clone(), id);
        }
        self.structs.push(Struct { name, ..Struct::default() });
        id
    }

    /// Fills a declared struct, whose name it keeps. `fields` may come in any order, which becomes the print order of
    /// built-in types; custom resources print sorted and can have more fields than an order can number.
    pub fn define(&mut self, id: StructId, mut definition: Struct) {
        let place = &mut self.structs[id.0 as usize];
        if !self.zeros {
            definition.fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            definition.name = std::mem::take(&mut place.name);
            *place = definition;
            return;
        }
        let count = u16::try_from(definition.fields.len()).expect("a struct has fewer than 65536 fields");
        let fields = &definition.fields;
        let mut order: Vec<u16> = (0..count).collect();
        order.sort_unstable_by(|&a, &b| fields[a as usize].name.cmp(&fields[b as usize].name));
        let mut rank = vec![0; order.len()];
        for (sorted, &original) in (0..).zip(&order) {
            rank[original as usize] = sorted;
        }
        let mut unsorted: Vec<Option<Field>> = definition.fields.into_iter().map(Some).collect();
        definition.fields = order.iter().filter_map(|&at| unsorted[at as usize].take()).collect();
        definition.print_order = rank;
        let fields = &definition.fields;
        let mut proto: Vec<u16> = (0..count).filter(|&i| fields[i as usize].tag > 0).collect();
        proto.sort_unstable_by_key(|&i| fields[i as usize].tag);
        definition.proto_order = proto;
        definition.proto_inlines.sort_by_key(|inline| inline.tag);
        definition.name = std::mem::take(&mut place.name);
        *place = definition;
    }

    /// Marks the structs that defaulting can pass by; call it when all of them are defined.
    pub fn mark_defaults(&mut self) {
        let mut defaulted: Vec<bool> =
            self.structs.iter().map(|s| s.fields.iter().any(|f| has_default(&f.node))).collect();
        // Structs refer to each other in circles, so what is below is found by going round until nothing changes.
        loop {
            let mut changed = false;
            for (at, definition) in self.structs.iter().enumerate() {
                let below = |field: &Field| struct_of(&field.node).is_some_and(|id| defaulted[id.0 as usize]);
                if !defaulted[at] && definition.fields.iter().any(below) {
                    defaulted[at] = true;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        for (at, definition) in self.structs.iter_mut().enumerate() {
            definition.no_defaults = !defaulted[at];
            for field in &mut definition.fields {
                let below = struct_of(&field.node).is_some_and(|id| defaulted[id.0 as usize]);
                field.no_defaults = !below && !has_default(&field.node);
            }
        }
    }

    /// The struct with this id.
    pub fn get(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// The id of the struct with this name.
    pub fn find(&self, name: &str) -> Option<StructId> {
        self.by_name.get(name).copied()
    }

    /// All structs with their ids.
    pub fn structs(&self) -> impl Iterator<Item = (StructId, &Struct)> {
        self.structs.iter().enumerate().map(|(i, s)| (StructId(i as u32), s))
    }
}

fn has_default(node: &Node) -> bool {
    node.default.is_some()
        || node.go_type.as_deref() == Some(RESOURCE_LIST)
        || match &node.shape {
            Shape::List(inner) | Shape::Map(inner) => has_default(inner),
            _ => false,
        }
}

/// The struct that a node is made of, be it as an item or a value.
fn struct_of(node: &Node) -> Option<StructId> {
    match &node.shape {
        Shape::Struct(id) => Some(*id),
        Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id) => Some(*id),
        Shape::List(inner) | Shape::Map(inner) => struct_of(inner),
        _ => None,
    }
}

impl Struct {
    /// The field with this name in JSON.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| compare_names(&f.name, name)).ok().map(|i| &self.fields[i])
    }

    /// The fields as JSON prints them: by name where no order was defined.
    pub fn in_print_order(&self) -> impl Iterator<Item = &Field> {
        let sorted = if self.print_order.is_empty() { self.fields.as_slice() } else { &[] };
        self.print_order.iter().map(|&i| &self.fields[i as usize]).chain(sorted)
    }

    /// The fields in the order of their tags.
    pub fn in_proto_order(&self) -> impl Iterator<Item = &Field> {
        self.proto_order.iter().map(|&i| &self.fields[i as usize])
    }
}

impl Field {
    /// The default that the OpenAPI document states here. Besides the ones that mean something, it states a zero for every
    /// struct that Go holds by value and for every such scalar that is always printed.
    pub fn stated_default(&self) -> Option<Value> {
        if self.node.stated.default {
            return self.node.default.clone();
        }
        match (&self.node.shape, self.pointer, self.omit) {
            (Shape::Struct(_), false, _) => Some(Value::map()),
            (Shape::String, false, Omit::Never) => Some("".into()),
            (Shape::Bool, false, Omit::Never) => Some(false.into()),
            (Shape::Int32 | Shape::Int64 | Shape::Float, false, Omit::Never) => Some(0.into()),
            _ => None,
        }
    }
}

impl<'a> Schema<'a> {
    /// The schema of a node whose structs are in these types.
    pub fn new(types: &'a Types, node: &'a Node) -> Schema<'a> {
        Schema { types, node }
    }

    /// The struct here, if this is one.
    pub fn as_struct(&self) -> Option<&'a Struct> {
        match self.node.shape {
            Shape::Struct(id) => Some(self.types.get(id)),
            _ => None,
        }
    }

    /// The schema of a child by name: a struct's field or a map's value.
    pub fn child(&self, name: &str) -> Option<Schema<'a>> {
        match &self.node.shape {
            Shape::Struct(id) => self.types.get(*id).field(name).map(|f| self.with(&f.node)),
            Shape::Map(values) => Some(self.with(values)),
            _ => None,
        }
    }

    /// The schema of a list's items.
    pub fn items(&self) -> Option<Schema<'a>> {
        match &self.node.shape {
            Shape::List(items) => Some(self.with(items)),
            _ => None,
        }
    }

    /// The type as Go's decoder names it in errors: `string`, `[]v1.Container`, `v1.PullPolicy`.
    pub fn go_type(&self) -> Str {
        if let Some(name) = &self.node.go_type {
            return name.clone();
        }
        match &self.node.shape {
            Shape::Any | Shape::Fields => "interface {}".into(),
            Shape::RawExtension => "runtime.RawExtension".into(),
            Shape::Bool => "bool".into(),
            Shape::Int32 => "int32".into(),
            Shape::Int64 => "int64".into(),
            Shape::Float => "float64".into(),
            Shape::String => "string".into(),
            Shape::Bytes => "[]uint8".into(),
            Shape::IntOrString => "intstr.IntOrString".into(),
            Shape::Quantity => "resource.Quantity".into(),
            Shape::Time => "v1.Time".into(),
            Shape::MicroTime => "v1.MicroTime".into(),
            Shape::Duration => "v1.Duration".into(),
            Shape::Struct(id) => self.types.get(*id).go_name.clone(),
            Shape::List(items) => format!("[]{}", self.with(items).go_type()).into(),
            Shape::Map(values) => format!("map[string]{}", self.with(values).go_type()).into(),
            Shape::StructOrList(_) => "v1.JSONSchemaPropsOrArray".into(),
            Shape::StructOrBool(_) => "v1.JSONSchemaPropsOrBool".into(),
            Shape::StructOrStrings(_) => "v1.JSONSchemaPropsOrStringArray".into(),
        }
    }

    /// The same arena at another node.
    pub fn with(&self, node: &'a Node) -> Schema<'a> {
        Schema { types: self.types, node }
    }
}

impl Deref for Schema<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.node
    }
}
