//! An OpenAPI 3 document: one group-version, one group, or one of the few fixed paths.

use std::sync::Arc;

use registry::Resource;

use super::definitions::{self, Audience, DefinitionMap};
use super::json::Json;
use super::parameters::{Parameter, Place};
use super::paths::{self, Operation, status_text};
use super::routes::{Route, Type};
use super::schemas::{self, Flavor, write_reference};

/// Writes the document of `routes`, which are about `resources`.
pub fn write(routes: &[Route], resources: &[Arc<Resource>], audience: &Audience) -> Vec<u8> {
    let definitions = definitions::collect(routes, resources);
    let custom = *audience == Audience::Custom;
    let mut json = Json::new(true);
    json.object(|json| {
        json.key("openapi").string("3.0.0");
        json.key("info").object(|json| write_info(json, custom));
        json.key("paths").object(|json| write_paths(json, routes));
        json.key("components").object(|json| {
            if !definitions.is_empty() {
                json.key("schemas").object(|json| write_schemas(json, &definitions, audience));
            }
            if !custom {
                json.key("securitySchemes").object(|json| {
                    json.key("BearerToken").object(|json| {
                        json.key("type").string("apiKey");
                        json.key("description").string("Bearer Token authentication");
                        json.key("name").string("authorization");
                        json.key("in").string("header");
                    });
                });
            }
        });
    });
    json.finish()
}

fn write_info(json: &mut Json, custom: bool) {
    let (title, version) = if custom { ("Kubernetes CRD Swagger", "v0.1.0") } else { super::TITLE_AND_VERSION };
    json.key("title").string(title);
    json.key("version").string(version);
}

fn write_schemas(json: &mut Json, definitions: &DefinitionMap<'_>, audience: &Audience) {
    for (name, definition) in definitions {
        let kinds = definitions::kinds_of(name, audience);
        schemas::write(json.key(name), name, *definition, &kinds, Flavor::V3);
    }
}

fn write_paths(json: &mut Json, routes: &[Route]) {
    for (path, item) in paths::group(routes) {
        json.key(path).object(|json| {
            for operation in &item.operations {
                json.key(operation.route.method.name()).object(|json| write_operation(json, operation));
            }
            write_parameters(json, &item.common);
        });
    }
}

fn write_operation(json: &mut Json, operation: &Operation<'_>) {
    let route = operation.route;
    json.key("tags").strings([route.tag.as_str()]);
    json.key("description").string(&route.description);
    json.key("operationId").string(&route.id);
    write_parameters(json, &operation.parameters);
    if let Some(body) = &route.body {
        json.key("requestBody").object(|json| {
            write_content(json, &route.consumes, &body.of);
            if body.required {
                json.key("required").bool(true);
            }
        });
    }
    json.key("responses").object(|json| {
        for (code, of) in &route.responses {
            json.key(&code.to_string()).object(|json| {
                json.key("description").string(status_text(*code));
                write_content(json, &route.produces, of);
            });
        }
        json.key("401").object(|json| json.key("description").string(status_text(401)));
    });
    if let (Some(action), Some(kind)) = (route.action, &route.kind) {
        json.key("x-kubernetes-action").string(action);
        json.key("x-kubernetes-group-version-kind").object(|json| {
            json.key("group").string(&kind.group);
            json.key("version").string(&kind.version);
            json.key("kind").string(&kind.kind);
        });
    }
}

fn write_content(json: &mut Json, media: &[&str], of: &Type) {
    let mut media = media.to_vec();
    media.sort_unstable();
    json.key("content").object(|json| {
        for media in media {
            json.key(media).object(|json| match of {
                Type::Text => json.key("schema").object(|json| json.key("type").string("string")),
                Type::Definition(name) => write_reference(json.key("schema"), name, Flavor::V3),
            });
        }
    });
}

fn write_parameters(json: &mut Json, parameters: &[&Parameter]) {
    if parameters.is_empty() {
        return;
    }
    json.key("parameters").list(|json| {
        for parameter in parameters {
            json.object(|json| {
                json.key("name").string(&parameter.name);
                json.key("in").string(parameter.place.name());
                if !parameter.description.is_empty() {
                    json.key("description").string(&parameter.description);
                }
                if parameter.place == Place::Path {
                    json.key("required").bool(true);
                }
                json.key("schema").object(|json| {
                    json.key("type").string(parameter.kind);
                    json.key("uniqueItems").bool(true);
                });
            });
        }
    });
}
