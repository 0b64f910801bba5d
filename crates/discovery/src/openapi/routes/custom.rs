//! The operations on custom resources. They say less than those on built-in ones, and a little of it differs.

use registry::{Resource, Subresource};

use super::{Method, Route, Type, meta, root};
use crate::openapi::names;
use crate::openapi::parameters;

const MEDIA: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

pub fn routes(resource: &Resource) -> Vec<Route> {
    let of = Type::Definition(super::super::definitions::name_of(resource, &resource.kind));
    let list = Type::Definition(super::super::definitions::list_name_of(resource));
    let group = root(&resource.resource.group_version());
    let plural = &resource.resource.resource;
    let collection = match resource.namespaced {
        true => format!("{group}/namespaces/{{namespace}}/{plural}"),
        false => format!("{group}/{plural}"),
    };
    let mut routes = Vec::new();
    if resource.namespaced {
        routes.push(list_all(resource, &format!("{group}/{plural}"), list.clone()));
    }
    let mut add = |path: &str, part: Option<&Subresource>, verb: CustomVerb, of: &Type| {
        routes.push(route(resource, path, part, verb, of.clone()));
    };
    add(&collection, None, CustomVerb::List, &list);
    add(&collection, None, CustomVerb::Create, &of);
    add(&collection, None, CustomVerb::DeleteCollection, &meta("Status"));
    let item = format!("{collection}/{{name}}");
    add(&item, None, CustomVerb::Get, &of);
    add(&item, None, CustomVerb::Update, &of);
    add(&item, None, CustomVerb::Delete, &meta("Status"));
    add(&item, None, CustomVerb::Patch, &of);
    // What a program carries out says nothing about what it takes.
    for part in resource.subresources.iter().filter(|part| part.action.is_none() && part.connect.is_none()) {
        let path = format!("{item}/{}", part.name);
        let of = Type::Definition(super::super::definitions::name_of(resource, &part.kind));
        for verb in [CustomVerb::Get, CustomVerb::Update, CustomVerb::Patch] {
            add(&path, Some(part), verb, &of);
        }
    }
    routes
}

#[derive(Clone, Copy)]
enum CustomVerb {
    List,
    Create,
    DeleteCollection,
    Get,
    Update,
    Delete,
    Patch,
}

fn route(resource: &Resource, path: &str, part: Option<&Subresource>, verb: CustomVerb, of: Type) -> Route {
    let kind = &resource.kind.kind;
    let (method, action, name) = match verb {
        CustomVerb::List => (Method::Get, "list", "list"),
        CustomVerb::Create => (Method::Post, "post", "create"),
        CustomVerb::DeleteCollection => (Method::Delete, "deletecollection", "deletecollection"),
        CustomVerb::Get => (Method::Get, "get", "read"),
        CustomVerb::Update => (Method::Put, "put", "replace"),
        CustomVerb::Delete => (Method::Delete, "delete", "delete"),
        CustomVerb::Patch => (Method::Patch, "patch", "patch"),
    };
    let part_of = part.map(|part| format!("{} of ", part.name)).unwrap_or_default();
    let says = match verb {
        CustomVerb::List => format!("list {part_of}objects of kind {kind}"),
        CustomVerb::Create => format!("create {part_of}{}", names::with_article(kind)),
        CustomVerb::Delete => format!("delete {part_of}{}", names::with_article(kind)),
        CustomVerb::DeleteCollection => format!("delete collection of {part_of}{kind}"),
        CustomVerb::Patch => format!("partially update {part_of}the specified {kind}"),
        CustomVerb::Get | CustomVerb::Update => format!("{name} {part_of}the specified {kind}"),
    };
    let options = match verb {
        CustomVerb::List | CustomVerb::DeleteCollection => "ListOptions",
        CustomVerb::Create => "CreateOptions",
        CustomVerb::Get => "GetOptions",
        CustomVerb::Update => "UpdateOptions",
        CustomVerb::Delete => "DeleteOptions",
        CustomVerb::Patch => "PatchOptions",
    };
    let codes: &[u16] = match verb {
        CustomVerb::Create => &[200, 201, 202],
        CustomVerb::Update => &[200, 201],
        CustomVerb::Delete => &[200, 202],
        _ => &[200],
    };
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let title = part.map(|part| names::title(&part.name)).unwrap_or_default();
    let route = blank(resource, path, method, action, &format!("{name}{scope}{kind}{title}"))
        .says(says)
        .takes(parameters::options(options, &[]));
    let route = match verb {
        CustomVerb::Create | CustomVerb::Update => route.reads(of.clone(), true),
        CustomVerb::Delete => route.reads(meta("DeleteOptions"), false),
        CustomVerb::Patch => route.reads(meta("Patch"), true),
        _ => route,
    };
    let mut route = route.answers(codes, of);
    if matches!(verb, CustomVerb::Patch) {
        route.consumes = PATCHES.to_vec();
    }
    route
}

fn list_all(resource: &Resource, path: &str, list: Type) -> Route {
    let kind = &resource.kind.kind;
    blank(resource, path, Method::Get, "list", &format!("list{kind}ForAllNamespaces"))
        .says(format!("list objects of kind {kind}"))
        .takes(parameters::options("ListOptions", &[]))
        .answers(&[200], list)
}

/// What all of them have.
fn blank(resource: &Resource, path: &str, method: Method, action: &'static str, name: &str) -> Route {
    let (id, tag) = names::operation(name, path);
    let mut parameters = vec![parameters::pretty()];
    if path.contains("{namespace}") {
        parameters.push(parameters::namespace());
    }
    if path.contains("{name}") {
        parameters.push(parameters::name(&resource.kind.kind));
    }
    Route {
        path: path.into(),
        method,
        id,
        tag,
        description: String::new(),
        action: Some(action),
        kind: Some(resource.kind.clone()),
        parameters,
        body: None,
        consumes: MEDIA.to_vec(),
        produces: MEDIA.to_vec(),
        responses: Vec::new(),
    }
}
