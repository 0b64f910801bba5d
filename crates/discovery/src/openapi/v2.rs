//! The OpenAPI 2 document: everything there is, in one.

use std::collections::BTreeMap;
use std::sync::Arc;

use registry::Resource;

use super::definitions::{self, Audience};
use super::json::Json;
use super::parameters::{Parameter, Place};
use super::paths::{self, Operation, status_text};
use super::routes::{Body, Route, Type};
use super::schemas::{self, Flavor, write_reference};
use crate::hash;

/// Writes the document of `routes`, which are about `resources`.
pub fn write(routes: &[Route], resources: &[Arc<Resource>]) -> Vec<u8> {
    let definitions = definitions::collect(routes, resources);
    let mut shared = Shared::default();
    let mut json = Json::new(false);
    json.object(|json| {
        json.key("swagger").string("2.0");
        json.key("info").object(|json| {
            json.key("title").string(super::TITLE_AND_VERSION.0);
            json.key("version").string(super::TITLE_AND_VERSION.1);
        });
        json.key("paths").object(|json| write_paths(json, routes, &mut shared));
        json.key("definitions").object(|json| {
            for (name, definition) in &definitions {
                let kinds = definitions::kinds_of(name, &Audience::Everybody);
                schemas::write(json.key(name), name, *definition, &kinds, Flavor::V2);
            }
        });
        json.key("parameters").object(|json| {
            for (name, parameter) in &shared.by_name {
                json.key(name).raw(parameter);
            }
        });
        json.key("securityDefinitions").object(|json| {
            json.key("BearerToken").object(|json| {
                json.key("description").string("Bearer Token authentication");
                json.key("type").string("apiKey");
                json.key("name").string("authorization");
                json.key("in").string("header");
            });
        });
        json.key("security").list(|json| json.object(|json| json.key("BearerToken").list(|_| {})));
    });
    json.finish()
}

/// Parameters that many operations take, written once and referred to by a name that tells them apart.
#[derive(Default)]
struct Shared {
    by_name: BTreeMap<String, Vec<u8>>,
}

impl Shared {
    /// Writes a reference to a parameter.
    fn refer(&mut self, json: &mut Json, name: &str, write: impl Fn(&mut Json)) {
        let written = |escape_html: bool| {
            let mut json = Json::new(escape_html);
            json.object(|json| write(json));
            json.finish()
        };
        // Two that share eight characters of hash would have to have the same name as well.
        let name = format!("{name}-{}", hash::short(&written(true)));
        json.object(|json| json.key("$ref").string(&format!("#/parameters/{name}")));
        self.by_name.entry(name).or_insert_with(|| written(false));
    }
}

fn write_paths(json: &mut Json, routes: &[Route], shared: &mut Shared) {
    for (path, item) in paths::group(routes) {
        json.key(path).object(|json| {
            for operation in &item.operations {
                json.key(operation.route.method.name()).object(|json| write_operation(json, operation, shared));
            }
            if !item.common.is_empty() {
                json.key("parameters").list(|json| {
                    item.common.iter().for_each(|parameter| write_parameter(json, parameter, shared));
                });
            }
        });
    }
}

fn write_operation(json: &mut Json, operation: &Operation<'_>, shared: &mut Shared) {
    let route = operation.route;
    json.key("description").string(&route.description);
    if !route.consumes.is_empty() {
        json.key("consumes").strings(route.consumes.iter().copied());
    }
    json.key("produces").strings(route.produces.iter().copied());
    json.key("schemes").strings(["https"]);
    json.key("tags").strings([route.tag.as_str()]);
    json.key("operationId").string(&route.id);
    if route.body.is_some() || !operation.parameters.is_empty() {
        json.key("parameters").list(|json| write_parameters(json, operation, shared));
    }
    json.key("responses").object(|json| {
        for (code, of) in &route.responses {
            json.key(&code.to_string()).object(|json| {
                json.key("description").string(status_text(*code));
                write_type(json.key("schema"), of);
            });
        }
        json.key("401").object(|json| json.key("description").string(status_text(401)));
    });
    if let (Some(action), Some(kind)) = (route.action, &route.kind) {
        json.key("x-kubernetes-action").string(action);
        json.key("x-kubernetes-group-version-kind").object(|json| {
            json.key("group").string(&kind.group);
            json.key("kind").string(&kind.kind);
            json.key("version").string(&kind.version);
        });
    }
}

/// The parameters of an operation and its body, which is one of them here, by name.
fn write_parameters(json: &mut Json, operation: &Operation<'_>, shared: &mut Shared) {
    let mut body = operation.route.body.as_ref();
    for parameter in &operation.parameters {
        if parameter.name.as_ref() > "body"
            && let Some(body) = body.take()
        {
            write_body(json, body, shared);
        }
        write_parameter(json, parameter, shared);
    }
    if let Some(body) = body {
        write_body(json, body, shared);
    }
}

fn write_body(json: &mut Json, body: &Body, shared: &mut Shared) {
    let write = |json: &mut Json| {
        json.key("name").string("body");
        json.key("in").string("body");
        if body.required {
            json.key("required").bool(true);
        }
        write_type(json.key("schema"), &body.of);
    };
    let is_generic = matches!(&body.of, Type::Definition(name) if name.starts_with("io.k8s.apimachinery"));
    if is_generic { shared.refer(json, "body", write) } else { json.object(write) }
}

fn write_parameter(json: &mut Json, parameter: &Parameter, shared: &mut Shared) {
    let write = |json: &mut Json| {
        json.key("uniqueItems").bool(true);
        json.key("type").string(parameter.kind);
        if !parameter.description.is_empty() {
            json.key("description").string(&parameter.description);
        }
        json.key("name").string(&parameter.name);
        json.key("in").string(parameter.place.name());
        if parameter.place == Place::Path {
            json.key("required").bool(true);
        }
    };
    // Names tell the kind, and old clients look for the other two to learn what the server can do.
    let is_own = matches!(parameter.name.as_ref(), "name" | "fieldValidation" | "dryRun");
    if is_own { json.object(write) } else { shared.refer(json, &parameter.name, write) }
}

fn write_type(json: &mut Json, of: &Type) {
    match of {
        Type::Text => json.object(|json| json.key("type").string("string")),
        Type::Definition(name) => write_reference(json, name, Flavor::V2),
    }
}
