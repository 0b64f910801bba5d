//! The storagemigration group.

mod storageversionmigration;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("storagemigration.k8s.io", "storageversionmigrations", Arc::new(storageversionmigration::Migration))]
}
