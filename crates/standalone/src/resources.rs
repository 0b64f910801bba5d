//! Which resources the loops look after, and their collections.

use std::sync::Arc;

use registry::Resource;
use rest::Api;
use rest::client::Collection;

/// The objects of a resource, of a namespace if it has namespaces and one is given.
pub fn collection_of(resource: &Resource, namespace: &str) -> Collection {
    let all = Collection::of(&resource.resource);
    if resource.namespaced && !namespace.is_empty() { all.within(namespace) } else { all }
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
