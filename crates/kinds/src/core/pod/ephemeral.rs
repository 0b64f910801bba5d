//! The `ephemeralcontainers` subresource: containers for debugging can be added, and nothing else.

use object::{Cursor, Errors, Value, quote};
use registry::Context;

use super::{metadata_and_spec, prepare, update};
use crate::common::pod_spec::{PodValidationOptions, annotations, drop_disabled};
use crate::common::{diff, internal, named};

const LIST: [&str; 2] = ["spec", "ephemeralContainers"];

/// Puts back everything but the ephemeral containers.
pub fn prepare(cx: &Context, new: &mut Value, old: &Value) {
    let containers = new.at(&LIST).clone();
    new.keep(&["spec"], old);
    new.keep(&["status"], old);
    prepare::keep_metadata(new, old);
    match containers {
        Value::Null => {
            new.remove(&LIST);
        }
        containers => new.set(&LIST, containers),
    }
    drop_disabled(cx, new, Some(old));
}

pub fn validate(new: &Cursor, old: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    metadata_and_spec(new, options, errors);
    let (annotations, old_annotations) = (new.at(&["metadata", "annotations"]), old.at(&["metadata", "annotations"]));
    annotations::validate_update(&annotations, old_annotations.value(), &new.field("spec"), options, errors);
    if old_annotations.field(annotations::MIRROR).is_set() {
        return update::refuse(errors, "static pods do not support ephemeral containers");
    }
    let list = new.at(&LIST);
    // Patches do not keep the order; the last one of a name counts.
    let now = named::last_by_name(new.value().list_at(&LIST));
    for before in old.at(&LIST).each() {
        if errors.is_full() {
            return;
        }
        let name = before.field("name").str();
        match now.get(name) {
            None => {
                let detail = format!("existing ephemeral containers {} may not be removed\n", quote(name));
                list.forbidden(errors, detail);
            }
            Some(after) if !internal::same("EphemeralContainer", before.value(), after) => {
                let shown = |container: &Value| internal::pretty("EphemeralContainer", container);
                let difference = diff::unified(&shown(before.value()), &shown(after));
                let detail = format!("existing ephemeral containers {} may not be changed\n{difference}", quote(name));
                list.forbidden(errors, detail);
            }
            Some(_) => {}
        }
    }
}
