//! The `ephemeralcontainers` subresource: containers for debugging can be added, and nothing else.

use object::{Cursor, Errors, Value, quote};
use registry::Context;

use super::{metadata_and_spec, prepare, update};
use crate::common::pod_spec::{Options, annotations, drop_disabled};
use crate::common::{diff, internal};

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

pub fn validate(new: &Cursor, old: &Cursor, options: &Options, errors: &mut Errors) {
    metadata_and_spec(new, options, errors);
    let (annotations, old_annotations) = (new.at(&["metadata", "annotations"]), old.at(&["metadata", "annotations"]));
    annotations::validate_update(&annotations, old_annotations.value(), &new.field("spec"), options, errors);
    if old_annotations.field(annotations::MIRROR).is_set() {
        return update::refuse(errors, "static pods do not support ephemeral containers");
    }
    let list = new.at(&LIST);
    for before in old.at(&LIST).each() {
        let name = before.field("name").str();
        // Patches do not keep the order; the last one of a name counts.
        let after = list.each().filter(|container| container.field("name").str() == name).last();
        match after {
            None => {
                let detail = format!("existing ephemeral containers {} may not be removed\n", quote(name));
                list.forbidden(errors, detail);
            }
            Some(after) if !internal::same("EphemeralContainer", before.value(), after.value()) => {
                let shown = |container: &Cursor| internal::pretty("EphemeralContainer", container.value());
                let difference = diff::unified(&shown(&before), &shown(&after));
                let detail = format!("existing ephemeral containers {} may not be changed\n{difference}", quote(name));
                list.forbidden(errors, detail);
            }
            Some(_) => {}
        }
    }
}
