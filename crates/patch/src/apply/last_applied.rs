//! The way from client-side to server-side apply.
//!
//! `kubectl apply` used to leave its last configuration in an annotation. When kubectl then applies on the server, fields
//! that are as that configuration left them are kubectl's own, whatever managedFields says; and the annotation
//! is kept up to date for the way back.

use codec::Notes;
use object::{Meta, Timestamp, Value};

use super::conflict::Conflict;
use super::managed::{self, Managed};
use super::{FieldManager, gvk_of};
use crate::Error;
use crate::typed::{Duplicates, compare, field_set};
use crate::{FieldSet, go};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Only this manager is migrated; others opt out by their name.
const KUBECTL: &str = "kubectl";
/// How much all annotations of an object may hold, keys and values.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

impl FieldManager<'_> {
    /// Applies, by force if all that stands in the way is what kubectl itself wrote from the client.
    pub(super) async fn apply_or_migrate(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<(Option<Value>, Managed), Error> {
        if manager != KUBECTL {
            return self.try_apply(live, config, managed, manager, force, now).await;
        }
        let conflicts = match self.try_apply(live, config, managed.clone(), manager, force, now).await {
            Err(Error::Conflicts(conflicts)) => conflicts,
            other => return other,
        };
        let Some(own) = self.last_applied_fields(live) else { return Err(Error::Conflicts(conflicts)) };
        let others: Vec<Conflict> = conflicts.into_iter().filter(|conflict| !own.has(&conflict.path)).collect();
        if !others.is_empty() {
            return Err(Error::Conflicts(others));
        }
        self.try_apply(live, config, managed, manager, true, now).await
    }

    /// The fields that are still as the annotation's configuration left them. None if there is no such configuration, or
    /// none that can be read in the request's version.
    fn last_applied_fields(&self, live: &Value) -> Option<FieldSet> {
        let text = live.annotation(ANNOTATION).filter(|text| !text.is_empty())?;
        let last = codec::json::decode(text.as_bytes(), None, &mut Notes::ignore()).ok()?;
        if gvk_of(&last) != self.gvk {
            return None;
        }
        let last = self.typed(&last, false, Duplicates::Refused).ok()?;
        let live = self.typed(live, self.kind.is_structured(), Duplicates::Refused).ok()?;
        let changes = compare(&last.value, &live.value, last.of).ok()?;
        let set = field_set(&last.value, last.of);
        Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
    }
}

/// Brings the annotation up to date after kubectl applied, if there is one.
pub(super) fn refresh(object: &mut Value, config: &Value, manager: &str) {
    if manager != KUBECTL || object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut last = config.clone();
    if let Some(annotations) = last.at_mut(&["metadata", "annotations"]).and_then(Value::as_map_mut) {
        annotations.remove(ANNOTATION);
    }
    managed::clear(&mut last);
    object.set_annotation(ANNOTATION, &format!("{}\n", go::json(&last)));
    let annotations = object.at(&["metadata", "annotations"]).as_map();
    let bytes: usize = annotations
        .into_iter()
        .flat_map(|map| map.iter())
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > MAX_ANNOTATIONS_BYTES {
        object.remove(&["metadata", "annotations", ANNOTATION]);
    }
}
