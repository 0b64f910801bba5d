//! The scheduling.k8s.io group.

mod podgroup;
mod priorityclass;
mod workload;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    const GROUP: &str = "scheduling.k8s.io";
    vec![
        (GROUP, "priorityclasses", Arc::new(priorityclass::PriorityClass)),
        (GROUP, "workloads", Arc::new(workload::Workload)),
        (GROUP, "podgroups", Arc::new(podgroup::PodGroup)),
        (GROUP, "compositepodgroups", Arc::new(podgroup::CompositePodGroup)),
    ]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::{check, check_with_all_features};

    #[test]
    fn priority_classes() {
        check(
            priorityclass::PriorityClass,
            "scheduling.k8s.io/v1 PriorityClass",
            include_str!("../data/cases/priorityclass.txt"),
        );
    }

    #[test]
    fn workloads() {
        let cases = include_str!("../data/cases/workload.txt");
        check_with_all_features(workload::Workload, "scheduling.k8s.io/v1beta1 Workload", cases);
    }

    #[test]
    fn pod_groups() {
        let cases = include_str!("../data/cases/podgroup.txt");
        check_with_all_features(podgroup::PodGroup, "scheduling.k8s.io/v1beta1 PodGroup", cases);
    }

    #[test]
    fn groups_of_pod_groups() {
        let cases = include_str!("../data/cases/compositepodgroup.txt");
        check_with_all_features(podgroup::CompositePodGroup, "scheduling.k8s.io/v1alpha3 CompositePodGroup", cases);
    }
}
