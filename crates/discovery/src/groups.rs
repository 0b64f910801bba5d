//! The served groups and their versions, in the order that clients are to prefer them in.
//!
//! Built-in groups come as the table lists them. Custom ones follow by name, and their versions by how mature and how
//! recent they are: the priorities that upstream gives to the APIServices it makes for both.

use object::{GroupVersion, Str, compare_versions};
use registry::Catalog;

/// A group with its versions, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: Str,
    pub versions: Vec<GroupVersion>,
}

/// All groups but core, as the aggregated documents list them: equal ones by name.
pub fn by_name(catalog: &Catalog) -> Vec<Group> {
    let mut groups = collect(catalog);
    groups.sort_by(|a, b| rank(&a.name).cmp(&rank(&b.name)).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// All groups but core, as `/apis` lists them: equal ones by the name of the first APIService, which is the version
/// followed by the group.
pub fn by_service(catalog: &Catalog) -> Vec<Group> {
    let mut groups = collect(catalog);
    let service = |group: &Group| group.versions.iter().map(|v| format!("{}.{}", v.version, v.group)).min();
    groups.sort_by(|a, b| rank(&a.name).cmp(&rank(&b.name)).then_with(|| service(a).cmp(&service(b))));
    groups
}

/// One group.
pub fn find(catalog: &Catalog, name: &str) -> Option<Group> {
    collect(catalog).into_iter().find(|group| group.name == name)
}

fn collect(catalog: &Catalog) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for version in catalog.versions().iter().filter(|version| !version.group.is_empty()) {
        match groups.iter_mut().find(|group| group.name == version.group) {
            Some(group) => group.versions.push(version.clone()),
            None => groups.push(Group { name: version.group.clone(), versions: vec![version.clone()] }),
        }
    }
    for group in &mut groups {
        let name = group.name.clone();
        group.versions.sort_by(|a, b| {
            let places = (version_rank(&name, &a.version), version_rank(&name, &b.version));
            places.0.cmp(&places.1).then_with(|| compare_versions(&b.version, &a.version))
        });
    }
    groups
}

/// The place of a group among the built-in ones; all others are behind.
fn rank(group: &str) -> usize {
    schema::builtin().groups().iter().position(|known| known.name == group).unwrap_or(usize::MAX)
}

/// The place of a version in its group: a custom version of a built-in group has the higher priority.
fn version_rank(group: &str, version: &str) -> usize {
    let group = schema::builtin().groups().iter().find(|known| known.name == group);
    let place = group.and_then(|group| group.versions.iter().position(|known| known.name == version));
    place.map_or(0, |place| place + 1)
}
