//! The rbac group.

mod binding;
pub mod escalation;
mod role;

use std::sync::Arc;

use crate::Strategies;

const GROUP: &str = "rbac.authorization.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "roles", Arc::new(role::Role { namespaced: true })),
        (GROUP, "clusterroles", Arc::new(role::Role { namespaced: false })),
        (GROUP, "rolebindings", Arc::new(binding::Binding { namespaced: true })),
        (GROUP, "clusterrolebindings", Arc::new(binding::Binding { namespaced: false })),
    ]
}
