//! The node.k8s.io group.

mod runtimeclass;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("node.k8s.io", "runtimeclasses", Arc::new(runtimeclass::RuntimeClass))]
}
