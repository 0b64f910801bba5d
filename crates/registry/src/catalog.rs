//! [`Catalog`]: everything the server serves, as one immutable snapshot.
//!
//! Routing, discovery, OpenAPI, decoding, patching and printing all read it. It is swapped whole when a custom resource
//! definition changes; a request works on the snapshot it began with.

use std::sync::Arc;

use hashbrown::HashMap;
use object::{GroupVersion, GroupVersionKind, GroupVersionResource, Str, Value};
use schema::{Node, Schema, Types};

use crate::{Action, Report, Storage, Strategy};

/// All served resources.
#[derive(Clone, Default)]
pub struct Catalog {
    resources: HashMap<(Str, Str, Str), Arc<Resource>>,
    /// Group-versions in the order discovery lists them.
    versions: Vec<GroupVersion>,
}

/// One resource in one version.
pub struct Resource {
    pub resource: GroupVersionResource,
    pub kind: GroupVersionKind,
    /// `PodList`.
    pub list_kind: Str,
    pub singular: Str,
    pub namespaced: bool,
    pub verbs: Vec<Str>,
    pub short_names: Vec<Str>,
    pub categories: Vec<Str>,
    pub storage_version_hash: Str,
    pub shape: Shape,
    pub subresources: Vec<Subresource>,
    pub columns: Vec<Column>,
    /// None for resources that are answered, not stored: reviews, bindings.
    pub storage: Option<Arc<Storage>>,
    /// What reads show, where nothing is stored.
    pub report: Option<Arc<dyn Report>>,
    /// What a POST does, where it does not store.
    pub action: Option<Arc<dyn Action>>,
    /// For a version or kind that is on its way out.
    pub deprecation: Option<Deprecation>,
    /// How this version differs from the stored one; None if they are the same but for the name.
    pub conversion: Option<Arc<dyn Convert>>,
    /// Custom resources print sorted, keep no protobuf form and take no strategic merge patch.
    pub custom: bool,
}

/// What whoever uses something old should know.
#[derive(Clone, Debug)]
pub struct Deprecation {
    pub warning: Str,
    /// In which release it goes: `1.40`, "" if nobody knows.
    pub removed_release: Str,
}

/// A part of a resource with a path of its own: `status`, `scale`, `log`.
#[derive(Clone)]
pub struct Subresource {
    pub name: Str,
    pub kind: GroupVersionKind,
    pub verbs: Vec<Str>,
    /// What a POST does; None where there is none, or where the subresource is a view on the object.
    pub action: Option<Arc<dyn Action>>,
    /// What requests and answers look like; None where it is the resource itself or not an object.
    pub shape: Option<Shape>,
}

/// A schema that owns its arena.
#[derive(Clone)]
pub struct Shape {
    pub types: Arc<Types>,
    pub node: Arc<Node>,
}

/// A column of a Table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    pub name: Str,
    pub kind: Str,
    pub format: Str,
    /// "" for built-in kinds, whose columns are described when a table is asked for.
    pub description: Str,
    pub priority: i64,
}

/// Converts between a served version and the stored one.
pub trait Convert: Send + Sync + 'static {
    fn to_storage(&self, object: Value) -> Result<Value, String>;
    fn from_storage(&self, object: Value) -> Result<Value, String>;
}

impl Catalog {
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// This catalog and one more resource, or another in place of the one it had. A snapshot never changes.
    pub fn with(&self, resource: &Arc<Resource>) -> Catalog {
        let mut catalog = self.clone();
        catalog.put(resource.clone());
        catalog
    }

    /// This catalog without a resource.
    pub fn without(&self, resource: &GroupVersionResource) -> Catalog {
        let mut catalog = self.clone();
        catalog.remove(resource);
        catalog
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: Resource) {
        self.put(Arc::new(resource));
    }

    fn put(&mut self, resource: Arc<Resource>) {
        let version = resource.resource.group_version();
        if !self.versions.contains(&version) {
            self.versions.push(version);
        }
        self.resources.insert(path_of(&resource.resource), resource);
    }

    /// Removes a resource, and its group-version if it was the last one there.
    pub fn remove(&mut self, resource: &GroupVersionResource) -> Option<Arc<Resource>> {
        let removed = self.resources.remove(&path_of(resource))?;
        let version = resource.group_version();
        if self.of(&version).next().is_none() {
            self.versions.retain(|v| *v != version);
        }
        Some(removed)
    }

    /// Says what a POST to a resource or subresource does, in every version. For a catalog that nobody uses yet.
    pub fn set_action(&mut self, group: &str, resource: &str, subresource: &str, action: &Arc<dyn Action>) {
        let named = |r: &Resource| r.resource.group == group && r.resource.resource == resource;
        for found in self.resources.values_mut().filter(|r| named(r)) {
            let Some(found) = Arc::get_mut(found) else { continue };
            if subresource.is_empty() {
                found.action = Some(action.clone());
            }
            for part in found.subresources.iter_mut().filter(|part| part.name == subresource) {
                part.action = Some(action.clone());
            }
        }
    }

    /// Says what reads of a resource show that is not stored. For a catalog that nobody uses yet.
    pub fn set_report(&mut self, group: &str, resource: &str, report: &Arc<dyn Report>) {
        let named = |r: &Resource| r.resource.group == group && r.resource.resource == resource;
        for found in self.resources.values_mut().filter(|r| named(r)).filter_map(Arc::get_mut) {
            found.report = Some(report.clone());
        }
    }

    pub fn get(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&Named(group, version, resource))
    }

    /// Group-versions in the order they were added.
    pub fn versions(&self) -> &[GroupVersion] {
        &self.versions
    }

    /// The resources of a group-version, sorted by name.
    pub fn of(&self, version: &GroupVersion) -> impl Iterator<Item = &Arc<Resource>> {
        let mut found: Vec<_> = self.resources.values().filter(|r| r.resource.group_version() == *version).collect();
        found.sort_by(|a, b| a.resource.resource.cmp(&b.resource.resource));
        found.into_iter()
    }

    pub fn by_kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.resources.values().find(|resource| resource.kind == *kind)
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Any version of a resource that is stored: for lookups that do not care which.
    pub fn stored(&self, group: &str, resource: &str) -> Option<&Arc<Storage>> {
        let versions = self.versions.iter().filter(|version| version.group == group);
        versions.filter_map(|version| self.get(group, &version.version, resource)).find_map(|r| r.storage.as_ref())
    }
}

/// A borrowed key: every request looks its resource up, and none shall allocate for it.
#[derive(Hash)]
struct Named<'a>(&'a str, &'a str, &'a str);

impl hashbrown::Equivalent<(Str, Str, Str)> for Named<'_> {
    fn equivalent(&self, key: &(Str, Str, Str)) -> bool {
        (self.0, self.1, self.2) == (key.0.as_str(), key.1.as_str(), key.2.as_str())
    }
}

fn path_of(resource: &GroupVersionResource) -> (Str, Str, Str) {
    (resource.group.clone(), resource.version.clone(), resource.resource.clone())
}

impl Resource {
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// What is particular about the resource's objects; None where there are none to speak of.
    pub fn strategy(&self) -> Option<&dyn Strategy> {
        match (&self.storage, &self.report) {
            (Some(storage), _) => Some(&*storage.strategy),
            (None, Some(report)) => Some(report.strategy()),
            (None, None) => None,
        }
    }

    /// An object of this version as it is stored.
    pub fn to_storage(&self, object: Value) -> Result<Value, String> {
        match &self.conversion {
            Some(conversion) => conversion.to_storage(object),
            None => Ok(object),
        }
    }

    /// A stored object as this version shows it.
    pub fn from_storage(&self, object: Value) -> Result<Value, String> {
        match &self.conversion {
            Some(conversion) => conversion.from_storage(object),
            None => Ok(object),
        }
    }
}

impl Shape {
    pub fn schema(&self) -> Schema<'_> {
        Schema::new(&self.types, &self.node)
    }
}
