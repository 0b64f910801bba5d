//! Managed fields: who owns what after a write.

use async_trait::async_trait;
use object::{GroupVersion, GroupVersionKind, Meta, Status, Timestamp, Value, quote};
use patch::FieldSet;
use patch::apply::{self, FieldManager, Kind, Resets};
use registry::{Form, Paths};
use schema::Schema;

use crate::scope::Scope;

/// The object with its managed fields as an update by `manager` leaves them. Never fails: an object whose fields cannot be
/// tracked keeps what it had, as upstream does.
pub async fn track_update(scope: &Scope, live: &Value, new: Value, manager: &str) -> Value {
    let (kind, resets) = (Versions(scope), resets_of(scope));
    field_manager(&kind, &resets).update(live, new, manager, scope.api.clock.now()).await
}

/// Server-side apply: the applied configuration merged into the live object, or the conflict.
pub async fn merge_applied(
    scope: &Scope,
    live: &Value,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Status> {
    let (kind, resets) = (Versions(scope), resets_of(scope));
    let now = scope.api.clock.now();
    let mut applied = field_manager(&kind, &resets).apply(live, config, manager, force, now).await?;
    let object = match applied.merged.take() {
        Some(merged) => decode_merged(scope, merged).map_err(|why| apply::undecodable(config, &why))?,
        None => live.clone(),
    };
    Ok(applied.with_owners(object, config, manager))
}

/// A merged object as upstream's decoder and defaults leave it, or why it cannot be decoded.
fn decode_merged(scope: &Scope, merged: Value) -> Result<Value, String> {
    let resource = &scope.resource;
    let mut object = resource.form.read_merged(&resource.kind, merged)?;
    schema::default(resource.form.schema(), &mut object);
    let mut object = scope.default(object).map_err(|status| status.message)?;
    object.set_type(&resource.kind);
    Ok(object)
}

fn field_manager<'a>(kind: &'a Versions<'a>, resets: &'a Resets) -> FieldManager<'a> {
    let scope = kind.0;
    let subresource = scope.call.info.subresource.as_str();
    FieldManager { kind, gvk: scope.resource.kind.clone(), subresource, resets }
}

fn resets_of(scope: &Scope) -> Resets {
    let subresource = scope.call.info.subresource.as_str();
    match &scope.resource.storage {
        Some(storage) => resets(storage.strategy.facts().reset_fields(subresource)),
        None => Resets::Nothing,
    }
}

fn resets(paths: Paths) -> Resets {
    if paths.is_empty() { Resets::Nothing } else { Resets::Fields(FieldSet::of(paths.iter().copied())) }
}

/// [`track_update`] for an object that has only one version: what an action brings or answers with, or what the server changes
/// for itself.
pub async fn track(tracked: &ManagedKind<'_>, live: &Value, new: Value, manager: &str, now: Timestamp) -> Value {
    let (gvk, resets) = (tracked.kind.clone(), resets(tracked.resets));
    let fields = FieldManager { kind: tracked, gvk, subresource: tracked.subresource, resets: &resets };
    fields.update(live, new, manager, now).await
}

/// What fields are tracked of, and through which path they are written.
pub struct ManagedKind<'a> {
    pub kind: &'a GroupVersionKind,
    pub form: &'a Form,
    /// "" for the object itself.
    pub subresource: &'a str,
    /// Fields that writes through this path cannot own.
    pub resets: Paths,
}

#[async_trait]
impl Kind for ManagedKind<'_> {
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String> {
        Ok((self.kind.group_version().to_string() == api_version).then(|| self.form.schema()))
    }

    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.api_version() == api_version {
            return Ok(object.clone());
        }
        Err(format!("{} has no version {api_version}", self.kind.kind))
    }
}

/// The kind in all its versions.
struct Versions<'a>(&'a Scope);

#[async_trait]
impl Kind for Versions<'_> {
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String> {
        let resource = &self.0.resource;
        if resource.kind.group_version().to_string() == api_version {
            return Ok(Some(resource.form.schema()));
        }
        let version = GroupVersion::parse(api_version)?;
        if let (true, Some(storage)) = (resource.is_custom(), &resource.storage) {
            if version.group != resource.kind.group {
                let (kind, wanted) = (&resource.kind, quote(api_version));
                return Err(format!("{kind} is unstructured and is not suitable for converting to {wanted}"));
            }
            let schema = storage.codec.schema_in(&version.version);
            let unknown = || format!("request to convert CR to an invalid group/version: {api_version}");
            return schema.ok_or_else(unknown).map(Some);
        }
        // What was written through another group, as an event can be, has no owners in this one.
        if version.group != resource.kind.group {
            return Ok(None);
        }
        let found = self.0.api.catalog.get(&version.group, &version.version, &resource.resource.resource);
        Ok(found.map(|resource| resource.form.schema()))
    }

    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.api_version() == api_version {
            return Ok(object.clone());
        }
        let catalog = &self.0.api.catalog;
        if let (true, Some(storage)) = (self.0.resource.is_custom(), &self.0.resource.storage) {
            return storage.codec.convert_unpruned(object, &GroupVersion::parse(api_version)?).await;
        }
        let wanted = GroupVersion::parse(api_version)?.with_kind(object.kind());
        let given = GroupVersion::parse(object.api_version())?.with_kind(object.kind());
        let find = |kind| catalog.by_kind(kind).ok_or_else(|| format!("no kind {kind} is served"));
        let mut converted = find(&wanted)?.from_storage(find(&given)?.to_storage(object.clone())?)?;
        converted.set_type(&wanted);
        Ok(converted)
    }

    fn is_structured(&self) -> bool {
        self.0.resource.form.is_structured()
    }
}
