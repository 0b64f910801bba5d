//! What a CSI driver reports about the health of a volume.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names};
use registry::Context;

use crate::common::checks::{Checks, same};

const CONDITIONS_MAX: usize = 16;
const REASON_MAX_BYTES: usize = 256;
const MESSAGE_MAX_BYTES: usize = 1024;
const STATUSES: [&str; 3] = ["DataLoss", "Degraded", "Inaccessible"];

pub fn validate_reasons(health: &Cursor, errors: &mut Errors) {
    for reason in health.field("healthConditions").each().map(|condition| condition.field("reason")) {
        if !reason.str().is_empty() && !is_reason(reason.str()) {
            let message = "a condition reason must start with alphabetic character, optionally followed by a string of \
                           alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
            let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            reason.bad(errors, names::regex_error(message, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples));
        }
    }
}

/// Conditions that did not change are left alone.
pub fn validate(_cx: &Context, health: &Cursor, old: &Value, errors: &mut Errors) {
    let conditions = health.field("healthConditions");
    if same(conditions.value(), old.field("healthConditions")) {
        return;
    }
    if conditions.len() > CONDITIONS_MAX {
        return errors.too_many(conditions.path(), conditions.len(), CONDITIONS_MAX);
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.each() {
        if !seen.insert((condition.field("status").str(), condition.field("reason").str())) {
            condition.duplicate(errors);
        }
    }
    for condition in conditions.each() {
        condition.field("status").require_one_of(errors, &STATUSES);
        let (reason, message) = (condition.field("reason"), condition.field("message"));
        if reason.require(errors) && reason.str().len() > REASON_MAX_BYTES {
            errors.too_long(reason.path(), REASON_MAX_BYTES);
        }
        if message.str().len() > MESSAGE_MAX_BYTES {
            errors.too_long(message.path(), MESSAGE_MAX_BYTES);
        }
    }
}

fn is_reason(reason: &str) -> bool {
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && reason.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'))
}
