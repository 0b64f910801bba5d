//! Which resources the loops look after, and their paths.

use std::sync::Arc;

use registry::Resource;
use rest::Api;

/// The path of a resource's collection, or of one object in it.
pub fn path_of(resource: &Resource, namespace: &str, name: &str) -> String {
    let id = &resource.resource;
    let mut path = match id.group.as_str() {
        "" => format!("/api/{}", id.version),
        group => format!("/apis/{group}/{}", id.version),
    };
    if resource.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(namespace);
    }
    path.push('/');
    path.push_str(&id.resource);
    if !name.is_empty() {
        path.push('/');
        path.push_str(name);
    }
    path
}

/// Every resource that can be listed, watched and deleted, in one version each: the first that is served.
pub fn deletable(api: &Api) -> Vec<Arc<Resource>> {
    let catalog = api.catalog.load();
    let mut found: Vec<Arc<Resource>> = Vec::new();
    for version in catalog.versions() {
        for resource in catalog.of(version) {
            let id = &resource.resource;
            let again = found.iter().any(|f| f.resource.group == id.group && f.resource.resource == id.resource);
            if !again && resource.storage.is_some() && ["list", "watch", "delete"].iter().all(|v| resource.serves(v)) {
                found.push(resource.clone());
            }
        }
    }
    found
}
