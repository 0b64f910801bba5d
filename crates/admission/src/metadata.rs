//! What a webhook or policy may have broken in the metadata of an object, put right.

use object::{Meta, Value};

use crate::Attributes;

/// Keeps the managed fields as they were if what is there now cannot be read.
pub(crate) fn keep_managed_fields(attributes: &Attributes<'_>, before: &Value, object: &mut Value) {
    let Err(why) = patch::apply::validate_managed_fields(object) else { return };
    match before.metadata().field("managedFields") {
        Value::Null => drop(object.metadata_mut().remove("managedFields")),
        fields => drop(object.metadata_mut().insert("managedFields", fields.clone())),
    }
    attributes.warn(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {why}"
    ));
}
