//! The scheduling.k8s.io group.

mod priorityclass;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("scheduling.k8s.io", "priorityclasses", Arc::new(priorityclass::PriorityClass))]
}
