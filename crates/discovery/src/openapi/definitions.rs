//! Which definitions a document needs: those its operations mention, and all that they are made of.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use object::{GroupVersion, GroupVersionKind, Str};
use registry::Resource;
use schema::{Node, Shape, Struct, StructId, Types, builtin};

use super::names;
use super::routes::{Route, Type};

/// Definitions by name.
pub type DefinitionMap<'a> = BTreeMap<Str, Definition<'a>>;

/// Where a definition comes from.
#[derive(Clone, Copy)]
pub enum Definition<'a> {
    /// A named struct.
    Struct(&'a Types, StructId),
    /// One of the few types that are no structs and still have a name, such as quantities.
    Special,
    /// A kind without a named struct, as custom resources are.
    Custom(&'a Resource),
    /// A list of those.
    CustomList(&'a Resource),
}

pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Everything that the operations need; `resources` are what they are about.
pub fn collect<'a>(routes: &[Route], resources: &'a [Arc<Resource>]) -> DefinitionMap<'a> {
    let own: HashMap<Str, Definition<'a>> = resources.iter().flat_map(|resource| own_definitions(resource)).collect();
    let mut found = DefinitionMap::new();
    let mut open: Vec<(Str, Definition<'a>)> = Vec::new();
    for name in routes.iter().flat_map(mentioned) {
        let known = own.get(&name).copied();
        let definition =
            known.or_else(|| builtin().types().find(&name).map(|id| Definition::Struct(builtin().types(), id)));
        open.push((name, definition.unwrap_or(Definition::Special)));
    }
    while let Some((name, definition)) = open.pop() {
        if found.insert(name, definition).is_some() {
            continue;
        }
        match definition {
            Definition::Struct(types, id) => {
                let owner = types.get(id);
                owner.fields.iter().for_each(|field| parts(types, owner, &field.node, &mut open));
            }
            Definition::Special => {}
            Definition::Custom(_) => open.extend(builtin_definition(OBJECT_META)),
            Definition::CustomList(_) => open.extend(builtin_definition(LIST_META)),
        }
    }
    found
}

fn mentioned(route: &Route) -> Vec<Str> {
    let types = route.responses.iter().map(|(_, of)| of).chain(route.body.as_ref().map(|body| &body.of));
    types
        .filter_map(|of| match of {
            Type::Text => None,
            Type::Definition(name) => Some(name.clone()),
        })
        .collect()
}

fn builtin_definition(name: &'static str) -> Option<(Str, Definition<'static>)> {
    let id = builtin().types().find(name)?;
    Some((name.into(), Definition::Struct(builtin().types(), id)))
}

/// The definitions of a resource's own kind and of lists of it.
fn own_definitions(resource: &Resource) -> Vec<(Str, Definition<'_>)> {
    let kind = match named_struct(resource) {
        Some(id) => Definition::Struct(resource.form.schema().types, id),
        None => Definition::Custom(resource),
    };
    let mut own = vec![(name_of(resource, &resource.kind), kind)];
    if builtin_list(resource).is_none() {
        own.push((list_name_of(resource), Definition::CustomList(resource)));
    }
    own
}

/// The struct of a built-in kind. Custom ones have structs too, but none that has a name.
fn named_struct(resource: &Resource) -> Option<StructId> {
    if resource.is_custom() {
        return None;
    }
    let schema = resource.form.schema();
    match schema.node.shape {
        Shape::Struct(id) if !schema.types.get(id).name.is_empty() => Some(id),
        _ => None,
    }
}

fn builtin_list(resource: &Resource) -> Option<&'static Struct> {
    let kind = builtin().kind(&resource.kind.group, &resource.kind.version, &resource.list_kind)?;
    (!resource.is_custom()).then(|| builtin().types().get(kind.id))
}

/// The definition of what a resource or a part of it is sent as.
pub fn name_of(resource: &Resource, kind: &GroupVersionKind) -> Str {
    if *kind == resource.kind {
        return match named_struct(resource) {
            Some(id) => resource.form.schema().types.get(id).name.clone(),
            None => names::custom_definition(&kind.group, &kind.version, &kind.kind).into(),
        };
    }
    match builtin().kind(&kind.group, &kind.version, &kind.kind) {
        Some(known) => builtin().types().get(known.id).name.clone(),
        None => names::custom_definition(&kind.group, &kind.version, &kind.kind).into(),
    }
}

/// The definition of a list of a resource's objects.
pub fn list_name_of(resource: &Resource) -> Str {
    match builtin_list(resource) {
        Some(list) => list.name.clone(),
        None => names::custom_definition(&resource.kind.group, &resource.kind.version, &list_kind(resource)).into(),
    }
}

pub fn list_kind(resource: &Resource) -> Str {
    match resource.list_kind.as_str() {
        "" => format!("{}List", resource.kind.kind).into(),
        _ => resource.list_kind.clone(),
    }
}

/// The definitions that a field is made of.
fn parts<'a>(types: &'a Types, owner: &Struct, node: &Node, out: &mut Vec<(Str, Definition<'a>)>) {
    match &node.shape {
        Shape::List(inner) | Shape::Map(inner) => parts(types, owner, inner, out),
        Shape::Struct(id) => {
            out.extend(reference(types, owner, node).map(|name| (name, Definition::Struct(types, *id))));
        }
        _ => out.extend(reference(types, owner, node).map(|name| (name, Definition::Special))),
    }
}

/// The name of the definition that a node refers to, if it is not written where it stands.
pub fn reference(types: &Types, owner: &Struct, node: &Node) -> Option<Str> {
    match &node.shape {
        Shape::Struct(id) => Some(types.get(*id).name.clone()).filter(|name| !name.is_empty()),
        Shape::Quantity => Some("io.k8s.apimachinery.pkg.api.resource.Quantity".into()),
        Shape::IntOrString => Some("io.k8s.apimachinery.pkg.util.intstr.IntOrString".into()),
        Shape::Time => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time".into()),
        Shape::MicroTime => Some("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime".into()),
        Shape::Duration => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Duration".into()),
        Shape::RawExtension => Some("io.k8s.apimachinery.pkg.runtime.RawExtension".into()),
        // Go's name of the type has its package in short; it is the package of the struct that has the field.
        Shape::Any | Shape::Fields | Shape::StructOrList(_) | Shape::StructOrBool(_) | Shape::StructOrStrings(_) => {
            let (_, name) = node.go_type.as_ref()?.split_once('.')?;
            let (package, _) = owner.name.rsplit_once('.')?;
            Some(format!("{package}.{name}").into())
        }
        _ => None,
    }
}

/// For whom a document lists the kinds that exist in every group-version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All group-versions there are.
    Everybody,
    /// One group-version and core.
    Version(GroupVersion),
    /// Custom resources, whose documents know the group-versions that clients know.
    Custom,
}

/// Group-versions that are read from files or answered, and never registered with the API.
const UNREGISTERED: [&str; 6] = [
    "apidiscovery.k8s.io",
    "apiserver.config.k8s.io",
    "apiserver.k8s.io",
    "audit.k8s.io",
    "meta.k8s.io",
    "pod-security.admission.config.k8s.io",
];

/// Group-versions that are registered with servers and not with clients.
const SERVER_ONLY: [&str; 4] =
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// The kinds that a named struct is known as, sorted.
pub fn kinds_of(name: &str, audience: &Audience) -> Vec<GroupVersionKind> {
    let kinds = kinds_by_struct();
    let own = kinds.get(name).cloned().unwrap_or_default();
    let (Some(everywhere), [_]) = (everywhere(name), own.as_slice()) else { return own };
    let core = GroupVersion::new("", "v1");
    let listed = |version: &&GroupVersion| match audience {
        Audience::Everybody => true,
        Audience::Version(own) => **version == core || *version == own,
        Audience::Custom => !SERVER_ONLY.contains(&version.group.as_str()),
    };
    registered_versions().iter().filter(listed).map(|version| version.with_kind(everywhere)).collect()
}

/// The kinds that every group-version has and that are definitions.
fn everywhere(name: &str) -> Option<&'static str> {
    let kind = name.strip_prefix("io.k8s.apimachinery.pkg.apis.meta.v1.")?;
    ["DeleteOptions", "WatchEvent"].into_iter().find(|known| *known == kind)
}

fn kinds_by_struct() -> &'static HashMap<Str, Vec<GroupVersionKind>> {
    static KINDS: OnceLock<HashMap<Str, Vec<GroupVersionKind>>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let mut kinds: HashMap<Str, Vec<GroupVersionKind>> = HashMap::new();
        for kind in builtin().kinds() {
            kinds.entry(builtin().types().get(kind.id).name.clone()).or_default().push(kind.name.clone());
        }
        kinds.values_mut().for_each(|kinds| kinds.sort_by(|a, b| key(a).cmp(&key(b))));
        kinds
    })
}

fn key(kind: &GroupVersionKind) -> (&str, &str, &str) {
    (&kind.group, &kind.version, &kind.kind)
}

fn registered_versions() -> &'static [GroupVersion] {
    static VERSIONS: OnceLock<Vec<GroupVersion>> = OnceLock::new();
    VERSIONS.get_or_init(|| {
        let all = builtin().kinds().map(|kind| kind.name.group_version());
        let mut versions: Vec<GroupVersion> =
            all.filter(|version| !UNREGISTERED.contains(&version.group.as_str())).collect();
        versions.sort_by(|a, b| (&a.group, &a.version).cmp(&(&b.group, &b.version)));
        versions.dedup();
        versions
    })
}
