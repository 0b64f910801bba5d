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
