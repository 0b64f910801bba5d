//! The admissionregistration group. What expressions say is not looked at here, only that they are there.

mod binding;
mod conditions;
mod matching;
mod policy;
mod rules;
mod webhook;
pub mod webhook_client;

use std::sync::Arc;

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
