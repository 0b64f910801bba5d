//! The rules of ownership: what a change takes from whom, and what an apply leaves of an object.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use object::{Meta, Str, Value};
use schema::Schema;

use super::conflict::Conflict;
use super::managed::{Id, Owned, Owners};
use super::{Kind, Resets};
use crate::fieldset::same;
use crate::typed::{
    Comparison, Duplicates, Type, compare, ensure_named_fields, field_set, merge, reconcile, remove_items, tracked,
    validate,
};
use crate::{Error, FieldSet, PathElement};

pub(super) struct Updater<'a> {
    pub kind: &'a dyn Kind,
    pub resets: &'a Resets,
}

/// An object with its version and type.
#[derive(Clone)]
pub(super) struct Typed<'a> {
    pub value: Value,
    pub version: Str,
    pub of: Type<'a>,
}

impl<'a> Typed<'a> {
    pub fn new(object: &Value, version: &str, schema: Schema<'a>, is_structured: bool) -> Typed<'a> {
        let value = if is_structured { tracked(object, schema) } else { object.clone() };
        Typed { value, version: version.into(), of: Type::of(schema) }
    }

    fn with(&self, value: Value) -> Typed<'a> {
        Typed { value, ..self.clone_type() }
    }

    fn clone_type(&self) -> Typed<'a> {
        Typed { value: Value::Null, version: self.version.clone(), of: self.of }
    }

    fn fields(&self) -> FieldSet {
        field_set(&self.value, self.of)
    }

    fn named(&self, set: &FieldSet) -> FieldSet {
        ensure_named_fields(set, Some(self.of))
    }

    fn without(&self, set: &FieldSet) -> Typed<'a> {
        self.with(remove_items(&self.value, set, self.of))
    }
}

impl<'a> Updater<'a> {
    /// Who owns what after an object was changed by `manager`, who takes over all that changed.
    pub async fn update(
        &self,
        live: &Typed<'a>,
        new: &Typed<'a>,
        owners: Owners,
        manager: &Id,
    ) -> Result<Owners, String> {
        let owners = self.reconcile(live, owners).await?;
        let taken = self.take_over(live, new, owners, manager, true).await;
        let (mut owners, changes) = taken.map_err(|error| error.to_string())?;
        let mut had = owners.remove(manager).map(|owned| owned.set).unwrap_or_default();
        had.subtract(&changes.removed);
        let set = had.joined(changes.modified).joined(changes.added);
        let set = self.resets.filter(set);
        if !set.is_empty() {
            owners.insert(manager.clone(), Owned { set, version: new.version.clone(), applied: false });
        }
        Ok(owners)
    }

    /// The object after a configuration was applied by `manager`, None if it is the same, and who owns what then.
    pub async fn merge(
        &self,
        live: &Typed<'a>,
        config: &Typed<'a>,
        owners: Owners,
        manager: &Id,
        force: bool,
    ) -> Result<(Option<Value>, Owners), Error> {
        let mut owners = self.reconcile(live, owners).await?;
        let merged =
            merge(&live.value, &config.value, live.of).map_err(|why| format!("failed to merge config: {why}"))?;
        let merged = live.with(merged);
        let set = self.resets.filter(config.fields());
        let last = owners.insert(manager.clone(), Owned { set, version: config.version.clone(), applied: true });
        let new = self
            .prune(merged, &owners, &config.version, last.as_ref())
            .await
            .map_err(|why| format!("failed to prune fields: {why}"))?;
        let (owners, _) = self.take_over(live, &new, owners, manager, force).await?;
        let changed = !same(&live.value, &new.value);
        Ok((changed.then_some(new.value), owners))
    }

    /// Takes what changed from all managers but `manager`, or refuses to if that needs force and there is none.
    async fn take_over(
        &self,
        old: &Typed<'a>,
        new: &Typed<'a>,
        mut owners: Owners,
        manager: &Id,
        force: bool,
    ) -> Result<(Owners, Comparison), Error> {
        let changes = self.changes(old, new)?;
        // What changed and what went, by version; None for versions that are gone.
        let mut by_version: BTreeMap<Str, Option<(FieldSet, FieldSet)>> = BTreeMap::new();
        let split = |changes: &Comparison| (changes.modified.union(&changes.added), changes.removed.clone());
        let mut lost: Vec<(Id, FieldSet)> = Vec::new(); // What changed of what others own.
        let mut conflicts = Vec::new();
        let mut obsolete = Vec::new();
        for (id, owned) in owners.iter().filter(|(id, _)| *id != manager) {
            if !by_version.contains_key(&owned.version) {
                let changed = match owned.version == new.version {
                    true => Some(split(&changes)),
                    false => self.changes_at(old, new, &owned.version).await?.as_ref().map(split),
                };
                by_version.insert(owned.version.clone(), changed);
            }
            let Some(Some((changed, removed))) = by_version.get(&owned.version) else {
                obsolete.push(id.clone());
                continue;
            };
            let contested = owned.set.intersection(changed);
            contested.each(&mut |path| conflicts.push(Conflict { owner: id.clone(), path: path.to_vec() }));
            lost.push((id.clone(), contested.joined(owned.set.intersection(removed))));
        }
        if !force && !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
        obsolete.iter().for_each(|id| {
            owners.remove(id);
        });
        for (id, lost) in lost {
            if let Some(owned) = owners.get_mut(&id) {
                owned.set.subtract(&lost);
            }
        }
        owners.retain(|_, owned| !owned.set.is_empty());
        Ok((owners, changes))
    }

    fn changes(&self, old: &Typed<'a>, new: &Typed<'a>) -> Result<Comparison, String> {
        let found =
            compare(&old.value, &new.value, new.of).map_err(|why| format!("failed to compare objects: {why}"))?;
        Ok(Comparison {
            removed: self.resets.filter(found.removed),
            modified: self.resets.filter(found.modified),
            added: self.resets.filter(found.added),
        })
    }

    /// The changes as they look in another version; None if that version is gone.
    async fn changes_at(&self, old: &Typed<'a>, new: &Typed<'a>, version: &str) -> Result<Option<Comparison>, String> {
        let old = self.convert(old, version).await.map_err(|why| format!("failed to convert old object: {why}"))?;
        let new = self.convert(new, version).await.map_err(|why| format!("failed to convert new object: {why}"))?;
        let (Some(old), Some(new)) = (old, new) else { return Ok(None) };
        self.changes(&old, &new).map(Some)
    }

    /// Removes from `merged` what `last` had claimed, unless another manager still claims it.
    async fn prune(
        &self,
        merged: Typed<'a>,
        owners: &Owners,
        version: &str,
        last: Option<&Owned>,
    ) -> Result<Typed<'a>, String> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(merged) };
        let converted = self
            .convert(&merged, &last.version)
            .await
            .map_err(|why| format!("failed to convert merged object to last applied version: {why}"))?;
        let Some(converted) = converted else { return Ok(merged) };
        let pruned = converted.without(&converted.named(&last.set));
        let pruned = self
            .add_back_owned(converted.clone().into_owned(), pruned, owners)
            .await
            .map_err(|why| format!("failed add back owned items: {why}"))?;
        let pruned = self
            .add_back_dangling(&converted, &pruned, last)
            .await
            .map_err(|why| format!("failed add back dangling items: {why}"))?;
        match self.convert(&pruned, version).await? {
            Some(pruned) => Ok(pruned.into_owned()),
            None => Err(format!("no corresponding type for {version}")),
        }
    }

    /// Puts back what any manager owns. The version that was pruned comes first: what was pruned may be what a conversion
    /// needs.
    async fn add_back_owned(
        &self,
        mut merged: Typed<'a>,
        mut pruned: Typed<'a>,
        owners: &Owners,
    ) -> Result<Typed<'a>, String> {
        let mut by_version: BTreeMap<Str, Vec<FieldSet>> = BTreeMap::new();
        for owned in owners.values() {
            by_version.entry(owned.version.clone()).or_default().push(owned.set.clone());
        }
        let first = by_version.remove_entry(&merged.version);
        for (version, owned) in first.into_iter().chain(by_version) {
            let owned = FieldSet::union_all(owned);
            let failed = |which: &str, why| format!("failed to convert {which} object at version {version}: {why}");
            let merged_there = self.convert(&merged, &version).await.map_err(|why: String| failed("merged", why))?;
            let Some(merged_there) = merged_there else { continue };
            let pruned_there = self.convert(&pruned, &version).await.map_err(|why: String| failed("pruned", why))?;
            let Some(pruned_there) = pruned_there else { continue };
            (merged, pruned) = (merged_there.into_owned(), pruned_there.into_owned());
            let kept = merged.named(&pruned.fields()).union(&merged.named(&owned));
            pruned = merged.without(&merged.named(&merged.fields()).difference(&kept));
        }
        Ok(pruned)
    }

    /// Puts back what was pruned along with its surroundings though the last configuration had not claimed it.
    async fn add_back_dangling(
        &self,
        merged: &Typed<'a>,
        pruned: &Typed<'a>,
        last: &Owned,
    ) -> Result<Typed<'a>, String> {
        let converted = self
            .convert(pruned, &last.version)
            .await
            .map_err(|why| format!("failed to convert pruned object to last applied version: {why}"))?;
        let Some(converted) = converted else { return Ok(merged.clone()) };
        let gone = merged.named(&merged.fields()).difference(&merged.named(&converted.fields()));
        Ok(merged.without(&gone.intersection(&merged.named(&last.set))))
    }

    /// Ownership as today's types have it; managers of versions that are gone are forgotten.
    async fn reconcile(&self, live: &Typed<'a>, owners: Owners) -> Result<Owners, String> {
        let mut out = Owners::new();
        let mut converted = BTreeSet::from([live.version.clone()]);
        for (id, owned) in owners {
            let Some(schema) = self.kind.schema(&owned.version)? else { continue };
            if converted.insert(owned.version.clone()) {
                // A live object that cannot be shown in the version is an error, as it is when a change is compared.
                self.convert(live, &owned.version).await?;
            }
            let set = reconcile(&owned.set, Type::of(schema)).unwrap_or(owned.set);
            out.insert(id, Owned { set, version: owned.version, applied: owned.applied });
        }
        Ok(out)
    }

    /// The object in another version; None if that version is gone.
    async fn convert<'o>(&self, object: &'o Typed<'a>, version: &str) -> Result<Option<Cow<'o, Typed<'a>>>, String> {
        if object.version == version {
            return Ok(Some(Cow::Borrowed(object)));
        }
        let Some(schema) = self.kind.schema(version)? else { return Ok(None) };
        let mut converted = self.kind.convert(&object.value, version).await?;
        if converted.api_version() != version {
            converted.set(&["apiVersion"], version);
        }
        let typed = Typed::new(&converted, version, schema, self.kind.is_structured());
        validate(&typed.value, typed.of, Duplicates::Refused).map_err(|problems| problems.to_string())?;
        Ok(Some(Cow::Owned(typed)))
    }
}

impl Resets {
    /// The set without what is reset.
    fn filter(&self, mut set: FieldSet) -> FieldSet {
        match self {
            Resets::Nothing => set,
            Resets::Fields(fields) => {
                set.prune(fields);
                set
            }
            Resets::AllBut(paths) => {
                let paths: Vec<&[Option<&str>]> = paths.iter().map(Vec::as_slice).collect();
                reached(&set, &paths)
            }
        }
    }
}

/// The part of a set that lies on or below one of the paths.
fn reached(set: &FieldSet, paths: &[&[Option<&str>]]) -> FieldSet {
    if paths.iter().any(|path| path.is_empty()) {
        return set.clone();
    }
    let matching = |element: &PathElement| -> Vec<&[Option<&str>]> {
        let is_here =
            |name: &Option<&str>| name.is_none_or(|name| matches!(element, PathElement::Field(field) if field == name));
        paths.iter().filter_map(|path| path.split_first()).filter(|(first, _)| is_here(first)).map(|(_, r)| r).collect()
    };
    let mut out = FieldSet::new();
    for element in set.members().iter().filter(|element| !matching(element).is_empty()) {
        out.insert_member(element.clone());
    }
    for (element, below) in set.children() {
        let rest = matching(element);
        if !rest.is_empty() {
            out.insert_child(element.clone(), reached(below, &rest));
        }
    }
    out
}
