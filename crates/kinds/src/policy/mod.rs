//! The policy group.

pub mod eviction;
mod poddisruptionbudget;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("policy", "poddisruptionbudgets", Arc::new(poddisruptionbudget::PodDisruptionBudget))]
}
