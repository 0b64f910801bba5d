//! What the recorded OpenAPI document and protobuf descriptors say, laid over the Go facts and checked against them.

use serde_json::Value as Json;

use super::types::{Facts, Field, Item, Union};
use super::{Named, Result, all_well};

const REF: &str = "#/components/schemas/";

/// Definitions by name, without those of the custom resources that the recording made itself.
pub fn definitions(document: &Json) -> Result<Named<Json>> {
    let all = document.as_object().ok_or("schemas are not an object")?;
    let ours = all.iter().filter(|(name, _)| !name.starts_with("com.example."));
    Ok(ours.map(|(name, definition)| (name.clone(), definition.clone())).collect())
}

/// Lays the definitions over the structs of the same name.
pub fn merge(facts: &mut Facts, definitions: &Named<Json>) -> Result<()> {
    let mut problems = Vec::new();
    for (name, definition) in definitions {
        if facts.structs.contains_key(name) {
            merge_one(facts, name, definition).unwrap_or_else(|e| problems.push(format!("{name}: {e}")));
        } else if definition.get("properties").is_some() {
            problems.push(format!("{name}: no Go struct"));
        }
    }
    for (name, definition) in definitions {
        check_inlined(facts, name, definition).unwrap_or_else(|e| problems.push(format!("{name}: {e}")));
    }
    all_well(problems)
}

fn merge_one(facts: &mut Facts, name: &str, definition: &Json) -> Result<()> {
    let no_properties = serde_json::Map::new();
    let properties = definition["properties"].as_object().unwrap_or(&no_properties);
    let in_go: std::collections::BTreeSet<String> =
        facts.all_fields(name).iter().map(|field| field.name.clone()).collect();
    let in_document = properties.keys().cloned().collect();
    if in_go != in_document {
        let difference: Vec<_> = in_go.symmetric_difference(&in_document).collect();
        return Err(format!("fields differ: {difference:?}"));
    }
    let required: Vec<String> = strings(&definition["required"]);
    for (field, schema) in properties {
        let said = attributes(schema, required.contains(field)).map_err(|e| format!("{field}: {e}"))?;
        if let Some(own) = facts.structs.get_mut(name).and_then(|s| s.field_mut(field)) {
            apply(own, said).map_err(|e| format!("{field}: {e}"))?;
        }
    }
    let entry = facts.structs.get_mut(name).ok_or("gone")?;
    entry.map_type = definition["x-kubernetes-map-type"].as_str().map(Into::into);
    entry.unions = unions(&definition["x-kubernetes-unions"])?;
    entry.described = true;
    Ok(())
}

/// The extensions and constraints of a property, as a field without a type.
fn attributes(schema: &Json, required: bool) -> Result<Field> {
    let element = [&schema["items"], &schema["additionalProperties"]].into_iter().find(|s| s.is_object());
    let shape = spelled(schema)?;
    Ok(Field {
        shape,
        required,
        patch_strategy: text(&schema["x-kubernetes-patch-strategy"]),
        patch_merge_key: text(&schema["x-kubernetes-patch-merge-key"]),
        list_type: schema["x-kubernetes-list-type"].as_str().map(Into::into),
        list_keys: strings(&schema["x-kubernetes-list-map-keys"]),
        map_type: schema["x-kubernetes-map-type"].as_str().map(Into::into),
        enumeration: strings(element.map_or(&schema["enum"], |e| &e["enum"])),
        default: schema.get("default").cloned(),
        ..Field::default()
    })
}

fn apply(own: &mut Field, said: Field) -> Result<()> {
    if (&own.patch_strategy, &own.patch_merge_key) != (&said.patch_strategy, &said.patch_merge_key) {
        return Err(format!("patch strategy {:?} and {:?}", own.patch_strategy, said.patch_strategy));
    }
    let plain = plain_shape(&own.shape);
    if plain != said.shape && !plain.trim_matches(['[', ']']).eq("any") {
        return Err(format!("type {plain} in Go and {} in the schema", said.shape));
    }
    own.list_type = said.list_type;
    own.list_keys = said.list_keys;
    own.map_type = said.map_type;
    own.enumeration = said.enumeration;
    own.default = said.default.filter(|default| !goes_without_saying(own, default));
    own.required = said.required;
    Ok(())
}

/// The document states a zero default for every struct that Go holds by value, and for every such scalar that is always
/// printed. Readers of the table can tell as much from the field, see `Field::stated_default`.
fn goes_without_saying(field: &Field, default: &Json) -> bool {
    let zero = matches!(default, Json::Object(map) if map.is_empty())
        || [Json::from(""), Json::from(0), Json::from(false)].contains(default);
    zero && !field.shape.starts_with('*') && (default.is_object() || !field.flags.contains('o'))
}

/// Fields that come from embedded structs must be said there as they are said here.
fn check_inlined(facts: &Facts, name: &str, definition: &Json) -> Result<()> {
    let required: Vec<String> = strings(&definition["required"]);
    for field in facts.all_fields(name) {
        if matches!(field.name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let said = attributes(&definition["properties"][&field.name], required.contains(&field.name))?;
        let same = field.list_type == said.list_type
            && field.list_keys == said.list_keys
            && field.map_type == said.map_type
            && field.enumeration == said.enumeration
            && (field.default == said.default || said.default.is_some_and(|d| goes_without_saying(field, &d)))
            && field.required == said.required;
        if !same {
            return Err(format!("{}: the embedded struct says something else", field.name));
        }
    }
    Ok(())
}

/// The type of a property in the spelling of the facts.
fn spelled(schema: &Json) -> Result<String> {
    let reference = schema["allOf"][0]["$ref"].as_str().or(schema["$ref"].as_str());
    if let Some(target) = reference {
        return Ok(target.strip_prefix(REF).unwrap_or(target).into());
    }
    Ok(match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("byte")) => "bytes".into(),
        (Some("string"), None) => "string".into(),
        (Some("boolean"), None) => "bool".into(),
        (Some("integer"), Some(format)) => format.into(),
        (Some("number"), Some("double")) => "float64".into(),
        (Some("array"), None) => format!("[{}]", spelled(&schema["items"])?),
        (Some("object"), None) if schema["additionalProperties"].is_object() => {
            format!("{{{}}}", spelled(&schema["additionalProperties"])?)
        }
        (Some("object"), None) => "any".into(),
        other => return Err(format!("what is {other:?}?")),
    })
}

/// A Go type as the schema would spell it: no pointers, wrappers or Go names, and special types by their definition.
fn plain_shape(shape: &str) -> String {
    const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
    const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
    let close = |inner: &str, open: char, end: char| {
        let inner = inner.rsplit_once(end).map_or(inner, |(inner, _)| inner);
        format!("{open}{}{end}", plain_shape(inner))
    };
    let shape = shape.trim_start_matches(['*', '!']);
    if let Some(inner) = shape.strip_prefix('[') {
        return close(inner, '[', ']');
    }
    if let Some(inner) = shape.strip_prefix('{') {
        return close(inner, '{', '}');
    }
    let (base, _) = shape.split_once(['~', ':']).unwrap_or((shape, ""));
    match base {
        "time" => format!("{META}Time"),
        "microtime" => format!("{META}MicroTime"),
        "duration" => format!("{META}Duration"),
        "quantity" => "io.k8s.apimachinery.pkg.api.resource.Quantity".into(),
        "intorstring" => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".into(),
        "raw" => "io.k8s.apimachinery.pkg.runtime.RawExtension".into(),
        "orlist" => format!("{EXTENSIONS}JSONSchemaPropsOrArray"),
        "orbool" => format!("{EXTENSIONS}JSONSchemaPropsOrBool"),
        "orstrings" => format!("{EXTENSIONS}JSONSchemaPropsOrStringArray"),
        other => other.into(),
    }
}

/// The unions of a definition.
pub fn unions(list: &Json) -> Result<Vec<Union>> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|union| {
            let members = union["fields-to-discriminateBy"].as_object().ok_or("a union without fields")?;
            let members = members.iter().map(|(field, value)| (field.clone(), text(value))).collect();
            Ok((text(&union["discriminator"]), members))
        })
        .collect()
}

/// The protobuf tags must be those of the message descriptors.
pub fn check_protobuf(facts: &Facts, messages: &Json) -> Result<()> {
    let mut problems = Vec::new();
    for (name, entry) in &facts.structs {
        let Some(path) = name.strip_prefix("io.k8s.") else { continue };
        let message = &messages[format!("k8s.io.{path}")];
        let Some(fields) = message.as_object() else { continue };
        let mut seen = 0;
        for item in &entry.items {
            let tag = match item {
                Item::Field(field) => &field.tag,
                Item::Inline { tag, .. } => tag,
            };
            let Ok(tag) = tag.parse::<u64>() else { continue };
            seen += 1;
            let found = fields.iter().find(|(_, f)| f["tag"] == tag).map(|(name, _)| name.as_str());
            match (item, found) {
                (_, None) => problems.push(format!("{name}: no protobuf field {tag}")),
                (Item::Field(field), Some(proto)) if !field.name.eq_ignore_ascii_case(proto) => {
                    problems.push(format!("{name}.{}: protobuf field {tag} is {proto}", field.name));
                }
                _ => {}
            }
        }
        if seen != fields.len() {
            problems.push(format!("{name}: {seen} fields in Go, {} in protobuf", fields.len()));
        }
    }
    all_well(problems)
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().into()
}

fn strings(value: &Json) -> Vec<String> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(text).collect()
}
