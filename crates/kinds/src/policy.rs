//! The policy group.

pub mod eviction;
mod poddisruptionbudget;

use std::sync::Arc;

use crate::{Conversions, Strategies};

pub fn strategies() -> Strategies {
    vec![("policy", "poddisruptionbudgets", Arc::new(poddisruptionbudget::PodDisruptionBudget))]
}

/// Budgets of `policy/v1beta1` are no longer served, but still read from storage.
pub fn conversions() -> Conversions {
    vec![("policy", "v1beta1", "poddisruptionbudgets", Arc::new(poddisruptionbudget::FromV1beta1))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn disruption_budgets() {
        check(
            poddisruptionbudget::PodDisruptionBudget,
            "policy/v1 PodDisruptionBudget",
            include_str!("../data/cases/poddisruptionbudget.txt"),
        );
    }
}
