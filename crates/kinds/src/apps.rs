//! The apps group: controllers that run pods from a template.

mod controllerrevision;
mod daemonset;
mod deployment;
mod replicaset;
mod shared;
mod statefulset;

use std::sync::Arc;

use crate::Strategies;

pub(crate) use shared::{name_warning, selector_cell};

pub fn strategies() -> Strategies {
    vec![
        ("apps", "deployments", Arc::new(deployment::Deployment)),
        ("apps", "replicasets", Arc::new(replicaset::ReplicaSet)),
        ("apps", "statefulsets", Arc::new(statefulset::StatefulSet)),
        ("apps", "daemonsets", Arc::new(daemonset::DaemonSet)),
        ("apps", "controllerrevisions", Arc::new(controllerrevision::ControllerRevision)),
    ]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn deployments() {
        check(deployment::Deployment, "apps/v1 Deployment", include_str!("../data/cases/deployment.txt"));
    }

    #[test]
    fn replica_sets() {
        check(replicaset::ReplicaSet, "apps/v1 ReplicaSet", include_str!("../data/cases/replicaset.txt"));
    }

    #[test]
    fn stateful_sets() {
        check(statefulset::StatefulSet, "apps/v1 StatefulSet", include_str!("../data/cases/statefulset.txt"));
    }

    #[test]
    fn daemon_sets() {
        check(daemonset::DaemonSet, "apps/v1 DaemonSet", include_str!("../data/cases/daemonset.txt"));
    }

    #[test]
    fn controller_revisions() {
        check(
            controllerrevision::ControllerRevision,
            "apps/v1 ControllerRevision",
            include_str!("../data/cases/controllerrevision.txt"),
        );
    }
}
