//! The autoscaling group. Objects are stored as v2; v1 is a view on them.

mod columns;
mod horizontalpodautoscaler;
mod metrics;
mod v1;

use std::sync::Arc;

use crate::{Conversions, Strategies};

const RESOURCE: &str = "horizontalpodautoscalers";

/// What v1 has no fields for stands in annotations there, and never in what is stored.
mod annotations {
    pub const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
    pub const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
    pub const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
    pub const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
    pub const ALL: [&str; 6] = [
        METRICS,
        CURRENT_METRICS,
        CONDITIONS,
        BEHAVIOR,
        "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
        "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    ];

    pub fn drop(object: &mut object::Value) {
        for key in ALL {
            object.remove(&["metadata", "annotations", key]);
        }
    }
}

pub fn strategies() -> Strategies {
    vec![("autoscaling", RESOURCE, Arc::new(horizontalpodautoscaler::HorizontalPodAutoscaler))]
}

/// Group, version and resource of each version that is not stored as it is, and how it becomes what is.
pub fn conversions() -> Conversions {
    vec![("autoscaling", "v1", RESOURCE, Arc::new(v1::Autoscaling))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn autoscalers() {
        check(
            horizontalpodautoscaler::HorizontalPodAutoscaler,
            "autoscaling/v2 HorizontalPodAutoscaler",
            include_str!("../data/cases/horizontalpodautoscaler.txt"),
        );
    }
}
