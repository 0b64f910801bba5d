//! [`Meta`]: the parts of `metadata` the server itself reads and writes, as methods on [`Value`].

use crate::{GroupVersionKind, Map, Str, Value};

/// Metadata accessors for an object. Getters answer with the zero value where a field is missing, as upstream does.
pub trait Meta {
    fn object(&self) -> &Value;
    fn object_mut(&mut self) -> &mut Value;

    fn api_version(&self) -> &str {
        self.object().str_at(&["apiVersion"])
    }

    fn kind(&self) -> &str {
        self.object().str_at(&["kind"])
    }

    /// Whether it states this type.
    fn is_of_type(&self, gvk: &GroupVersionKind) -> bool {
        self.kind() == gvk.kind && gvk.has_api_version(self.api_version())
    }

    fn set_type(&mut self, gvk: &GroupVersionKind) {
        if self.is_of_type(gvk) {
            return;
        }
        self.object_mut().set(&["apiVersion"], gvk.group_version().to_string());
        self.object_mut().set(&["kind"], gvk.kind.clone());
    }

    fn metadata(&self) -> &Value {
        self.object().field("metadata")
    }

    fn metadata_mut(&mut self) -> &mut Map {
        self.object_mut().slot(&["metadata"]).make_map()
    }

    fn meta_str(&self, field: &str) -> &str {
        self.metadata().str_at(&[field])
    }

    /// Sets a string field of metadata; "" takes it away.
    fn set_meta_str(&mut self, field: &str, value: &str) {
        if value.is_empty() {
            self.metadata_mut().remove(field);
        } else {
            self.metadata_mut().insert(Str::from(field), value);
        }
    }

    fn name(&self) -> &str {
        self.meta_str("name")
    }

    fn generate_name(&self) -> &str {
        self.meta_str("generateName")
    }

    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_str("uid")
    }

    fn resource_version(&self) -> &str {
        self.meta_str("resourceVersion")
    }

    fn generation(&self) -> i64 {
        self.metadata().field("generation").as_int().unwrap_or(0)
    }

    fn set_generation(&mut self, generation: i64) {
        self.metadata_mut().insert("generation", generation);
    }

    fn deletion_timestamp(&self) -> &str {
        self.meta_str("deletionTimestamp")
    }

    fn is_deleting(&self) -> bool {
        !self.deletion_timestamp().is_empty()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata().field("labels").get(key)?.as_str()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata().field("annotations").get(key)?.as_str()
    }

    fn set_annotation(&mut self, key: &str, value: &str) {
        self.object_mut().set(&["metadata", "annotations", key], value);
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.metadata().field("labels").as_map();
        labels.into_iter().flat_map(Map::iter).filter_map(|(key, value)| Some((key, value.as_str()?)))
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata().list_at(&["finalizers"]).iter().filter_map(Value::as_str)
    }

    fn owner_references(&self) -> &[Value] {
        self.metadata().list_at(&["ownerReferences"])
    }

    /// Removes owner references that say the same as an earlier one. Returns their uids, separated by commas; None if there
    /// were none.
    fn dedup_owner_references(&mut self) -> Option<String> {
        let mut seen = crate::Seen::new();
        let (kept, repeated): (Vec<&Value>, Vec<&Value>) =
            self.owner_references().iter().partition(|owner| seen.insert(owner));
        if repeated.is_empty() {
            return None;
        }
        let repeated = repeated.iter().map(|owner| owner.str_at(&["uid"])).collect::<Vec<_>>().join(", ");
        let kept: Vec<Value> = kept.into_iter().cloned().collect();
        self.metadata_mut().insert("ownerReferences", kept);
        Some(repeated)
    }
}

impl Meta for Value {
    fn object(&self) -> &Value {
        self
    }

    fn object_mut(&mut self) -> &mut Value {
        self
    }
}
