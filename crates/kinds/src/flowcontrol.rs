//! The flowcontrol group.

mod flowschema;
mod prioritylevel;

use std::collections::BTreeSet;
use std::sync::Arc;

use object::{Cursor, Errors, Value};

use crate::Strategies;
use crate::common::checks::Checks;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "flowschemas", Arc::new(flowschema::FlowSchema)),
        (GROUP, "prioritylevelconfigurations", Arc::new(prioritylevel::PriorityLevel)),
    ]
}

/// What writers of the status may not touch: all metadata, but who manages which field, which the write is about.
fn keep_metadata(new: &mut Value, old: &Value) {
    let managed = new.at(&["metadata", "managedFields"]).clone();
    new.keep(&["metadata"], old);
    if !managed.is_null() {
        new.set(&["metadata", "managedFields"], managed);
    }
}

fn validate_conditions(conditions: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for kind in conditions.each().map(|condition| condition.field("type")) {
        if !seen.insert(kind.str()) {
            errors.duplicate(kind.path(), kind.str());
        }
        kind.require(errors);
    }
}
