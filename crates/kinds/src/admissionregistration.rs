//! The admissionregistration group.

mod binding;
mod conditions;
mod expressions;
mod matching;
mod policy;
mod rules;
mod webhook;
pub mod webhook_client;

use std::sync::Arc;

use object::{Cursor, Errors, Meta, Value};
use registry::Context;

use crate::Strategies;

const MATCH_CONDITION: &str = "io.k8s.api.admissionregistration.v1.MatchCondition";

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
