//! The admissionregistration group. What expressions say is not looked at here, only that they are there.

mod binding;
mod conditions;
mod matching;
mod policy;
mod rules;
mod webhook;
pub mod webhook_client;

use std::sync::Arc;

use object::{Cursor, Errors, Meta, Value};
use registry::Context;

use crate::Strategies;

/// Resources that are stored and validated but not enforced yet, so that clients who write one are warned. A row is deleted with
/// the change that enforces it.
const NOT_ENFORCED: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The warning for a resource of [`NOT_ENFORCED`].
fn not_enforced(resource: &str) -> Vec<String> {
    let warning = || format!("{resource} are not enforced by this server yet: it has no effect on any request");
    NOT_ENFORCED.contains(&resource).then(warning).into_iter().collect()
}

/// The end of the names of configurations that come from files. Objects of the API cannot have them.
const STATIC_SUFFIX: &str = ".static.k8s.io";

fn reserved() -> String {
    let suffix = object::quote(STATIC_SUFFIX);
    format!(
        "names ending with {suffix} are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

/// Refuses a new object whose name is reserved for configurations from files.
fn check_name(cx: &Context, object: &Cursor, errors: &mut Errors) {
    let name = object.at(&["metadata", "name"]);
    if name.str().ends_with(STATIC_SUFFIX) && cx.features.enabled("ManifestBasedAdmissionControlConfig") {
        name.invalid(errors, reserved());
    }
}

/// Warns about a reserved name where it is not refused.
fn name_warning(cx: &Context, object: &Value, old: Option<&Value>) -> Option<String> {
    let refused = old.is_none() && cx.features.enabled("ManifestBasedAdmissionControlConfig");
    (object.name().ends_with(STATIC_SUFFIX) && !refused).then(|| format!("metadata.name: {}", reserved()))
}

const GROUP: &str = "admissionregistration.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "validatingwebhookconfigurations", Arc::new(webhook::Webhooks { mutating: false })),
        (GROUP, "mutatingwebhookconfigurations", Arc::new(webhook::Webhooks { mutating: true })),
        (GROUP, "validatingadmissionpolicies", Arc::new(policy::Policy { mutating: false })),
        (GROUP, "mutatingadmissionpolicies", Arc::new(policy::Policy { mutating: true })),
        (GROUP, "validatingadmissionpolicybindings", Arc::new(binding::Binding { mutating: false })),
        (GROUP, "mutatingadmissionpolicybindings", Arc::new(binding::Binding { mutating: true })),
    ]
}
