//! The node.k8s.io group.

mod runtimeclass;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("node.k8s.io", "runtimeclasses", Arc::new(runtimeclass::RuntimeClass))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn runtime_classes() {
        check(
            runtimeclass::RuntimeClass,
            "node.k8s.io/v1 RuntimeClass",
            include_str!("../data/cases/runtimeclass.txt"),
        );
    }
}
