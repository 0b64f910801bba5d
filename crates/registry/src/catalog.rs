//! [`Catalog`]: everything the server serves, as one immutable snapshot.
//!
//! Routing, discovery, OpenAPI, decoding, patching and printing all read it. It is swapped whole when a custom resource
//! definition changes; a request works on the snapshot it began with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use object::{GroupVersion, GroupVersionKind, GroupVersionResource, Str, Value};

use crate::{Action, Connect, Definition, DirectStorage, Form, Report, ResourceStorage, Strategy, Withdrawn};

/// All served resources.
#[derive(Clone, Default)]
pub struct Catalog {
    /// A snapshot shares what did not change with the one before.
    resources: HashMap<GroupVersion, Arc<Listing>>,
    /// Group-versions in the order they were added.
    versions: Arc<Vec<GroupVersion>>,
    /// The subresource by which the history of stored objects is read, if one is kept.
    history: Option<Arc<Subresource>>,
}

/// The resources of one group-version.
#[derive(Clone, Default)]
struct Listing {
    /// Sorted by name.
    resources: Vec<Arc<Resource>>,
    /// How many of them are built in.
    builtin: usize,
}

/// One resource in one version.
pub struct Resource {
    /// Tells entries of the catalog apart: the versions of a resource, and what replaced them later.
    pub id: u64,
    /// Its group, version and name.
    pub resource: GroupVersionResource,
    /// The kind of its objects.
    pub kind: GroupVersionKind,
    /// `PodList`.
    pub list_kind: Str,
    /// The name of one object, as kubectl takes it.
    pub singular: Str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that it has.
    pub verbs: Vec<Str>,
    /// Names that kubectl takes too.
    pub short_names: Vec<Str>,
    /// Groups of resources that kubectl lists together, such as `all`.
    pub categories: Vec<Str>,
    /// A hash of the stored version, by which clients notice that it changed.
    pub storage_version_hash: Str,
    /// How its objects are read and printed.
    pub form: Form,
    /// The parts of an object that have paths of their own.
    pub subresources: Vec<Subresource>,
    /// The columns of its Tables.
    pub columns: Vec<Column>,
    /// None for resources that are answered, not stored: reviews, bindings.
    pub storage: Option<Arc<ResourceStorage>>,
    /// Makes the objects that reads show, where nothing is stored.
    pub report: Option<Arc<dyn Report>>,
    /// Carries out a POST, where it does not store.
    pub action: Option<Arc<dyn Action>>,
    /// For a version or kind that is on its way out.
    pub deprecation: Option<Deprecation>,
    /// How this version differs from the stored one; None if they are the same but for the name.
    pub conversion: Option<Arc<dyn Convert>>,
    /// The definition of a custom resource; None for built-in ones.
    pub definition: Option<Arc<Definition>>,
    /// Set when the resource leaves the catalog, or is replaced in it.
    pub withdrawn: Withdrawn,
}

/// A warning for users of something old.
#[derive(Clone, Debug)]
pub struct Deprecation {
    /// The warning that every request to it gets.
    pub warning: Str,
    /// The release that removes it: `1.40`, "" if that is not known.
    pub removed_release: Str,
}

/// A part of a resource with a path of its own: `status`, `scale`, `log`.
#[derive(Clone)]
pub struct Subresource {
    /// Its name, such as `status`.
    pub name: Str,
    /// The kind that is sent and received.
    pub kind: GroupVersionKind,
    /// The verbs that it has.
    pub verbs: Vec<Str>,
    /// What a POST does; None where there is none, or where the subresource is a view on the object.
    pub action: Option<Arc<dyn Action>>,
    /// Where connections to it go; None where it is not a connection.
    pub connect: Option<Arc<dyn Connect>>,
    /// What requests and answers look like; None where it is the resource itself or not an object.
    pub form: Option<Form>,
}

/// A column of a Table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The head of the column.
    pub name: Str,
    /// The type of its cells.
    pub kind: Str,
    /// The format of its cells, such as `name`.
    pub format: Str,
    /// "" for built-in kinds, whose columns are described when a table is asked for.
    pub description: Str,
    /// 0 if it is always shown, more if only where there is room.
    pub priority: i64,
}

/// Converts between a served version of a built-in kind and the stored one, without waiting for anything: conversion webhooks
/// convert to and from the stored bytes, by [`StoredCodec`](crate::StoredCodec).
pub trait Convert: Send + Sync + 'static {
    /// An object of this version in the stored one.
    fn to_storage(&self, object: Value) -> Result<Value, String>;
    /// A stored object in this version.
    fn from_storage(&self, object: Value) -> Result<Value, String>;
}

impl Catalog {
    /// A catalog without resources.
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// A catalog without resources, for tests and for writes that look at no other kind.
    pub fn empty() -> &'static Catalog {
        static EMPTY: LazyLock<Catalog> = LazyLock::new(Catalog::default);
        &EMPTY
    }

    /// This catalog with some resources removed and others added or replaced. A snapshot never changes.
    pub fn changed(&self, put: &[Arc<Resource>], removed: &[GroupVersionResource]) -> Catalog {
        let mut catalog = self.clone();
        removed.iter().for_each(|resource| catalog.remove(resource));
        put.iter().for_each(|resource| catalog.put(resource.clone()));
        catalog
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: Resource) {
        self.put(Arc::new(resource));
    }

    /// Serves a built-in resource in another version that the table has the kind of, stored where the first one is.
    pub fn add_version(&mut self, known: &GroupVersionResource, version: &str, conversion: Arc<dyn Convert>) {
        let Some(known) = self.get(&known.group, &known.version, &known.resource).cloned() else { return };
        let kind = GroupVersionKind::new(known.kind.group.clone(), version, known.kind.kind.clone());
        let Some(form) = Form::builtin(&kind) else { return };
        let mut subresources = known.subresources.clone();
        for subresource in subresources.iter_mut().filter(|subresource| subresource.kind == known.kind) {
            subresource.kind = kind.clone();
            subresource.form = Some(form.clone());
        }
        self.insert(Resource {
            id: Resource::next_id(),
            resource: kind.group_version().with_resource(&known.resource.resource),
            list_kind: known.list_kind.clone(),
            singular: known.singular.clone(),
            namespaced: known.namespaced,
            verbs: known.verbs.clone(),
            short_names: known.short_names.clone(),
            categories: known.categories.clone(),
            storage_version_hash: known.storage_version_hash.clone(),
            form,
            subresources,
            columns: known.columns.clone(),
            storage: known.storage.clone(),
            report: None,
            action: None,
            deprecation: crate::builtin::deprecation(&kind),
            conversion: Some(conversion),
            definition: None,
            withdrawn: Withdrawn::default(),
            kind,
        });
    }

    fn put(&mut self, resource: Arc<Resource>) {
        let version = resource.resource.group_version();
        if !self.resources.contains_key(&version) {
            Arc::make_mut(&mut self.versions).push(version.clone());
        }
        Arc::make_mut(self.resources.entry(version).or_default()).put(resource);
    }

    /// Removes a resource, and its group-version if it was the last one there.
    pub fn remove(&mut self, resource: &GroupVersionResource) {
        let version = resource.group_version();
        let Some(listing) = self.resources.get_mut(&version).map(Arc::make_mut) else { return };
        listing.remove(&resource.resource);
        if listing.resources.is_empty() {
            self.resources.remove(&version);
            Arc::make_mut(&mut self.versions).retain(|known| *known != version);
        }
    }

    /// The entries of a resource in all its versions. For a catalog that is not in use yet.
    fn entries_mut(&mut self, group: &str, resource: &str) -> impl Iterator<Item = &mut Resource> {
        let versions = self.resources.values_mut().map(Arc::make_mut);
        let named = move |r: &&mut Resource| r.resource.group == group && r.resource.resource == resource;
        versions.flat_map(|listing| listing.resources.iter_mut()).filter_map(Arc::get_mut).filter(named)
    }

    /// Says what a POST to a resource or subresource does, in every version. For a catalog that is not in use yet.
    pub fn set_action(&mut self, group: &str, resource: &str, subresource: &str, action: &Arc<dyn Action>) {
        for found in self.entries_mut(group, resource) {
            if subresource.is_empty() {
                found.action = Some(action.clone());
            }
            for part in found.subresources.iter_mut().filter(|part| part.name == subresource) {
                part.action = Some(action.clone());
            }
        }
    }

    /// Says where connections to a subresource go, in every version. For a catalog that is not in use yet.
    pub fn set_connect(&mut self, group: &str, resource: &str, subresource: &str, connect: &Arc<dyn Connect>) {
        for found in self.entries_mut(group, resource) {
            for part in found.subresources.iter_mut().filter(|part| part.name == subresource) {
                part.connect = Some(connect.clone());
            }
        }
    }

    /// Says what reads of a resource show that is not stored. For a catalog that is not in use yet.
    pub fn set_report(&mut self, group: &str, resource: &str, report: &Arc<dyn Report>) {
        self.entries_mut(group, resource).for_each(|found| found.report = Some(report.clone()));
    }

    /// Replaces the store that a resource writes to, in every version. For a catalog that is not in use yet.
    pub fn wrap_store(
        &mut self,
        group: &str,
        resource: &str,
        wrap: &dyn Fn(Arc<dyn storage::Store>) -> Arc<dyn storage::Store>,
    ) {
        for found in self.entries_mut(group, resource) {
            if let Some(storage) = &found.storage {
                let store = wrap(storage.store.clone());
                found.storage = Some(Arc::new(ResourceStorage { store, ..(**storage).clone() }));
            }
        }
    }

    /// The resource with this name, if it is served.
    pub fn get(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&NamedVersion(group, version))?.get(resource)
    }

    /// Says that there is a history of all stored objects, which is read as this subresource of theirs.
    pub fn keep_history(&mut self, part: Subresource) {
        self.history = Some(Arc::new(part));
    }

    /// The parts of a resource that have paths of their own, as discovery lists them.
    pub fn parts<'a>(&'a self, resource: &'a Resource) -> impl Iterator<Item = &'a Subresource> {
        let history = self.history.as_deref().filter(|_| resource.storage.is_some());
        resource.subresources.iter().chain(history)
    }

    /// Group-versions in the order they were added.
    pub fn versions(&self) -> &[GroupVersion] {
        &self.versions
    }

    /// The resources of a group-version, sorted by name.
    pub fn of(&self, version: &GroupVersion) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.get(version).into_iter().flat_map(|listing| listing.resources.iter())
    }

    /// The resources that discovery lists for a group-version: custom ones only where none is built in.
    pub fn listed(&self, version: &GroupVersion) -> impl Iterator<Item = &Arc<Resource>> {
        let has_builtin = self.has_builtin(version);
        self.of(version).filter(move |resource| !(has_builtin && resource.is_custom()))
    }

    /// Whether a group-version has built-in resources, which definitions cannot add to.
    pub fn has_builtin(&self, version: &GroupVersion) -> bool {
        self.resources.get(version).is_some_and(|listing| listing.builtin > 0)
    }

    /// Whether a group has built-in resources, in any version.
    pub fn has_builtin_group(&self, group: &str) -> bool {
        self.versions.iter().any(|version| version.group == group && self.has_builtin(version))
    }

    /// The resource whose objects are of this kind.
    pub fn by_kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.of(&kind.group_version()).find(|resource| resource.kind == *kind)
    }

    /// All resources.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.iter().flat_map(|version| self.of(version))
    }

    /// Any version of a resource that is stored: for lookups that do not care which.
    pub fn stored(&self, group: &str, resource: &str) -> Option<&Arc<ResourceStorage>> {
        let versions = self.versions.iter().filter(|version| version.group == group);
        versions.filter_map(|version| self.get(group, &version.version, resource)).find_map(|r| r.storage.as_ref())
    }

    /// The same for readers that cannot wait, who do without objects that a webhook converts.
    pub fn direct(&self, group: &str, resource: &str) -> Option<DirectStorage> {
        self.stored(group, resource)?.direct()
    }
}

impl Listing {
    fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.place_of(name).ok().map(|at| &self.resources[at])
    }

    fn put(&mut self, resource: Arc<Resource>) {
        self.remove(&resource.resource.resource);
        self.builtin += usize::from(!resource.is_custom());
        let (Ok(at) | Err(at)) = self.place_of(&resource.resource.resource);
        self.resources.insert(at, resource);
    }

    fn remove(&mut self, name: &str) {
        if let Ok(at) = self.place_of(name) {
            self.builtin -= usize::from(!self.resources.remove(at).is_custom());
        }
    }

    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.resources.binary_search_by(|known| known.resource.resource.as_str().cmp(name))
    }
}

/// A borrowed group-version, so that looking up a resource, which every request does, does not allocate.
#[derive(Hash)]
struct NamedVersion<'a>(&'a str, &'a str);

impl hashbrown::Equivalent<GroupVersion> for NamedVersion<'_> {
    fn equivalent(&self, key: &GroupVersion) -> bool {
        (self.0, self.1) == (key.group.as_str(), key.version.as_str())
    }
}

impl Resource {
    /// An id that no other resource of this process has.
    pub fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// A resource with a kind and a form and nothing else.
    pub fn unstored(resource: GroupVersionResource, kind: GroupVersionKind, namespaced: bool, form: Form) -> Resource {
        Resource {
            id: Resource::next_id(),
            resource,
            kind,
            list_kind: Str::default(),
            singular: Str::default(),
            namespaced,
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: Str::default(),
            form,
            subresources: Vec::new(),
            columns: Vec::new(),
            storage: None,
            report: None,
            action: None,
            deprecation: None,
            conversion: None,
            definition: None,
            withdrawn: Withdrawn::default(),
        }
    }

    /// Whether a CustomResourceDefinition defines the resource. Upstream serves those by another router, converts them by
    /// webhooks and withdraws them while it runs; how their objects look is the [`Form`]'s business.
    pub fn is_custom(&self) -> bool {
        self.definition.is_some()
    }

    /// The subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the resource has a verb.
    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// The rules of the resource's kind; None where the resource has no objects.
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
