//! Aggregated discovery: everything below `/api` or `/apis` in one document.

use std::sync::Arc;

use aggregator::{Aggregator, Discovered, Group};
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value, value};
use registry::{Catalog, Resource, Subresource};

use crate::plain::{self, is_foreign};
use crate::{groups, hash};

/// The kind of the document, and what clients ask for.
pub const GROUP: &str = "apidiscovery.k8s.io";
pub const VERSION: &str = "v2";
pub const KIND: &str = "APIGroupDiscoveryList";

/// A document and its hash, which is that of its JSON without a type, whatever it is sent as.
pub struct Document {
    pub value: Value,
    pub etag: String,
}

pub fn kind() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, KIND)
}

/// `/api`.
pub fn core(catalog: &Catalog) -> Document {
    let version = GroupVersion::new("", "v1");
    let group = value!({"metadata": {}, "versions": [(describe_version(catalog, &version))]});
    document(vec![group])
}

/// `/apis`.
pub fn all(catalog: &Catalog, aggregator: Option<&Aggregator>) -> Document {
    let backends = aggregator.map(Aggregator::backends).unwrap_or_default();
    // An APIService that was just stored has no backend yet.
    let services = aggregator.map(Aggregator::services).unwrap_or_default();
    let is_remote = |version: &GroupVersion| {
        services.iter().any(|service| service.backend.is_some() && service.version == *version)
    };
    let describe_one = |version: &GroupVersion| match is_remote(version) {
        true => {
            let backend = backends.iter().find(|backend| backend.version == *version);
            describe_remote(version, backend.and_then(|backend| backend.discovered()))
        }
        false => describe_version(catalog, version),
    };
    let describe = |group: Group| {
        let versions: Vec<Value> = group.versions.iter().map(describe_one).collect();
        value!({"metadata": {"name": (group.name)}, "versions": versions})
    };
    document(groups::served(catalog, aggregator).into_iter().map(describe).collect())
}

/// The resources of a backend; none if it could not be asked.
fn describe_remote(version: &GroupVersion, discovered: Option<Arc<Discovered>>) -> Value {
    let discovered = discovered.unwrap_or_default();
    let freshness = if discovered.current { "Current" } else { "Stale" };
    let mut described = value!({"version": (version.version.clone()), "freshness": freshness});
    if !discovered.resources.is_empty() {
        described.set(&["resources"], discovered.resources.clone());
    }
    described
}

/// A document of these groups.
pub fn document(items: Vec<Value>) -> Document {
    let mut value = value!({"metadata": {}, "items": items});
    let mut json = Vec::new();
    codec::json::encode(&value, schema::builtin().schema(&kind()), &mut json);
    value.set_type(&kind());
    Document { value, etag: hash::sha512(&json) }
}

fn describe_version(catalog: &Catalog, version: &GroupVersion) -> Value {
    let resources: Vec<Value> = catalog.listed(version).map(|resource| describe_resource(catalog, resource)).collect();
    value!({"version": (version.version.clone()), "resources": resources, "freshness": "Current"})
}

fn describe_resource(catalog: &Catalog, resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut described = value!({
        "resource": (resource.resource.resource.clone()),
        "responseKind": (response_kind(&resource.kind, resource.is_custom())),
        "scope": scope,
        "singularResource": (resource.singular.clone()),
        "verbs": (plain::verbs(resource)),
    });
    let mut list = |name: &str, values: &[Str]| {
        if !values.is_empty() {
            described.set(&[name], values.to_vec());
        }
    };
    list("shortNames", &resource.short_names);
    list("categories", &resource.categories);
    let parts: Vec<Value> = catalog.parts(resource).map(|part| describe_subresource(resource, part)).collect();
    if !parts.is_empty() {
        described.set(&["subresources"], parts);
    }
    described
}

fn describe_subresource(resource: &Resource, part: &Subresource) -> Value {
    value!({
        "subresource": (part.name.clone()),
        "responseKind": (response_kind(&part.kind, resource.is_custom() || is_foreign(resource, part))),
        "verbs": (part.verbs.clone()),
    })
}

/// Built-in kinds leave group and version to be those of the place they stand in.
fn response_kind(kind: &GroupVersionKind, whole: bool) -> Value {
    let text = |text: &Str| if whole { text.clone() } else { Str::default() };
    value!({"group": (text(&kind.group)), "version": (text(&kind.version)), "kind": (kind.kind.clone())})
}
