//! The discovery group.

mod endpointslice;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("discovery.k8s.io", "endpointslices", Arc::new(endpointslice::EndpointSlice))]
}
