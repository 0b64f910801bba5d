//! `metav1.Condition`, as most statuses hold them.

use std::collections::BTreeSet;

use object::timestamp::Time;
use object::{Cursor, Errors, Timestamp, Value, names};

use super::checks::Checks;

const REASON_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;

/// Checks a list of conditions.
pub fn validate(conditions: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in conditions.each() {
        let kind = condition.field("type");
        if !seen.insert(kind.str()) {
            errors.duplicate(condition.path(), kind.str());
        }
        validate_one(&condition, errors);
    }
}

/// Checks a condition by itself.
pub fn validate_one(condition: &Cursor, errors: &mut Errors) {
    let kind = condition.field("type");
    if kind.str().is_empty() {
        kind.required(errors, "is required");
    } else {
        kind.check(errors, names::label_key);
    }
    condition.field("status").require_one_of(errors, &["False", "True", "Unknown"]);
    let observed = condition.field("observedGeneration");
    if observed.int() < 0 {
        observed.invalid(errors, "must be greater than or equal to zero");
    }
    condition.field("lastTransitionTime").require(errors);
    let (why, message) = (condition.field("reason"), condition.field("message"));
    if why.require(errors) {
        why.check(errors, reason);
        if why.str().len() > REASON_MAX_BYTES {
            errors.too_long(why.path(), REASON_MAX_BYTES);
        }
    }
    if message.str().len() > MESSAGE_MAX_BYTES {
        errors.too_long(message.path(), MESSAGE_MAX_BYTES);
    }
}

/// What is wrong with a condition's reason.
pub fn reason(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let fine = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'));
    if fine {
        return Vec::new();
    }
    let message = "a condition reason must start with alphabetic character, optionally followed by a string of \
                   alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![names::regex_error(message, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)]
}

/// The condition of a type, null if there is none.
pub fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition.str_at(&["type"]) == kind)
}

/// Adds a condition to a list or replaces the one of its type. The time of transition moves only with the status.
pub fn set(now: Timestamp, conditions: &mut Value, mut condition: Value) {
    let list = conditions.make_list();
    match list.iter_mut().find(|other| other.field("type") == condition.field("type")) {
        None => {
            condition.set_default(&["lastTransitionTime"], Time(now).to_string());
            list.push(condition);
        }
        Some(old) => {
            if old.field("status") == condition.field("status") {
                condition.keep(&["lastTransitionTime"], old);
            } else {
                condition.set_default(&["lastTransitionTime"], Time(now).to_string());
            }
            *old = condition;
        }
    }
}
