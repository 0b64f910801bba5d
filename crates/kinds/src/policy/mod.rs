//! The policy group.

pub mod eviction;
mod poddisruptionbudget;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("policy", "poddisruptionbudgets", Arc::new(poddisruptionbudget::PodDisruptionBudget))]
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
            include_str!("../../data/cases/poddisruptionbudget.txt"),
        );
    }
}
