//! The names of definitions: those they ask for, those they have, and which of a group's names are taken.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use object::{Str, Value};

use crate::definition::Definition;

/// `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: Str,
    pub singular: Str,
    pub kind: Str,
    pub list_kind: Str,
    pub short_names: Vec<Str>,
    pub categories: Vec<Str>,
}

impl Names {
    pub fn read(names: &Value) -> Names {
        let text = |field: &str| Str::from(names.str_at(&[field]));
        let list = |field: &str| names.list_at(&[field]).iter().filter_map(Value::as_str).map(Str::from).collect();
        Names {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }

    pub fn write(&self) -> Value {
        let mut names = object::value!({"plural": (self.plural.clone()), "kind": (self.kind.clone())});
        for (field, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                names.set(&[field], text.clone());
            }
        }
        for (field, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                names.set(&[field], list.clone());
            }
        }
        names
    }

    /// Plural, singular and short names, of which a group has each once.
    fn of_resource(&self) -> impl Iterator<Item = &Str> {
        [&self.plural, &self.singular].into_iter().chain(&self.short_names).filter(|name| !name.is_empty())
    }

    /// Kind and list kind, of which a group has each once.
    fn of_kind(&self) -> impl Iterator<Item = &Str> {
        [&self.kind, &self.list_kind].into_iter().filter(|name| !name.is_empty())
    }

    /// Whether other names are the same; categories need not be.
    fn are(&self, other: &Names) -> bool {
        self.plural == other.plural
            && self.singular == other.singular
            && self.kind == other.kind
            && self.list_kind == other.list_kind
            && self.short_names == other.short_names
    }
}

/// The names that the definitions of each group have.
#[derive(Default)]
pub struct Groups(HashMap<Str, Group>);

#[derive(Default)]
struct Group {
    /// Plural, singular and short names, with the definitions that have them.
    resources: HashMap<Str, Vec<Str>>,
    /// Kinds and list kinds.
    kinds: HashMap<Str, Vec<Str>>,
    /// Definitions that do not have all the names they ask for. In order, so that all servers give a free name to the same one.
    waiting: BTreeSet<Str>,
}

impl Groups {
    /// Notes the names that a definition has. What it had before is to be removed first.
    pub fn add(&mut self, definition: &Definition) {
        let group = self.0.entry(definition.group.clone()).or_default();
        let owner = &definition.name;
        let note = |names: &mut HashMap<Str, Vec<Str>>, name: &Str| {
            names.entry(name.clone()).or_default().push(owner.clone());
        };
        definition.accepted.of_resource().for_each(|name| note(&mut group.resources, name));
        definition.accepted.of_kind().for_each(|name| note(&mut group.kinds, name));
        if !definition.requested.are(&definition.accepted) {
            group.waiting.insert(owner.clone());
        }
    }

    pub fn remove(&mut self, definition: &Definition) {
        let Some(group) = self.0.get_mut(&definition.group) else { return };
        let release = |names: &mut HashMap<Str, Vec<Str>>, name: &Str| {
            if let Some(owners) = names.get_mut(name) {
                owners.retain(|owner| *owner != definition.name);
                if owners.is_empty() {
                    names.remove(name);
                }
            }
        };
        definition.accepted.of_resource().for_each(|name| release(&mut group.resources, name));
        definition.accepted.of_kind().for_each(|name| release(&mut group.kinds, name));
        group.waiting.remove(&definition.name);
        if group.resources.is_empty() && group.kinds.is_empty() && group.waiting.is_empty() {
            self.0.remove(&definition.group);
        }
    }

    /// The names that a definition cannot have.
    pub fn taken<'g>(&'g self, definition: &'g Definition) -> Taken<'g> {
        Taken { group: self.0.get(&definition.group), owner: &definition.name }
    }

    /// Definitions of a group that do not have all the names they ask for.
    pub fn waiting(&self, group: &str) -> impl Iterator<Item = &Str> {
        self.0.get(group).into_iter().flat_map(|group| &group.waiting)
    }
}

/// Names that other definitions of the same group have.
pub struct Taken<'g> {
    group: Option<&'g Group>,
    owner: &'g Str,
}

impl Taken<'_> {
    /// Whether another definition has a plural, singular or short name.
    pub fn resource(&self, name: &Str) -> bool {
        self.is_taken(self.group.and_then(|group| group.resources.get(name)))
    }

    /// Whether another definition has a kind or list kind.
    pub fn kind(&self, name: &Str) -> bool {
        self.is_taken(self.group.and_then(|group| group.kinds.get(name)))
    }

    fn is_taken(&self, owners: Option<&Vec<Str>>) -> bool {
        owners.is_some_and(|owners| owners.iter().any(|owner| owner != self.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, plural: &str, has: &str) -> Definition {
        let names = |plural: &str| Names { plural: plural.into(), short_names: vec!["s".into()], ..Names::default() };
        let (requested, accepted) = (names(plural), if has.is_empty() { Names::default() } else { names(has) });
        Definition { name: name.into(), group: "g".into(), requested, accepted, ..Definition::default() }
    }

    #[test]
    fn a_name_is_taken_until_the_last_other_definition_releases_it() {
        let [one, two] = [("a.g", "as"), ("b.g", "bs")].map(|(name, plural)| definition(name, plural, plural));
        let third = definition("c.g", "as", "");
        let mut groups = Groups::default();
        let check = |groups: &Groups, taken: [bool; 3]| {
            let found = ["as", "bs", "s"].map(|name| groups.taken(&third).resource(&name.into()));
            assert_eq!(found, taken);
        };
        check(&groups, [false; 3]);
        [&one, &two, &third].iter().for_each(|definition| groups.add(definition));
        check(&groups, [true; 3]);
        assert!(!groups.taken(&one).resource(&"as".into()), "a definition does not take its own names");
        assert_eq!(groups.waiting("g").collect::<Vec<_>>(), ["c.g"]);
        groups.remove(&one);
        check(&groups, [false, true, true]);
        groups.remove(&two);
        check(&groups, [false; 3]);
        groups.remove(&third);
        assert!(groups.0.is_empty(), "a group without definitions is forgotten");
    }
}
