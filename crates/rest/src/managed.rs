//! Managed fields: who owns what after a write.

use object::{GroupVersion, GroupVersionKind, Meta, Status, Timestamp, Value};
use parking_lot::Mutex;
use patch::FieldSet;
use patch::apply::{FieldManager, Kind, Resets};
use registry::Form;
use schema::Schema;

use crate::scope::Scope;

/// The object with its managed fields as an update by `manager` leaves them. Never fails: an object whose fields cannot be
/// tracked keeps what it had, as upstream does.
pub async fn track_update(scope: &Scope, live: &Value, new: Value, manager: &str) -> Value {
    let now = scope.api.clock.now();
    if !scope.resource.is_custom() {
        return with_manager(scope, &Conversions::default(), |fields| fields.update(live, new, manager, now));
    }
    let alone =
        with_manager(scope, &Conversions::default(), |fields| fields.update_of_one_owner(live, new, manager, now));
    let new = match alone {
        Ok(tracked) => return tracked,
        Err(new) => new,
    };
    converting(scope, |conversions| {
        with_manager(scope, conversions, |fields| fields.update_by_comparison(live, new.clone(), manager, now))
    })
    .await
}

/// The same for an object that has only one version: what an action brings or answers with, or what the server changes for
/// itself.
pub fn track(tracked: &ManagedKind<'_>, live: &Value, new: Value, manager: &str, now: Timestamp) -> Value {
    tracked.with_manager(|fields| fields.update(live, new, manager, now))
}

/// Server-side apply by the server itself, which takes over fields of other managers.
pub fn force_apply(
    tracked: &ManagedKind<'_>,
    live: &Value,
    config: &Value,
    manager: &str,
    now: Timestamp,
) -> Result<Value, Status> {
    Ok(tracked.with_manager(|fields| fields.apply(live, config, manager, true, now))?.object)
}

impl ManagedKind<'_> {
    fn with_manager<T>(&self, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let resets = if self.resets.is_empty() {
            Resets::Nothing
        } else {
            Resets::Fields(FieldSet::of(self.resets.iter().map(|path| path.as_slice())))
        };
        work(&FieldManager { kind: self, gvk: self.kind.clone(), subresource: self.subresource, resets: &resets })
    }
}

/// What fields are tracked of, and through which path they are written.
pub struct ManagedKind<'a> {
    pub kind: &'a GroupVersionKind,
    pub form: &'a Form,
    /// "" for the object itself.
    pub subresource: &'a str,
    /// Fields that writes through this path cannot own.
    pub resets: Vec<Vec<&'static str>>,
}

impl Kind for ManagedKind<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        (self.kind.group_version().to_string() == api_version).then(|| self.form.schema())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.api_version() == api_version {
            return Ok(object.clone());
        }
        Err(format!("{} has no version {api_version}", self.kind.kind))
    }

    fn settle(&self, merged: Value) -> Result<Value, String> {
        Ok(merged)
    }
}

/// Server-side apply: the applied configuration merged into the live object, or the conflict.
pub async fn merge_applied(
    scope: &Scope,
    live: &Value,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Status> {
    let now = scope.api.clock.now();
    let applied = converting(scope, |conversions| {
        with_manager(scope, conversions, |fields| fields.apply(live, config, manager, force, now))
    })
    .await?;
    Ok(applied.object)
}

/// Conversions of custom resources between versions: those that are known, and one that is needed.
#[derive(Default)]
struct Conversions {
    /// The object, the version, and what became of it.
    known: Vec<(Value, GroupVersion, Result<Value, String>)>,
    needed: Mutex<Option<(Value, GroupVersion)>>,
}

/// Managers may own fields of an object in several versions. Fields are tracked without waiting, so a conversion that is
/// needed and not known yet is made in between, and the work done again.
async fn converting<T>(scope: &Scope, work: impl Fn(&Conversions) -> T) -> T {
    let mut conversions = Conversions::default();
    loop {
        let done = work(&conversions);
        let needed = conversions.needed.get_mut().take();
        let (Some((object, version)), Some(storage)) = (needed, &scope.resource.storage) else { return done };
        let converted = storage.codec.convert(&object, &version).await;
        conversions.known.push((object, version, converted));
    }
}

impl Conversions {
    fn convert(&self, object: &Value, version: GroupVersion) -> Result<Value, String> {
        let known = self.known.iter().find(|(from, to, _)| *to == version && from == object);
        match known {
            Some((_, _, converted)) => converted.clone(),
            None => {
                self.needed.lock().get_or_insert_with(|| (object.clone(), version));
                Err("the object is being converted".to_string())
            }
        }
    }
}

fn with_manager<T>(scope: &Scope, conversions: &Conversions, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let subresource = scope.call.info.subresource.as_str();
    let resets = resets(scope, subresource);
    let versions = Versions { scope, conversions };
    work(&FieldManager { kind: &versions, gvk: scope.resource.kind.clone(), subresource, resets: &resets })
}

fn resets(scope: &Scope, subresource: &str) -> Resets {
    let Some(storage) = &scope.resource.storage else { return Resets::Nothing };
    let paths = storage.strategy.reset_fields(subresource);
    if paths.is_empty() {
        return Resets::Nothing;
    }
    Resets::Fields(FieldSet::of(paths.iter().map(|path| path.as_slice())))
}

/// The kind in all its versions.
struct Versions<'a> {
    scope: &'a Scope,
    conversions: &'a Conversions,
}

impl Kind for Versions<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        let resource = &self.scope.resource;
        if resource.kind.group_version().to_string() == api_version {
            return Some(resource.form.schema());
        }
        // What was written through another group, as an event can be, has no owners in this one.
        let version = GroupVersion::parse(api_version).ok().filter(|v| v.group == resource.kind.group)?;
        let found = self.scope.api.catalog.get(&version.group, &version.version, &resource.resource.resource);
        found.map(|resource| resource.form.schema())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.api_version() == api_version {
            return Ok(object.clone());
        }
        let catalog = &self.scope.api.catalog;
        if self.scope.resource.is_custom() {
            return self.conversions.convert(object, GroupVersion::parse(api_version)?);
        }
        let wanted = GroupVersion::parse(api_version)?.with_kind(object.kind());
        let given = GroupVersion::parse(object.api_version())?.with_kind(object.kind());
        let find = |kind| catalog.by_kind(kind).ok_or_else(|| format!("no kind {kind} is served"));
        let mut converted = find(&wanted)?.from_storage(find(&given)?.to_storage(object.clone())?)?;
        converted.set_type(&wanted);
        Ok(converted)
    }

    fn settle(&self, merged: Value) -> Result<Value, String> {
        let resource = &self.scope.resource;
        let mut object = resource.form.read_merged(&resource.kind, merged)?;
        schema::default(resource.form.schema(), &mut object);
        let mut object = self.scope.default(object).map_err(|status| status.message)?;
        object.set_type(&resource.kind);
        Ok(object)
    }

    fn is_structured(&self) -> bool {
        self.scope.resource.form.is_structured()
    }
}
