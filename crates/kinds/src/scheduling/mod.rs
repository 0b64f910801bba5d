//! The scheduling.k8s.io group.

mod priorityclass;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("scheduling.k8s.io", "priorityclasses", Arc::new(priorityclass::PriorityClass))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn priority_classes() {
        check(
            priorityclass::PriorityClass,
            "scheduling.k8s.io/v1 PriorityClass",
            include_str!("../../data/cases/priorityclass.txt"),
        );
    }
}
