//! Changing an object: read, change, compare-and-swap, again if another write came first.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use object::{Cursor, Errors, GroupKind, GroupVersionKind, Meta, Path, Status, Value};
use storage::Entry;

use crate::create::{at_revision, wipe_system_fields};
use crate::error::storage_error;
use crate::storage::Attempt;
use crate::{Admit, Context, Error, MODIFIED, Outcome, ResourceStorage, metadata};

/// Turns the stored object into the wanted one. It is asked again whenever the stored object was changed meanwhile.
#[async_trait]
pub trait UpdatedObject: Send {
    /// `existing` is None where the object does not exist and may be created by this request.
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status>;
}

/// What an update may do and must find.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Create the object if it does not exist, whatever the strategy says: server-side apply does.
    pub create: bool,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// The kind's own rules for the part that is being written.
    pub scope: UpdateScope,
}

/// Which rules an update goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateScope {
    #[default]
    Object,
    Status,
    /// Another view on the object: ephemeralcontainers, resize, approval, finalize.
    Subresource,
    /// The change itself is the rule (binding, eviction marks …); only metadata is checked.
    Other,
}

impl ResourceStorage {
    pub fn update<'a>(
        &'a self,
        cx: &'a Context<'a>,
        name: &'a str,
        change: &'a mut dyn UpdatedObject,
        admit: &'a dyn Admit,
        options: &'a UpdateOptions,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let key = self.key(cx.namespace, name);
            let found = self.cache.current(&key).await.map_err(|error| self.read_failed(error, "update"))?;
            let mut current: Option<Arc<Entry>> = found.map(|object| object.entry().clone());
            loop {
                let attempt = match &current {
                    None => self.create_by_update(cx, name, change, admit, options).await,
                    Some(entry) => self.try_update(cx, name, entry, change, admit, options).await,
                };
                match attempt? {
                    Attempt::Done(outcome) => return Ok(outcome),
                    Attempt::Lost(now) => current = now,
                }
            }
        })
    }

    async fn create_by_update(
        &self,
        cx: &Context<'_>,
        name: &str,
        change: &mut dyn UpdatedObject,
        admit: &dyn Admit,
        options: &UpdateOptions,
    ) -> Result<Attempt<Outcome>, Error> {
        if !options.create && !self.strategy.allows_create_on_update() {
            return Err(self.not_found(name));
        }
        if options.uid.is_some() || options.resource_version.as_ref().is_some_and(|v| !v.is_empty()) {
            return Err(self.precondition_conflict(cx, name, &precondition_failed(options, &Value::Null)));
        }
        let mut object = change.wanted(None).await?;
        check_version_form(object.resource_version())?;
        let given = object.metadata_mut().remove("resourceVersion");
        wipe_system_fields(&mut object);
        let (warnings, undo) = self.before_create(cx, &mut object, admit).await?;
        let key = self.key(cx.namespace, name);
        match self.store_new(cx, &mut object).await {
            Ok(mut object) => {
                if let Some(undo) = undo {
                    undo.commit().await;
                }
                // A dry run answers with what it was given where there is nothing to replace it by.
                if let Some(given) = given.filter(|_| cx.dry_run) {
                    object.metadata_mut().insert("resourceVersion", given);
                }
                Ok(Attempt::Done(Outcome { object, created: true, warnings }))
            }
            Err(error) => {
                if let Some(undo) = undo {
                    undo.undo().await;
                }
                if !matches!(error, Error::AlreadyExists { .. }) {
                    return Err(error);
                }
                let found = self.store.get(&key, None).await.map_err(|e| self.store_failed(e, "update", name))?;
                Ok(Attempt::Lost(found.entry))
            }
        }
    }

    async fn try_update(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        change: &mut dyn UpdatedObject,
        admit: &dyn Admit,
        options: &UpdateOptions,
    ) -> Result<Attempt<Outcome>, Error> {
        let prepared = self.prepare(std::iter::once(&entry.value)).await?;
        let old = self.read(entry).map_err(Error::Unchangeable)?;
        drop(prepared);
        self.check_preconditions(cx, name, &old, options)?;
        let mut new = change.wanted(Some(&old)).await?;
        self.check_version(name, &mut new, &old)?;
        let undo = self.strategy.begin_update(cx, &mut new, &old).await?;
        let result = self.finish_update(cx, name, entry, new, &old, admit, options).await;
        match (undo, &result) {
            (Some(undo), Ok(Attempt::Done(_))) => undo.commit().await,
            (Some(undo), _) => undo.undo().await,
            (None, _) => {}
        }
        result
    }

    #[allow(clippy::too_many_arguments)]
    async fn finish_update(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        mut new: Value,
        old: &Value,
        admit: &dyn Admit,
        options: &UpdateOptions,
    ) -> Result<Attempt<Outcome>, Error> {
        let warnings = self.before_update(cx, &mut new, old, options.scope).await?;
        warnings.iter().for_each(|warning| admit.warn(warning.clone()));
        keep_managed_times(&self.kind, &mut new, old);
        admit.validate(Some(&new), Some(old)).await?;
        if self.is_finished(&new, old) {
            return self.remove_finished(cx, name, entry, new, warnings).await;
        }
        let ttl = self.strategy.time_to_live(&new);
        let (bytes, mut stored) = self.encoded(new, entry.mod_revision).await?;
        let done = |object| Ok(Attempt::Done(Outcome { object, created: false, warnings }));
        if cx.dry_run || (bytes == entry.value && !entry.is_stale()) {
            return done(stored);
        }
        let mut written = self.store.update(entry.key.clone(), bytes, entry.mod_revision, ttl).await;
        let is_too_large = matches!(written, Err(storage::Error::TooLarge { .. })) && !options.create;
        // Upstream drops managedFields from an object that is too large, and tries again.
        if is_too_large && stored.metadata_mut().remove("managedFields").is_some() {
            let (bytes, smaller) = self.encoded(stored, entry.mod_revision).await?;
            stored = smaller;
            written = self.store.update(entry.key.clone(), bytes, entry.mod_revision, ttl).await;
        }
        match written {
            Ok(written) => done(at_revision(stored, written.revision)),
            Err(storage::Error::Conflict(now)) => Ok(Attempt::Lost(Some(now))),
            Err(storage::Error::NotFound) => Ok(Attempt::Lost(None)),
            Err(error) => Err(self.store_failed(error, "update", name)),
        }
    }

    fn check_preconditions(
        &self,
        cx: &Context<'_>,
        name: &str,
        old: &Value,
        options: &UpdateOptions,
    ) -> Result<(), Error> {
        let uid_ok = options.uid.as_ref().is_none_or(|uid| uid == old.uid());
        let version_ok = options.resource_version.as_ref().is_none_or(|v| v == old.resource_version());
        if uid_ok && version_ok {
            return Ok(());
        }
        Err(self.precondition_conflict(cx, name, &precondition_failed(options, old)))
    }

    /// Refuses a write to an object that is not the one that was meant.
    pub fn check_uid(&self, cx: &Context<'_>, wanted: &str, old: &Value) -> Result<(), Error> {
        let options =
            UpdateOptions { uid: Some(wanted.to_string()).filter(|uid| !uid.is_empty()), ..Default::default() };
        self.check_preconditions(cx, old.name(), old, &options)
    }

    pub(crate) fn conflict(&self, name: &str, why: String) -> Error {
        Error::Conflict { resource: self.resource.clone(), name: name.to_string(), why }
    }

    fn precondition_conflict(&self, cx: &Context<'_>, name: &str, why: &str) -> Error {
        let key = self.key(cx.namespace, name).to_string();
        // Upstream's dry run has a store of its own, which does not know where the real one keeps things.
        let key = if cx.dry_run { self.below_root(&key) } else { &key };
        self.conflict(name, storage_error("invalid object, Code: 4", key, why))
    }

    /// A resourceVersion in the request must be the current one; none at all means "whatever is there", where allowed.
    fn check_version(&self, name: &str, new: &mut Value, old: &Value) -> Result<(), Error> {
        let given = new.resource_version();
        check_version_form(given)?;
        if matches!(given, "" | "0") {
            if !self.strategy.allows_unconditional_update() {
                let mut errors = Errors::new();
                errors.invalid(&Path::of("metadata.resourceVersion"), 0, "must be specified for an update");
                let kind = GroupKind::new(self.resource.group.clone(), self.resource.resource.clone());
                return Err(Error::Invalid { kind, name: name.to_string(), errors });
            }
            new.set_meta_str("resourceVersion", old.resource_version());
            return Ok(());
        }
        if given != old.resource_version() {
            return Err(self.conflict(name, MODIFIED.to_string()));
        }
        Ok(())
    }

    async fn before_update(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
        scope: UpdateScope,
    ) -> Result<Vec<String>, Error> {
        self.ensure_namespace(cx, new)?;
        let strategy = &self.strategy;
        if old.generation() != 0 || new.generation() != 0 {
            new.set_generation(old.generation());
        }
        match scope {
            UpdateScope::Object => {
                if strategy.has_status() {
                    new.keep(&["status"], old);
                }
                strategy.prepare_update(cx, new, old);
            }
            UpdateScope::Status => {
                keep_all_but_status(new, old);
                strategy.prepare_status_update(cx, new, old);
            }
            UpdateScope::Subresource => strategy.prepare_subresource(cx, new, old),
            UpdateScope::Other => {}
        }
        let counts = matches!(scope, UpdateScope::Object | UpdateScope::Subresource) && strategy.counts_generations();
        if counts && strategy.bumps_generation(new, old) {
            new.set_generation(old.generation() + 1);
        }
        if new.uid().is_empty() {
            new.set_meta_str("uid", old.uid());
        }
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if !old.meta_str(field).is_empty() {
                new.keep(&["metadata", field], old);
            }
        }
        let grace = ["metadata", "deletionGracePeriodSeconds"];
        if new.at(&grace).is_null() && !old.at(&grace).is_null() {
            new.keep(&grace, old);
        }
        let tolerated = self.check_changed(cx, new, old, scope).await?;
        let mut warnings = match scope {
            UpdateScope::Object => strategy.warnings(cx, new, Some(old)),
            UpdateScope::Status => strategy.status_warnings(cx, new, old),
            UpdateScope::Subresource | UpdateScope::Other => Vec::new(),
        };
        warnings.extend(tolerated);
        strategy.canonicalize(new);
        Ok(warnings)
    }

    /// Validates an update; returns what was found wrong and tolerated.
    async fn check_changed(
        &self,
        cx: &Context<'_>,
        new: &Value,
        old: &Value,
        scope: UpdateScope,
    ) -> Result<Vec<String>, Error> {
        let mut errors = Errors::new();
        if scope == UpdateScope::Status {
            self.strategy.authorize_status_update(cx, new, old, &mut errors).await;
        }
        let cursor = Cursor::root(new);
        let path_segment = |name: &str, prefix: bool| object::names::name_is_path_segment(name, prefix);
        metadata::validate(&cursor, self.namespaced, &path_segment, &mut errors);
        let found = errors.len();
        metadata::validate_update(&cursor, old, &mut errors);
        let repeats = self.strategy.repeats_metadata_errors();
        if repeats {
            let again: Vec<_> = errors.iter().skip(found).cloned().collect();
            again.into_iter().for_each(|error| errors.push(error));
        }
        let old_cursor = Cursor::root(old);
        match scope {
            UpdateScope::Object => {
                if self.strategy.checks_updated_generate_name() {
                    let check_name = |name: &str, prefix: bool| self.strategy.validate_name_of(cx, new, name, prefix);
                    metadata::validate_generate_name(&cursor.field("metadata"), &check_name, &mut errors);
                }
                if self.strategy.checks_updated_finalizer_names(cx) {
                    metadata::validate_finalizer_names(&cursor, &mut errors);
                }
                self.strategy.validate_update(cx, &cursor, &old_cursor, &mut errors);
            }
            UpdateScope::Status => {
                self.strategy.validate_status_update(cx, &cursor, &old_cursor, &mut errors);
            }
            UpdateScope::Subresource => self.strategy.validate_subresource(cx, &cursor, &old_cursor, &mut errors),
            UpdateScope::Other => {}
        }
        if errors.is_empty() {
            return Ok(errors.take_warnings());
        }
        if !repeats {
            errors.dedup();
        }
        Err(self.invalid(new.name(), errors))
    }

    /// Whether this update took away the last thing that kept a deleted object alive.
    fn is_finished(&self, new: &Value, old: &Value) -> bool {
        let grace = old.at(&["metadata", "deletionGracePeriodSeconds"]).as_int().unwrap_or(0);
        old.is_deleting() && grace == 0 && new.finalizers().next().is_none() && self.strategy.may_finish(new)
    }

    async fn remove_finished(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        new: Value,
        warnings: Vec<String>,
    ) -> Result<Attempt<Outcome>, Error> {
        if !cx.dry_run {
            match self.store.delete(entry.key.clone(), Some(entry.mod_revision)).await {
                Ok(_) => self.strategy.after_delete(cx, &new).await,
                Err(storage::Error::NotFound) => {}
                Err(storage::Error::Conflict(now)) => return Ok(Attempt::Lost(Some(now))),
                Err(error) => return Err(self.store_failed(error, "delete", name)),
            }
        }
        Ok(Attempt::Done(Outcome { object: new, created: false, warnings }))
    }
}

fn precondition_failed(options: &UpdateOptions, old: &Value) -> String {
    match &options.uid {
        Some(uid) if uid != old.uid() => {
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid())
        }
        _ => format!(
            "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {}",
            options.resource_version.as_deref().unwrap_or(""),
            old.resource_version()
        ),
    }
}

/// A status write changes `status` and metadata; everything else stays what it was.
fn keep_all_but_status(new: &mut Value, old: &Value) {
    let status = new.field("status").clone();
    let metadata = new.field("metadata").clone();
    *new = old.clone();
    new.set(&["metadata"], metadata);
    if status.is_null() {
        new.remove(&["status"]);
    } else {
        new.set(&["status"], status);
    }
}

/// A change that would only touch the times of managed fields is no change.
fn keep_managed_times(kind: &GroupVersionKind, new: &mut Value, old: &Value) {
    let (managers, old_managers) = (new.list_at(MANAGED_FIELDS), old.list_at(MANAGED_FIELDS));
    let only_times = managers.len() == old_managers.len()
        && managers.iter().zip(old_managers).all(|(new, old)| equal_but_time(new, old));
    if !only_times || managers == old_managers {
        return;
    }
    let managers = managers.to_vec();
    new.keep(MANAGED_FIELDS, old);
    // To upstream's structs an empty list or map is the same as none; custom resources have no structs.
    let same = match schema::builtin().schema(kind) {
        Some(schema) => schema::equal(schema, new, old),
        None => new == old,
    };
    if !same {
        new.set(MANAGED_FIELDS, managers);
    }
}

const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

fn equal_but_time(one: &Value, other: &Value) -> bool {
    let (Value::Map(one), Value::Map(other)) = (one, other) else { return one == other };
    let mut others = other.iter().filter(|(key, _)| *key != "time");
    one.iter().filter(|(key, _)| *key != "time").all(|(key, value)| {
        others.next().is_some_and(|(other_key, other)| key == other_key && same_fields(value, other))
    }) && others.next().is_none()
}

/// Fields are text in an entry that was just written, and read already in a stored custom resource.
fn same_fields(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Raw(raw), Value::Map(_)) => codec::json::open(raw) == *other,
        (Value::Map(_), Value::Raw(raw)) => *one == codec::json::open(raw),
        _ => one == other,
    }
}

/// Upstream parses the version as a number before it compares; what is not a number is a failure of the server (500).
pub fn check_version_form(given: &str) -> Result<(), Error> {
    if given.is_empty() {
        return Ok(());
    }
    object::parse_uint(given).map(|_| ()).map_err(Error::Failed)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn times_of_managers_stay_if_nothing_else_changes() {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let custom = GroupVersionKind::new("example.com", "v1", "Custom");
        let object = |time: &str, manager: &str, data: Value, fields: Value| {
            let entry = value!({"manager": (manager), "operation": "Apply", "time": (time), "fieldsV1": (fields)});
            value!({"metadata": {"name": "a", "managedFields": [(entry)]}, "data": (data)})
        };
        let read = value!({"f:data": {}});
        let old = object("2020-01-01T00:00:00Z", "m", Value::Null, read.clone());
        for (kind, manager, data, kept) in [
            (&kind, "m", Value::Null, true),
            (&kind, "m", Value::map(), true),
            (&custom, "m", Value::map(), false),
            (&kind, "m", value!({"a": "b"}), false),
            (&kind, "n", Value::Null, false),
        ] {
            for fields in [read.clone(), Value::Raw(object::Raw::new(r#"{"f:data":{}}"#))] {
                let mut new = object("2021-01-01T00:00:00Z", manager, data.clone(), fields);
                let sent = new.clone();
                keep_managed_times(kind, &mut new, &old);
                assert_eq!(new.at(MANAGED_FIELDS) == old.at(MANAGED_FIELDS), kept, "{sent:?}");
                assert!(kept || new == sent);
            }
        }
    }
}
