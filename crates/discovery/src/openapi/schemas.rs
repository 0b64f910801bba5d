//! Definitions as OpenAPI has them: what the schema says of a type, in the order and the words of the published document.

use object::{GroupVersionKind, Str};
use registry::Resource;
use schema::{Field, ListType, MapType, Node, Shape, Struct, Types, builtin};

use super::definitions::{self, Definition, LIST_META, OBJECT_META};
use super::json::Json;

mod structural;

/// The version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// References may have siblings, nothing is said of defaults, and there is no `oneOf`.
    V2,
    V3,
}

impl Flavor {
    pub fn prefix(self) -> &'static str {
        match self {
            Flavor::V2 => "#/definitions/",
            Flavor::V3 => "#/components/schemas/",
        }
    }
}

/// Writes a definition; `kinds` are those it is known as.
pub fn write(json: &mut Json, name: &str, definition: Definition<'_>, kinds: &[GroupVersionKind], flavor: Flavor) {
    match definition {
        Definition::Struct(types, id) => write_struct(json, types, types.get(id), kinds, flavor),
        Definition::Special => write_special(json, name, flavor),
        Definition::Custom(resource) => structural::write_kind(json, resource, flavor),
        Definition::CustomList(resource) => write_custom_list(json, resource, flavor),
    }
}

/// `{"$ref": …}`.
pub fn write_reference(json: &mut Json, name: &str, flavor: Flavor) {
    json.object(|json| reference(json, name, flavor));
}

fn reference(json: &mut Json, name: &str, flavor: Flavor) {
    json.key("$ref").string(&format!("{}{name}", flavor.prefix()));
}

fn write_struct(json: &mut Json, types: &Types, owner: &Struct, kinds: &[GroupVersionKind], flavor: Flavor) {
    json.object(|json| {
        describe(json, &struct_description(owner));
        json.key("type").string("object");
        let required: Vec<&str> = owner.in_print_order().filter(|f| f.required).map(|f| f.name.as_str()).collect();
        if !required.is_empty() {
            json.key("required").strings(required);
        }
        if !owner.fields.is_empty() {
            json.key("properties").object(|json| {
                for field in &owner.fields {
                    json.key(&field.name);
                    write_field(json, types, owner, field, flavor);
                }
            });
        }
        write_kinds(json, kinds);
        if let Some(map_type) = owner.map_type {
            json.key("x-kubernetes-map-type").string(map_type_name(map_type));
        }
        if !owner.unions.is_empty() {
            json.key("x-kubernetes-unions").list(|json| owner.unions.iter().for_each(|union| write_union(json, union)));
        }
    });
}

fn write_kinds(json: &mut Json, kinds: &[GroupVersionKind]) {
    if kinds.is_empty() {
        return;
    }
    json.key("x-kubernetes-group-version-kind").list(|json| {
        for kind in kinds {
            json.object(|json| {
                json.key("group").string(&kind.group);
                json.key("kind").string(&kind.kind);
                json.key("version").string(&kind.version);
            });
        }
    });
}

fn write_union(json: &mut Json, union: &schema::Union) {
    json.object(|json| {
        if let Some(discriminator) = &union.discriminator {
            json.key("discriminator").string(discriminator);
        }
        let mut members: Vec<&(Str, Str)> = union.members.iter().collect();
        members.sort();
        json.key("fields-to-discriminateBy").object(|json| {
            for (field, value) in members {
                json.key(field).string(value);
            }
        });
    });
}

fn write_field(json: &mut Json, types: &Types, owner: &Struct, field: &Field, flavor: Flavor) {
    let node = &field.node;
    let description = field_description(owner, field);
    let default = field.stated_default().filter(|_| flavor == Flavor::V3);
    let referred = definitions::reference(types, owner, node);
    json.object(|json| {
        describe(json, &description);
        if let (Some(name), Flavor::V2) = (&referred, flavor) {
            reference(json, name, flavor);
        }
        if referred.is_none() {
            write_type(json, &node.shape);
        }
        if let Some(default) = &default {
            json.key("default").value(default);
        }
        if let (Some(name), Flavor::V3) = (&referred, flavor) {
            // A reference has no siblings in this version, so one that would have some is wrapped.
            if description.is_empty() && default.is_none() && !has_extensions(node) {
                reference(json, name, flavor);
            } else {
                json.key("allOf").list(|json| write_reference(json, name, flavor));
            }
        }
        write_rest(json, types, owner, node, flavor);
    });
}

/// A list's items or a map's values.
fn write_element(json: &mut Json, types: &Types, owner: &Struct, node: &Node, flavor: Flavor) {
    json.object(|json| match definitions::reference(types, owner, node) {
        Some(name) => reference(json, &name, flavor),
        None => {
            write_type(json, &node.shape);
            write_rest(json, types, owner, node, flavor);
        }
    });
}

/// Type and format, where there is no definition to refer to.
fn write_type(json: &mut Json, shape: &Shape) {
    let (kind, format) = match shape {
        Shape::Bool => ("boolean", ""),
        Shape::Int32 => ("integer", "int32"),
        Shape::Int64 => ("integer", "int64"),
        Shape::Float => ("number", "double"),
        Shape::String => ("string", ""),
        Shape::Bytes => ("string", "byte"),
        Shape::List(_) => ("array", ""),
        Shape::Map(_) | Shape::Struct(_) => ("object", ""),
        _ => return,
    };
    json.key("type").string(kind);
    if !format.is_empty() {
        json.key("format").string(format);
    }
}

/// What comes behind the type: enum, elements, and extensions by name.
fn write_rest(json: &mut Json, types: &Types, owner: &Struct, node: &Node, flavor: Flavor) {
    if let Some(rules) = node.rules.as_ref().filter(|rules| !rules.enumeration.is_empty()) {
        json.key("enum").list(|json| rules.enumeration.iter().for_each(|value| json.value(value)));
    }
    match &node.shape {
        Shape::List(items) => write_element(json.key("items"), types, owner, items, flavor),
        Shape::Map(values) => write_element(json.key("additionalProperties"), types, owner, values, flavor),
        _ => {}
    }
    if node.stated.list_type {
        if let ListType::Map(keys) = &node.list_type {
            json.key("x-kubernetes-list-map-keys").strings(keys.iter().map(Str::as_str));
        }
        json.key("x-kubernetes-list-type").string(list_type_name(&node.list_type));
    }
    if node.stated.map_type {
        json.key("x-kubernetes-map-type").string(map_type_name(node.map_type));
    }
    if let Some(key) = &node.patch_merge_key {
        json.key("x-kubernetes-patch-merge-key").string(key);
    }
    let strategy = patch_strategy(node);
    if !strategy.is_empty() {
        json.key("x-kubernetes-patch-strategy").string(&strategy);
    }
}

fn has_extensions(node: &Node) -> bool {
    node.stated.list_type || node.stated.map_type || node.patch_merge_key.is_some() || !patch_strategy(node).is_empty()
}

fn patch_strategy(node: &Node) -> String {
    let strategies =
        [(node.patch_merge, "merge"), (node.patch_retain_keys, "retainKeys"), (node.patch_replace, "replace")];
    strategies.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

fn list_type_name(list_type: &ListType) -> &'static str {
    match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map(_) => "map",
    }
}

fn map_type_name(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

/// Types that print as something else than what they are in Go.
fn write_special(json: &mut Json, name: &str, flavor: Flavor) {
    let short = name.rsplit('.').next().unwrap_or("");
    json.object(|json| {
        describe(json, descriptions::of(name, "").unwrap_or(""));
        let one_of = |json: &mut Json, kinds: [&str; 2]| {
            json.key("oneOf").list(|json| {
                kinds.iter().for_each(|kind| json.object(|json| json.key("type").string(kind)));
            });
        };
        match (short, flavor) {
            ("Time" | "MicroTime", _) => {
                json.key("type").string("string");
                json.key("format").string("date-time");
            }
            ("Duration", _) | ("Quantity", Flavor::V2) => json.key("type").string("string"),
            ("Quantity", Flavor::V3) => one_of(json, ["string", "number"]),
            ("IntOrString", Flavor::V2) => {
                json.key("type").string("string");
                json.key("format").string("int-or-string");
            }
            ("IntOrString", Flavor::V3) => {
                json.key("format").string("int-or-string");
                one_of(json, ["integer", "string"]);
            }
            ("RawExtension" | "FieldsV1" | "Patch", _) => json.key("type").string("object"),
            // JSON and its like: anything goes.
            _ => {}
        }
    });
}

fn write_custom_list(json: &mut Json, resource: &Resource, flavor: Flavor) {
    let kind = definitions::list_kind(resource);
    let conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let item = definitions::name_of(resource, &resource.kind);
    json.object(|json| {
        describe(json, &format!("{kind} is a list of {}", resource.kind.kind));
        json.key("type").string("object");
        json.key("required").strings(["items"]);
        json.key("properties").object(|json| {
            write_type_field(json, "apiVersion");
            json.key("items").object(|json| {
                describe(json, &format!("List of {}. More info: {conventions}", resource.resource.resource));
                json.key("type").string("array");
                write_reference(json.key("items"), &item, flavor);
            });
            write_type_field(json, "kind");
            write_described_reference(json.key("metadata"), list_metadata(), LIST_META, flavor);
        });
        write_kinds(json, &[resource.kind.group_version().with_kind(&kind)]);
        write_selectable_fields(json, resource);
    });
}

/// The fields of a custom kind that selectors can use.
fn write_selectable_fields(json: &mut Json, resource: &Resource) {
    let fields = resource.strategy().map(|strategy| strategy.selectable_fields()).unwrap_or_default();
    if fields.is_empty() {
        return;
    }
    json.key("x-kubernetes-selectable-fields").list(|json| {
        for field in fields {
            json.object(|json| json.key("fieldPath").string(field));
        }
    });
}

/// `apiVersion` or `kind` of a custom kind, which every object describes in the same words.
fn write_type_field(json: &mut Json, name: &str) {
    write_text_field(json, name, descriptions::of(ANY_KIND, name).unwrap_or(""));
}

fn write_text_field(json: &mut Json, name: &str, description: &str) {
    json.key(name).object(|json| {
        describe(json, description);
        json.key("type").string("string");
    });
}

/// `metadata` of a custom kind.
fn write_metadata(json: &mut Json, flavor: Flavor) {
    let description = descriptions::of(ANY_KIND, "metadata").unwrap_or("");
    write_described_reference(json.key("metadata"), description, OBJECT_META, flavor);
}

fn write_described_reference(json: &mut Json, description: &str, name: &str, flavor: Flavor) {
    json.object(|json| {
        describe(json, description);
        match flavor {
            Flavor::V3 if !description.is_empty() => {
                json.key("allOf").list(|json| write_reference(json, name, flavor));
            }
            _ => reference(json, name, flavor),
        }
    });
}

const ANY_KIND: &str = "io.k8s.api.core.v1.Pod";

fn describe(json: &mut Json, description: &str) {
    if !description.is_empty() {
        json.key("description").string(description);
    }
}

fn struct_description(owner: &Struct) -> String {
    match (descriptions::of(&owner.name, ""), listed_kind(owner)) {
        (Some(description), _) => description.into(),
        (None, Some(kind)) => format!("{kind}List is a list of {kind}."),
        (None, None) => String::new(),
    }
}

fn field_description(owner: &Struct, field: &Field) -> String {
    let mut description = match (descriptions::of(&owner.name, &field.name), field.name.as_str(), listed_kind(owner)) {
        (Some(description), _, _) => description.to_string(),
        (None, "items", Some(kind)) => format!("List of {}", plural(kind)),
        (None, "metadata", Some(_)) => list_metadata().into(),
        _ => String::new(),
    };
    let values = field.node.rules.as_ref().map(|rules| rules.enumeration.as_slice()).unwrap_or_default();
    if !values.is_empty() && !description.is_empty() {
        description += "\n\nPossible enum values:";
        for value in values {
            description += &format!("\n - `{}`", object::quote(value.as_str().unwrap_or("")));
        }
    }
    description
}

/// The description of a list's metadata: a Status has the same, in the words that most lists and all custom ones have.
fn list_metadata() -> &'static str {
    descriptions::of("io.k8s.apimachinery.pkg.apis.meta.v1.Status", "metadata").unwrap_or_default()
}

/// The resource of a built-in kind, as `services`.
fn plural(kind: &str) -> &str {
    let resource = builtin().resources().find(|resource| resource.kind.kind == kind);
    resource.map_or(kind, |resource| resource.name.resource.as_str())
}

/// The kind that a struct is a list of; lists are described here only.
fn listed_kind(owner: &Struct) -> Option<&str> {
    let short = owner.name.rsplit('.').next()?;
    let kind = short.strip_suffix("List")?;
    let is_list = owner.field("items").is_some() && owner.field("metadata").is_some() && !kind.is_empty();
    (is_list && builtin().types().find(&owner.name).is_some()).then_some(kind)
}
