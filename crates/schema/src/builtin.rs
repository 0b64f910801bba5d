//! Everything that Kubernetes v1.37 has built in: types, kinds, and the resources it serves.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use hashbrown::{Equivalent, HashMap};
use object::{GroupVersionKind, GroupVersionResource, Str};

use crate::table;
use crate::types::{Node, Schema, Shape, StructId, Types};

const TABLE: &str = include_str!("../data/v1.37.table");

/// The built-in types and resources, parsed when first asked for.
pub fn builtin() -> &'static Builtin {
    static PARSED: OnceLock<Builtin> = OnceLock::new();
    PARSED.get_or_init(|| {
        Builtin::parse(TABLE).expect("the checked-in table is what the generator wrote, and a test reads it")
    })
}

/// The table of built-in types, kinds and resources.
#[derive(Debug)]
pub struct Builtin {
    types: Arc<Types>,
    kinds: HashMap<GroupVersionKind, Kind>,
    groups: Vec<Group>,
    /// Where a resource is in `groups`: group, version and resource.
    resources: HashMap<GroupVersionResource, (usize, usize, usize)>,
}

/// A kind: something that has an apiVersion and a kind of its own.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Its group, version and name.
    pub name: GroupVersionKind,
    /// The struct of its objects.
    pub id: StructId,
    /// The node to walk objects of this kind with.
    pub node: Node,
    /// The kind of a list of these, where there is one.
    pub list: Option<Str>,
}

/// An API group with its versions, the preferred one first.
#[derive(Debug, Default, Clone)]
pub struct Group {
    /// "" for core.
    pub name: Str,
    /// The versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// A version of an API group.
#[derive(Debug, Default, Clone)]
pub struct Version {
    /// Its name, such as `v1`.
    pub name: Str,
    /// Served without having been asked for.
    pub enabled: bool,
    /// The resources that it has.
    pub resources: Vec<Resource>,
}

/// A resource as discovery tells of it.
#[derive(Debug, Default, Clone)]
pub struct Resource {
    /// Its group, version and name.
    pub name: GroupVersionResource,
    /// The name of one object, as kubectl takes it.
    pub singular: Str,
    /// The kind of its objects, in its own group and version.
    pub kind: GroupVersionKind,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that discovery lists.
    pub verbs: Vec<Str>,
    /// Names that kubectl takes too.
    pub short_names: Vec<Str>,
    /// Groups of resources that kubectl lists together, such as `all`.
    pub categories: Vec<Str>,
    /// "" for resources that are not kept.
    pub storage_version_hash: Str,
    /// What the store holds: the same kind in its storage version, now and then of another group. None for resources that
    /// are not kept, such as bindings and reviews.
    pub stored: Option<GroupVersionKind>,
    /// Its version is on by default.
    pub enabled: bool,
    /// The parts of an object that have paths of their own.
    pub subresources: Vec<Subresource>,
    /// The columns of its table, without descriptions; none where it cannot be listed.
    pub columns: Vec<Column>,
}

/// A subresource as discovery tells of it.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// Its name, such as `status`.
    pub name: Str,
    /// The verbs that discovery lists.
    pub verbs: Vec<Str>,
    /// The kind it takes and gives: `autoscaling/v1 Scale` for `scale`.
    pub kind: GroupVersionKind,
}

/// A column of a Table.
#[derive(Debug, Clone)]
pub struct Column {
    /// The head of the column.
    pub name: Str,
    /// An OpenAPI type: `string`, `integer`, `date` …
    pub kind: Str,
    /// The format of its cells, such as `name`.
    pub format: Str,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

/// Kinds of the meta group that are registered in every group version, so that `apps/v1 DeleteOptions` is one too.
const EVERYWHERE: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];

impl Builtin {
    fn parse(text: &str) -> Result<Builtin, String> {
        let table = table::parse(text)?;
        let mut kinds: HashMap<GroupVersionKind, Kind> = HashMap::with_capacity(table.kinds.len());
        for (name, id) in table.kinds {
            let node = Node { shape: Shape::Struct(id), ..Node::default() };
            kinds.insert(name.clone(), Kind { name, id, node, list: None });
        }
        let lists: Vec<GroupVersionKind> = kinds.keys().filter(|name| name.kind.ends_with("List")).cloned().collect();
        for list in lists {
            let item = list.kind.strip_suffix("List").unwrap_or("");
            if let Some(kind) = kinds.get_mut(&Key(&list.group, &list.version, item)) {
                kind.list = Some(list.kind);
            }
        }
        let mut resources = HashMap::new();
        for (g, group) in table.groups.iter().enumerate() {
            for (v, version) in group.versions.iter().enumerate() {
                for (r, resource) in version.resources.iter().enumerate() {
                    resources.insert(resource.name.clone(), (g, v, r));
                }
            }
        }
        Ok(Builtin { types: Arc::new(table.types), kinds, groups: table.groups, resources })
    }

    /// The types that kinds are made of.
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// The kind of that name.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        let found = self.kinds.get(&Key(group, version, kind));
        if found.is_some() || !EVERYWHERE.contains(&kind) || !self.has_version(group, version) {
            return found;
        }
        self.kinds.get(&Key("", "v1", kind))
    }

    /// The schema of the kind of that name.
    pub fn schema(&self, kind: &GroupVersionKind) -> Option<Schema<'_>> {
        let kind = self.kind(&kind.group, &kind.version, &kind.kind)?;
        Some(Schema::new(&self.types, &kind.node))
    }

    /// All kinds, in no order.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }

    /// Groups in the order of discovery.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Resources in the order of discovery.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }

    /// The resource with this name, if there is one.
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Resource> {
        let &(g, v, r) = self.resources.get(&Key(group, version, resource))?;
        Some(&self.groups[g].versions[v].resources[r])
    }

    fn has_version(&self, group: &str, version: &str) -> bool {
        self.groups.iter().any(|g| g.name == group && g.versions.iter().any(|v| v.name == version))
    }
}

/// Looks names up without making one.
struct Key<'a>(&'a str, &'a str, &'a str);

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
        self.2.hash(state);
    }
}

impl Equivalent<GroupVersionKind> for Key<'_> {
    fn equivalent(&self, key: &GroupVersionKind) -> bool {
        (self.0, self.1, self.2) == (key.group.as_str(), key.version.as_str(), key.kind.as_str())
    }
}

impl Equivalent<GroupVersionResource> for Key<'_> {
    fn equivalent(&self, key: &GroupVersionResource) -> bool {
        (self.0, self.1, self.2) == (key.group.as_str(), key.version.as_str(), key.resource.as_str())
    }
}

/// The schema of the metadata of every object.
pub fn object_meta() -> Option<Schema<'static>> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    let types = builtin().types();
    let node = NODE.get_or_init(|| {
        let id = types.find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
        Some(Node { shape: Shape::Struct(id), ..Node::default() })
    });
    node.as_ref().map(|node| Schema::new(types, node))
}

#[cfg(test)]
mod tests;
