//! Server-side apply, and the ownership of fields that every write keeps up to date.
//!
//! `metadata.managedFields` says which manager set which field. A write by update or patch takes over what it changes; an
//! apply claims the fields of its configuration, removes what it claimed before and claims no more, and is refused where
//! it would change what another manager owns. [`FieldManager`] does both for one request.

mod cap;
mod configuration;
pub(crate) mod conflict;
mod last_applied;
mod managed;
mod scale;
mod updater;

use async_trait::async_trait;
use object::timestamp::Time;
use object::{GroupVersion, GroupVersionKind, Map, Meta, Timestamp, Value};
use schema::Schema;

use crate::typed::{Duplicates, changed, changed_unstructured, created, created_unstructured, validate};
use crate::{Error, FieldSet};
pub use configuration::merge_configuration;
pub use conflict::Conflict;
pub use managed::validate_managed_fields;
use managed::{Id, Managed};
pub use scale::ScaleFields;
use updater::{Typed, Updater};

/// What the manager of writes that do not name one is called.
const UNNAMED: &str = "unknown";
/// The manager of fields that were set before tracking began.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Stands for the manager while an update is worked out, so that what it takes over now and what it had can be told apart.
const THIS_OPERATION: &str = "current-operation";

/// What the field manager has to know about a kind.
#[async_trait]
pub trait Kind: Sync {
    /// The schema of the kind in a version. None if there is no such version any more: its owners are forgotten. An error if
    /// objects cannot be converted to it: the owners stay, and the write is refused or does not change them.
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String>;

    /// The object in another version. A webhook may be asked.
    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;

    /// Whether upstream holds objects of the kind in Go structs, as it does all but custom resources: then what counts as
    /// a field follows the structs.
    fn is_structured(&self) -> bool {
        true
    }
}

/// Which fields writes through this path cannot own, because the strategy resets them.
#[derive(Clone, Debug, Default)]
pub enum Resets {
    /// They can own every field.
    #[default]
    Nothing,
    /// These, and everything below them.
    Fields(FieldSet),
    /// Everything that none of these paths reaches. None in a path stands for any element.
    AllBut(Vec<Vec<Option<&'static str>>>),
}

/// See [`created`] and [`changed`].
type Created = fn(&Value, Schema<'_>, Option<&FieldSet>, &FieldSet) -> Option<String>;
type Changed = fn(&Value, &Value, Schema<'_>, Option<&FieldSet>, &FieldSet) -> Option<bool>;

/// Keeps `metadata.managedFields` of one kind, written through one path.
pub struct FieldManager<'a> {
    /// The kind in all its versions.
    pub kind: &'a dyn Kind,
    /// The version of the request; objects go in and come out in it.
    pub gvk: GroupVersionKind,
    /// "" for the object itself.
    pub subresource: &'a str,
    /// Fields that writes through the subresource cannot own.
    pub resets: &'a Resets,
}

/// What came of an apply.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The live object with the configuration in it, which is to be decoded and to get its defaults. None if the configuration
    /// changed nothing but perhaps who owns what.
    pub merged: Option<Value>,
    managed: Managed,
}

impl Applied {
    /// The object as it is to be stored: the decoded one, or the live one if nothing was merged, with its owners.
    pub fn with_owners(self, mut object: Value, config: &Value, manager: &str) -> Value {
        managed::clear(&mut object);
        last_applied::refresh(&mut object, config, manager);
        self.managed.write(&mut object);
        object
    }
}

/// The failure of an apply whose merged object cannot be decoded.
pub fn undecodable(config: &Value, why: &str) -> Error {
    Error::Failed(format!("failed to convert new object ({}) to proper version: {why}", name_of(config)))
}

impl FieldManager<'_> {
    /// Works out who owns what after `live` was changed to `new` by a create, update or patch, and writes it into `new`.
    /// `live` is an empty object for a create. Never fails: if all else does, ownership stays what it was.
    pub async fn update(&self, live: &Value, new: Value, manager: &str, now: Timestamp) -> Value {
        match self.update_of_one_owner(live, new, manager, now) {
            Ok(tracked) => tracked,
            Err(new) => Box::pin(self.update_by_comparison(live, new, manager, now)).await,
        }
    }

    /// The same where one manager owns the whole object, which needs no other version of it. In all other cases `new` comes back
    /// as an error.
    fn update_of_one_owner(&self, live: &Value, mut new: Value, manager: &str, now: Timestamp) -> Result<Value, Value> {
        let Some(entries) = self.of_one_owner(live, &new, manager, now) else { return Err(new) };
        managed::clear(&mut new);
        if let Some(entries) = entries {
            new.set(&["metadata", "managedFields"], entries);
        }
        Ok(new)
    }

    /// The same in all cases, by comparing the two objects in the version of each owner.
    async fn update_by_comparison(&self, live: &Value, mut new: Value, manager: &str, now: Timestamp) -> Value {
        if !new.field("metadata").is_null() && new.field("metadata").as_map().is_none() {
            return new;
        }
        let managed = self.managed_by_request(live, &new);
        managed::clear(&mut new);
        // Objects without managedFields stay untracked until the first apply.
        if managed.is_empty() && !live.uid().is_empty() {
            return new;
        }
        match self.track_update(live, &new, managed, manager, now).await {
            Ok(managed) => managed.write(&mut new),
            Err(_) => new.keep(&["metadata", "managedFields"], live),
        }
        new
    }

    /// Applies a configuration. `live` is an empty object if there is none yet.
    pub async fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Applied, Error> {
        let managed = Managed::read(live.at(&["metadata", "managedFields"]))
            .map_err(|why| Error::Failed(format!("failed to decode managed fields: {why}")))?;
        let gvk = gvk_of(config);
        if gvk != self.gvk {
            return Err(Error::Malformed(format!("invalid object type: {gvk}")));
        }
        let (merged, managed) = Box::pin(self.apply_or_migrate(live, config, managed, manager, force, now)).await?;
        Ok(Applied { merged, managed })
    }

    /// The owners an update starts from: those in the request, if it says anything sensible about them and comes through
    /// the object itself, else those of the live object. An empty list, or one empty entry, resets them.
    fn managed_by_request(&self, live: &Value, new: &Value) -> Managed {
        let of_live = || Managed::read(live.at(&["metadata", "managedFields"])).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        let requested = new.at(&["metadata", "managedFields"]);
        if managed::is_reset(requested) {
            return Managed::default();
        }
        match Managed::read(requested) {
            Ok(managed) if !managed.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// The managedFields of an object that this manager creates, or that it owns and changes no more than the values of: the
    /// common case, which needs no sets of fields. Some(None) if nothing is owned, None if it is not that case.
    fn of_one_owner(&self, live: &Value, new: &Value, manager: &str, now: Timestamp) -> Option<Option<Value>> {
        let is_new = live.as_map().is_some_and(Map::is_empty);
        let requested = new.at(&["metadata", "managedFields"]);
        let before = if requested.is_null() || !self.subresource.is_empty() {
            live.at(&["metadata", "managedFields"])
        } else {
            requested
        };
        let version = self.api_version();
        let id = (named(manager), "Update", version.as_str(), self.subresource);
        let only = match before {
            Value::Null if is_new => None,
            Value::List(entries) => match entries.as_slice() {
                [] if is_new => None,
                [only] if !is_new && managed::is_of(only, id) => Some(only),
                _ => return None,
            },
            _ => return None,
        };
        let reset = match self.resets {
            Resets::Nothing => None,
            Resets::Fields(fields) => Some(fields),
            Resets::AllBut(_) => return None,
        };
        let schema = self.kind.schema(&version).ok()??;
        let (created, changed): (Created, Changed) = match self.kind.is_structured() {
            true => (created, changed),
            false => (created_unstructured, changed_unstructured),
        };
        let fields = created(new, schema, reset, &managed::UNOWNED)?;
        let mut time = Time(now).to_string();
        if let Some(only) = only {
            managed::has_fields(only, &fields).then_some(())?;
            if !changed(live, new, schema, reset, &managed::UNOWNED)? {
                time = only.str_at(&["time"]).to_string();
            }
        }
        Some((fields != "{}").then(|| vec![managed::entry(id, &time, fields)].into()))
    }

    async fn track_update(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, String> {
        let live = self.typed(live, self.kind.is_structured(), Duplicates::Allowed)?;
        let new = self.typed(new, self.kind.is_structured(), Duplicates::Allowed)?;
        let this = Id::placeholder(THIS_OPERATION);
        let updater = Updater { kind: self.kind, resets: self.resets };
        managed.owners = updater.update(&live, &new, managed.owners, &this).await?;
        managed.strip_metadata(&this);
        // Whatever was taken over means that something changed, and only then does the manager's time move on.
        if let Some(taken) = managed.owners.remove(&this) {
            let id = Id::updater(named(manager), &self.api_version(), self.subresource);
            managed.add(&id, taken);
            managed.times.insert(id, Time(now).to_string().into());
        }
        managed.cap();
        Ok(managed)
    }

    /// One attempt at an apply; None instead of an object if nothing changed.
    async fn try_apply(
        &self,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<(Option<Value>, Managed), Error> {
        if managed.is_empty() {
            let empty = self.empty_object();
            managed = self
                .track_update(&empty, live, managed, BEFORE_FIRST_APPLY, now)
                .await
                .map_err(|why| format!("failed to create manager for existing fields: {why}"))?;
        }
        if managed::is_set(config) {
            return Err(Error::Malformed("metadata.managedFields must be nil".into()));
        }
        let typed_config = self
            .typed(config, false, Duplicates::Refused)
            .map_err(|why| format!("failed to create typed patch object ({}): {why}", name_of(config)))?;
        let live = self
            .typed(live, self.kind.is_structured(), Duplicates::Allowed)
            .map_err(|why| format!("failed to create typed live object ({}): {why}", name_of(live)))?;
        let id = Id::applier(named(manager), self.subresource);
        let updater = Updater { kind: self.kind, resets: self.resets };
        let (object, owners) = updater.merge(&live, &typed_config, managed.owners, &id, force).await?;
        managed.owners = owners;
        managed.strip_metadata(&id);
        if object.is_some() {
            managed.times.insert(id, Time(now).to_string().into());
        }
        Ok((object, managed))
    }

    /// An object of the request's version as the merge rules see it.
    fn typed(&self, object: &Value, structured: bool, duplicates: Duplicates) -> Result<Typed<'_>, String> {
        let version = self.api_version();
        let schema = self.kind.schema(&version)?.ok_or_else(|| format!("no corresponding type for {}", self.gvk))?;
        let mut typed = Typed::new(object, &version, schema, structured);
        if structured {
            typed.value.set_type(&self.gvk);
            managed::clear(&mut typed.value);
        }
        validate(&typed.value, typed.of, duplicates).map_err(|problems| problems.to_string())?;
        managed::clear(&mut typed.value);
        Ok(typed)
    }

    fn empty_object(&self) -> Value {
        let mut empty = Value::map();
        empty.set_type(&self.gvk);
        empty
    }

    fn api_version(&self) -> String {
        self.gvk.group_version().to_string()
    }
}

fn named(manager: &str) -> &str {
    if manager.is_empty() { UNNAMED } else { manager }
}

fn gvk_of(object: &Value) -> GroupVersionKind {
    // A version that does not parse makes upstream forget the kind too.
    match GroupVersion::parse(object.api_version()) {
        Ok(version) => version.with_kind(object.kind()),
        Err(_) => GroupVersionKind::default(),
    }
}

/// An object in upstream's messages: `namespace/name; apps/v1, Kind=Deployment`.
fn name_of(object: &Value) -> String {
    format!("{}/{}; {}", object.namespace(), object.name(), gvk_of(object))
}

#[cfg(test)]
mod tests;
