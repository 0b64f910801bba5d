//! The documents of `/api`, `/apis`, a group, and a version: one at a time, as they have been since the first release.

use std::sync::atomic::Ordering;

use aggregator::Group;
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value, value};
use registry::{Catalog, Resource, Subresource};

/// `/api`. It has no apiVersion: the first clients would not have known it.
pub fn api_versions(address: &str) -> Value {
    value!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub fn group_list(groups: &[Group]) -> Value {
    let groups: Vec<Value> = groups.iter().map(describe_group).collect();
    value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub fn group(group: &Group) -> Value {
    let mut document = describe_group(group);
    document.set_type(&GroupVersionKind::new("", "v1", "APIGroup"));
    document
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub fn resource_list(catalog: &Catalog, version: &GroupVersion) -> Value {
    let mut resources: Vec<Value> = Vec::new();
    for resource in catalog.listed(version) {
        resources.push(describe_resource(resource));
        resources.extend(catalog.parts(resource).map(|part| describe_subresource(resource, part)));
    }
    let mut list = value!({
        "kind": "APIResourceList",
        "groupVersion": (version.to_string()),
        "resources": resources,
    });
    // Core has none for the same reason as /api.
    if !version.group.is_empty() {
        list.set(&["apiVersion"], "v1");
    }
    list
}

fn describe_group(group: &Group) -> Value {
    let version =
        |version: &GroupVersion| value!({"groupVersion": (version.to_string()), "version": (version.version.clone())});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    let preferred = versions.first().cloned();
    value!({"name": (group.name.clone()), "versions": versions, "preferredVersion": preferred})
}

fn describe_resource(resource: &Resource) -> Value {
    let mut described = value!({
        "name": (resource.resource.resource.clone()),
        "singularName": (resource.singular.clone()),
        "namespaced": (resource.namespaced),
        "kind": (resource.kind.kind.clone()),
        "verbs": (verbs(resource)),
    });
    if !resource.short_names.is_empty() {
        described.set(&["shortNames"], resource.short_names.clone());
    }
    if !resource.categories.is_empty() {
        described.set(&["categories"], resource.categories.clone());
    }
    if !resource.storage_version_hash.is_empty() {
        described.set(&["storageVersionHash"], resource.storage_version_hash.clone());
    }
    described
}

/// What can be done with a resource. One whose definition is being deleted is not written any more.
pub fn verbs(resource: &Resource) -> Vec<Str> {
    let terminating =
        resource.definition.as_ref().is_some_and(|definition| definition.terminating.load(Ordering::Acquire));
    let is_listed = |verb: &&Str| !terminating || !matches!(verb.as_str(), "create" | "update" | "patch");
    resource.verbs.iter().filter(is_listed).cloned().collect()
}

fn describe_subresource(resource: &Resource, part: &Subresource) -> Value {
    let mut described = value!({
        "name": (format!("{}/{}", resource.resource.resource, part.name)),
        "singularName": "",
        "namespaced": (resource.namespaced),
        "kind": (part.kind.kind.clone()),
        "verbs": (part.verbs.clone()),
    });
    if is_foreign(resource, part) {
        described.set(&["group"], part.kind.group.clone());
        described.set(&["version"], part.kind.version.clone());
    }
    described
}

/// Whether a subresource has a kind of another group or version, as `scale` does.
pub fn is_foreign(resource: &Resource, part: &Subresource) -> bool {
    part.kind.group_version() != resource.resource.group_version()
}
