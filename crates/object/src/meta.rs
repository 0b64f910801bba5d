//! [`Meta`]: the parts of `metadata` the server itself reads and writes, as methods on [`Value`].

use crate::{GroupVersionKind, Map, Str, Value};

/// Metadata accessors for an object. Getters answer with the zero value where a field is missing, as upstream does.
pub trait Meta {
    /// The object.
    fn object(&self) -> &Value;
    /// The object, to be changed.
    fn object_mut(&mut self) -> &mut Value;

    /// The apiVersion, "" if there is none.
    fn api_version(&self) -> &str {
        self.object().str_at(&["apiVersion"])
    }

    /// The kind, "" if there is none.
    fn kind(&self) -> &str {
        self.object().str_at(&["kind"])
    }

    /// Whether it states this type.
    fn is_of_type(&self, gvk: &GroupVersionKind) -> bool {
        self.kind() == gvk.kind && gvk.has_api_version(self.api_version())
    }

    /// Sets apiVersion and kind.
    fn set_type(&mut self, gvk: &GroupVersionKind) {
        if self.is_of_type(gvk) {
            return;
        }
        self.object_mut().set(&["apiVersion"], gvk.group_version().to_string());
        self.object_mut().set(&["kind"], gvk.kind.clone());
    }

    /// The metadata, null if there is none.
    fn metadata(&self) -> &Value {
        self.object().field("metadata")
    }

    /// The metadata, which is made if there is none.
    fn metadata_mut(&mut self) -> &mut Map {
        self.object_mut().slot(&["metadata"]).make_map()
    }

    /// A text of the metadata, "" if there is none.
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

    /// metadata.name, "" if there is none.
    fn name(&self) -> &str {
        self.meta_str("name")
    }

    /// metadata.generateName, "" if there is none.
    fn generate_name(&self) -> &str {
        self.meta_str("generateName")
    }

    /// metadata.namespace, "" if there is none.
    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }

    /// metadata.uid, "" if there is none.
    fn uid(&self) -> &str {
        self.meta_str("uid")
    }

    /// metadata.resourceVersion, "" if there is none.
    fn resource_version(&self) -> &str {
        self.meta_str("resourceVersion")
    }

    /// metadata.generation, 0 if there is none.
    fn generation(&self) -> i64 {
        self.metadata().field("generation").as_int().unwrap_or(0)
    }

    /// Sets metadata.generation.
    fn set_generation(&mut self, generation: i64) {
        self.metadata_mut().insert("generation", generation);
    }

    /// metadata.deletionTimestamp, "" if there is none.
    fn deletion_timestamp(&self) -> &str {
        self.meta_str("deletionTimestamp")
    }

    /// Whether the object was deleted and is still there.
    fn is_deleting(&self) -> bool {
        !self.deletion_timestamp().is_empty()
    }

    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata().field("labels").get(key)?.as_str()
    }

    /// The value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata().field("annotations").get(key)?.as_str()
    }

    /// Sets an annotation.
    fn set_annotation(&mut self, key: &str, value: &str) {
        self.object_mut().set(&["metadata", "annotations", key], value);
    }

    /// The labels, sorted by key.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.metadata().field("labels").as_map();
        labels.into_iter().flat_map(Map::iter).filter_map(|(key, value)| Some((key, value.as_str()?)))
    }

    /// The finalizers, in their order.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata().list_at(&["finalizers"]).iter().filter_map(Value::as_str)
    }

    /// The owner references, in their order.
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
