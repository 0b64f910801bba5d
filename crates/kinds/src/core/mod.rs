//! The core group.

pub mod pod;
pub mod podtemplate;
pub mod replicationcontroller;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![
        ("", "pods", Arc::new(pod::Pod)),
        ("", "podtemplates", Arc::new(podtemplate::PodTemplate)),
        ("", "replicationcontrollers", Arc::new(replicationcontroller::ReplicationController)),
    ]
}
