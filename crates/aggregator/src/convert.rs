//! OpenAPI documents of the second version as documents of the third, for backends that have no other. Something is lost on the
//! way, the same as in upstream's conversion.

use object::{Value, value};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
const DEFINITIONS: &str = "#/definitions/";
const SCHEMAS: &str = "#/components/schemas/";

/// A whole document.
pub fn to_v3(v2: &Value) -> Value {
    let mut v3 = value!({"openapi": "3.0.0"});
    copy(v2, &mut v3, &["info"]);
    set_external_docs(v2, &mut v3);
    if let Some(paths) = v2.field("paths").as_map() {
        v3.set(&["paths"], Value::map());
        for (name, item) in paths.iter() {
            let item = if name.starts_with("x-") { item.clone() } else { path_item(item) };
            v3.set(&["paths", name], item);
        }
    }
    v3.set(&["components"], components(v2));
    v3
}

fn components(v2: &Value) -> Value {
    let mut components = Value::map();
    let mut each = |from: &str, to: &str, convert: &dyn Fn(&Value) -> Value| {
        let Some(all) = v2.field(from).as_map() else { return };
        components.set(&[to], Value::map());
        for (name, part) in all.iter() {
            components.set(&[to, name], convert(part));
        }
    };
    each("definitions", "schemas", &schema);
    each("securityDefinitions", "securitySchemes", &security_scheme);
    each("responses", "responses", &|part| response(part, v2.field("produces")));
    components
}

fn path_item(v2: &Value) -> Value {
    let mut v3 = Value::map();
    copy(v2, &mut v3, &["$ref"]);
    copy_extensions(v2, &mut v3);
    for method in METHODS {
        if v2.field(method).as_map().is_some() {
            v3.set(&[method], operation(v2.field(method)));
        }
    }
    let parameters: Vec<Value> = v2.list_at(&["parameters"]).iter().map(parameter).collect();
    if !parameters.is_empty() {
        v3.set(&["parameters"], Value::List(parameters));
    }
    v3
}

fn operation(v2: &Value) -> Value {
    let mut v3 = Value::map();
    copy(v2, &mut v3, &["description", "tags", "summary", "deprecated", "operationId"]);
    copy_extensions(v2, &mut v3);
    set_external_docs(v2, &mut v3);
    let mut parameters = Vec::new();
    for part in v2.list_at(&["parameters"]) {
        if part.str_at(&["name"]) != "body" || part.field("schema").is_null() {
            parameters.push(parameter(part));
            continue;
        }
        v3.set(&["requestBody"], Value::map());
        if !v2.field("consumes").is_null() {
            v3.set(&["requestBody", "content"], content(v2.field("consumes"), part.field("schema")));
        }
    }
    if !parameters.is_empty() {
        v3.set(&["parameters"], Value::List(parameters));
    }
    v3.set(&["responses"], Value::map());
    for (code, answer) in v2.field("responses").as_map().into_iter().flat_map(|answers| answers.iter()) {
        let answer = if code.starts_with("x-") { answer.clone() } else { response(answer, v2.field("produces")) };
        v3.set(&["responses", code], answer);
    }
    v3
}

fn response(v2: &Value, produces: &Value) -> Value {
    let mut v3 = Value::map();
    copy_extensions(v2, &mut v3);
    copy(v2, &mut v3, &["description"]);
    set_reference(v2, &mut v3, "#/responses/", "#/components/responses/");
    if !v2.field("schema").is_null() && !produces.is_null() {
        v3.set(&["content"], content(produces, v2.field("schema")));
    }
    v3
}

/// One schema for each media type.
fn content(media_types: &Value, of: &Value) -> Value {
    let mut content = Value::map();
    for media_type in media_types.list_at(&[]).iter().filter_map(Value::as_str) {
        content.set(&[media_type], value!({"schema": (schema(of))}));
    }
    content
}

fn parameter(v2: &Value) -> Value {
    let mut v3 = Value::map();
    copy_extensions(v2, &mut v3);
    copy(v2, &mut v3, &["name", "description", "in", "required", "allowEmptyValue"]);
    set_reference(v2, &mut v3, "#/parameters/", "#/components/parameters/");
    if v2.field("schema").is_null() {
        let mut simple = value!({"type": (v2.str_at(&["type"]))});
        copy(v2, &mut simple, &["format", "uniqueItems"]);
        v3.set(&["schema"], simple);
    } else {
        v3.set(&["schema"], schema(v2.field("schema")));
    }
    v3
}

/// A schema that refers to schemas of the third version. A reference that has something beside it becomes the only element of
/// `allOf`, because what is beside a reference does not count.
fn schema(v2: &Value) -> Value {
    let Some(fields) = v2.as_map() else { return v2.clone() };
    let mut v3 = Value::map();
    for (name, part) in fields.iter() {
        let part = match (name, part) {
            ("properties", Value::Map(properties)) => {
                let mut converted = Value::map();
                properties.iter().for_each(|(name, property)| converted.set(&[name], schema(property)));
                converted
            }
            ("items", Value::List(items)) => Value::List(items.iter().map(schema).collect()),
            ("items" | "additionalProperties" | "additionalItems", part) => schema(part),
            (_, part) => part.clone(),
        };
        v3.set(&[name], part);
    }
    let Some(reference) = fields.get("$ref").and_then(Value::as_str) else { return v3 };
    let reference = match reference.find(DEFINITIONS) {
        Some(at) => format!("{SCHEMAS}{}", &reference[at + DEFINITIONS.len()..]),
        None => reference.to_string(),
    };
    let reference = value!({"$ref": reference});
    if fields.len() == 1 {
        return reference;
    }
    v3.remove(&["$ref"]);
    v3.set(&["allOf"], Value::List(vec![reference]));
    v3
}

fn security_scheme(v2: &Value) -> Value {
    let mut v3 = Value::map();
    copy_extensions(v2, &mut v3);
    copy(v2, &mut v3, &["description", "type", "name", "in"]);
    let flow = v2.str_at(&["flow"]);
    if !flow.is_empty() {
        let mut urls = Value::map();
        copy(v2, &mut urls, &["authorizationUrl", "tokenUrl", "scopes"]);
        v3.set(&["flows", flow], urls);
    }
    v3
}

fn copy(from: &Value, to: &mut Value, names: &[&str]) {
    for name in names.iter().filter(|name| !from.field(name).is_null()) {
        to.set(&[*name], from.field(name).clone());
    }
}

fn copy_extensions(from: &Value, to: &mut Value) {
    let fields = from.as_map().into_iter().flat_map(|fields| fields.iter());
    fields.filter(|(name, _)| name.starts_with("x-")).for_each(|(name, value)| to.set(&[name], value.clone()));
}

fn set_external_docs(from: &Value, to: &mut Value) {
    if from.field("externalDocs").as_map().is_some() {
        let mut docs = Value::map();
        copy(from.field("externalDocs"), &mut docs, &["description", "url"]);
        to.set(&["externalDocs"], docs);
    }
}

fn set_reference(from: &Value, to: &mut Value, before: &str, after: &str) {
    if let Some(reference) = from.field("$ref").as_str() {
        to.set(&["$ref"], reference.replacen(before, after, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(part: &str, v2: Value, want: Value) {
        let converted = to_v3(&v2);
        let at: Vec<&str> = part.split(' ').collect();
        assert_eq!(*converted.at(&at), want, "{part} of {v2:?}");
    }

    #[test]
    fn documents_are_converted() {
        let info = value!({"title": "t", "version": "v0"});
        check("info", value!({"swagger": "2.0", "info": (info.clone())}), info);
        check("openapi", value!({}), value!("3.0.0"));
        check(
            "components schemas A",
            value!({"definitions": {"A": {
                "properties": {
                    "plain": {"$ref": "#/definitions/B"},
                    "told": {"description": "d", "$ref": "#/definitions/B"},
                    "$ref": {"type": "string"},
                },
                "items": [{"$ref": "#/definitions/B"}],
                "additionalProperties": false,
                "x-kubernetes-group-version-kind": [{"kind": "A"}],
            }}}),
            value!({
                "properties": {
                    "plain": {"$ref": "#/components/schemas/B"},
                    "told": {"description": "d", "allOf": [{"$ref": "#/components/schemas/B"}]},
                    "$ref": {"type": "string"},
                },
                "items": [{"$ref": "#/components/schemas/B"}],
                "additionalProperties": false,
                "x-kubernetes-group-version-kind": [{"kind": "A"}],
            }),
        );
        check(
            "components securitySchemes T",
            value!({"securityDefinitions": {"T": {"type": "oauth2", "flow": "password", "tokenUrl": "u"}}}),
            value!({"type": "oauth2", "flows": {"password": {"tokenUrl": "u"}}}),
        );
    }

    #[test]
    fn operations_are_converted() {
        check(
            "paths /a",
            value!({"paths": {"/a": {
                "parameters": [{"name": "pretty", "in": "query", "type": "string", "uniqueItems": true}],
                "post": {
                    "consumes": ["*/*"], "produces": ["application/json"], "operationId": "o", "schemes": ["https"],
                    "parameters": [
                        {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/A"}},
                        {"$ref": "#/parameters/p"},
                    ],
                    "responses": {"200": {"description": "OK", "schema": {"type": "string"}}, "401": {"description": "no"}},
                },
            }}}),
            value!({
                "parameters": [{"name": "pretty", "in": "query", "schema": {"type": "string", "uniqueItems": true}}],
                "post": {
                    "operationId": "o",
                    "parameters": [{"$ref": "#/components/parameters/p", "schema": {"type": ""}}],
                    "requestBody": {"content": {"*/*": {"schema": {"$ref": "#/components/schemas/A"}}}},
                    "responses": {
                        "200": {"description": "OK", "content": {"application/json": {"schema": {"type": "string"}}}},
                        "401": {"description": "no"},
                    },
                },
            }),
        );
    }

    #[test]
    fn nonsense_is_converted_without_panic() {
        for nonsense in
            [value!([]), value!({"paths": [], "definitions": 1}), value!({"paths": {"/a": 1, "/b": {"get": []}}})]
        {
            to_v3(&nonsense);
        }
    }
}
