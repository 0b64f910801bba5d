//! Who is asked before a pod is evicted.

use object::{Cursor, Errors, names};

use crate::common::checks::{Checks, IS_NEGATIVE};

const MAX_RESPONDERS: usize = 10;
const PRIORITY_MAX: i64 = 100_000;
/// Priorities below are for responders of Kubernetes itself, which are not in pods yet.
const PRIORITY_RESERVED: i64 = 1000;

pub fn validate(responders: &Cursor, errors: &mut Errors) {
    if responders.len() > MAX_RESPONDERS {
        return errors.too_many(responders.path(), responders.len(), MAX_RESPONDERS);
    }
    let all: Vec<Cursor> = responders.each().collect();
    for (i, responder) in all.iter().enumerate() {
        let name = responder.field("name").str();
        if all.iter().take(i).any(|before| before.field("name").str() == name) {
            responder.duplicate(errors);
        }
    }
    for responder in &all {
        let (name, priority) = (responder.field("name"), responder.field("priority"));
        if name.require(errors) {
            if is_reserved(name.str()) {
                name.bad(errors, "domain names *.k8s.io, *.kubernetes.io are reserved");
            }
            name.check(errors, names::prefixed_label_key);
        }
        match priority.opt_int() {
            None => priority.required(errors, ""),
            Some(value) if value < 0 => priority.invalid(errors, IS_NEGATIVE),
            Some(value) if value < PRIORITY_RESERVED => {
                priority.invalid(errors, "priorities 0-999 are reserved for responders with *.k8s.io suffix");
            }
            Some(value) if value > PRIORITY_MAX => {
                priority.invalid(errors, format!("must be less than or equal to {PRIORITY_MAX}"));
            }
            Some(_) => {}
        }
    }
}

fn is_reserved(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or("").to_lowercase();
    let domain = domain.trim().trim_end_matches('.');
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|reserved| domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}
