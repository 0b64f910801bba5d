//! Checking a change of an object: what the server keeps of the old state, and what the kind's rules say of the new one.

use futures::future::BoxFuture;
use object::{Cursor, Errors, GroupKind, GroupVersionKind, Meta, Path, Value};

use crate::create::wipe_system_fields;
use crate::reserved::Reserved;
use crate::write::{Draft, Write};
use crate::{Context, Error, MODIFIED, ResourceStorage, UpdateScope, metadata};

impl Write<'_> {
    /// Makes what is to be stored complete, reserves what it needs, and checks it by the rules of its kind.
    pub fn check<'a>(&'a self, mut new: Value, old: Option<&'a Value>) -> BoxFuture<'a, Result<Draft, Error>> {
        Box::pin(async move {
            let Some(old) = old else {
                // Where an update creates, a version that it names is no reason to refuse it.
                check_version_form(new.resource_version())?;
                wipe_system_fields(&mut new);
                return self.storage.draft(self.cx, new).await;
            };
            self.check_change(new, old).await
        })
    }

    async fn check_change(&self, mut new: Value, old: &Value) -> Result<Draft, Error> {
        let (storage, cx) = (self.storage, self.cx);
        storage.check_version(self.name, &mut new, old)?;
        let reserved = Reserved::new(storage.strategy.begin_update(cx, &mut new, old).await?);
        if let Err(error) = storage.before_update(cx, &mut new, old, self.options.scope).await {
            reserved.give_back().await;
            return Err(error);
        }
        keep_managed_times(&storage.kind, &mut new, old);
        let is_last = storage.is_finished(&new, old);
        Ok(Draft { object: new, reserved, is_last })
    }
}

impl ResourceStorage {
    /// A resourceVersion in the request must be the current one; none at all means "whatever is there", where allowed.
    fn check_version(&self, name: &str, new: &mut Value, old: &Value) -> Result<(), Error> {
        let given = new.resource_version();
        check_version_form(given)?;
        if matches!(given, "" | "0") {
            if !self.strategy.facts().allows_unconditional_update {
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
    ) -> Result<(), Error> {
        self.ensure_namespace(cx, new)?;
        let strategy = &self.strategy;
        if old.generation() != 0 || new.generation() != 0 {
            new.set_generation(old.generation());
        }
        match scope {
            UpdateScope::Object => {
                if strategy.facts().has_status {
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
        let counts = matches!(scope, UpdateScope::Object | UpdateScope::Subresource);
        if counts && strategy.facts().bumps_generation(new, old) {
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
        match scope {
            UpdateScope::Object => cx.warn(strategy.warnings(cx, new, Some(old))),
            UpdateScope::Status => cx.warn(strategy.status_warnings(cx, new, old)),
            UpdateScope::Subresource | UpdateScope::Other => {}
        }
        cx.warn(tolerated);
        strategy.canonicalize(new);
        Ok(())
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
        let facts = self.strategy.facts();
        let repeats = facts.repeats_metadata_errors;
        if repeats {
            let again: Vec<_> = errors.iter().skip(found).cloned().collect();
            again.into_iter().for_each(|error| errors.push(error));
        }
        let old_cursor = Cursor::root(old);
        match scope {
            UpdateScope::Object => {
                if facts.checks_updated_generate_name {
                    let check_name = |name: &str, prefix: bool| self.strategy.validate_name(cx, new, name, prefix);
                    metadata::validate_generate_name(&cursor.field("metadata"), &check_name, &mut errors);
                }
                if facts.checks_updated_finalizer_names {
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
        old.is_deleting() && grace == 0 && new.finalizers().next().is_none() && (self.strategy.facts().may_finish)(new)
    }
}

/// A status write changes `status` and metadata; everything else stays what it was.
fn keep_all_but_status(new: &mut Value, old: &Value) {
    let mut sent = std::mem::replace(new, old.clone());
    new.set(&["metadata"], sent.remove(&["metadata"]).unwrap_or_default());
    match sent.remove(&["status"]).filter(|status| !status.is_null()) {
        Some(status) => new.set(&["status"], status),
        None => drop(new.remove(&["status"])),
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
