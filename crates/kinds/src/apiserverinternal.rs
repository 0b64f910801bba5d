//! The apiserverinternal group.

mod storageversion;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("internal.apiserver.k8s.io", "storageversions", Arc::new(storageversion::StorageVersion))]
}
