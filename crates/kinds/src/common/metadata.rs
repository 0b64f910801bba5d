//! Metadata of things that are no objects themselves: pod templates and claim templates.

use object::{Cursor, Errors, Value, names};

use super::checks::report;
use super::selector;

/// All annotations of an object together may not be larger.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// Checks a map of annotations; keys may be in upper case, errors are reported at the map itself.
pub fn annotations(annotations: &Cursor, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        report(errors, annotations.path(), key, names::label_key(&key.to_lowercase()));
        size += key.len() + value.str().len();
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.too_long(annotations.path(), ANNOTATIONS_MAX_BYTES);
    }
}

/// Puts back what the writers of some kinds' status may not touch: all metadata but its version and managers.
pub fn keep_for_status(new: &mut Value, old: &Value) {
    let fields =
        ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];
    for field in fields {
        new.keep(&["metadata", field], old);
    }
}

/// Metadata of a claim template: labels and annotations, and nothing else.
pub fn of_template(metadata: &Cursor, errors: &mut Errors) {
    /// The other fields, and what upstream calls them in its errors.
    const FORBIDDEN: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    annotations(&metadata.field("annotations"), errors);
    selector::labels(&metadata.field("labels"), errors);
    for (field, shown) in FORBIDDEN {
        // Upstream has pointers to some values: an empty list and a grace period of 0 are set.
        let field = metadata.field(field);
        let is_pointer = matches!(field.value(), Value::List(_)) || shown == "deletionGracePeriodSeconds";
        if !field.is_empty() || (is_pointer && !field.value().is_null()) {
            errors.forbidden(&metadata.path().field(shown), "cannot be set");
        }
    }
}
