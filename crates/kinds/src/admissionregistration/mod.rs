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
