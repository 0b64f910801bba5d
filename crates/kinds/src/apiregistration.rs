//! The apiregistration group.

mod apiservice;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("apiregistration.k8s.io", "apiservices", Arc::new(apiservice::ApiService))]
}
