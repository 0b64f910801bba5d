//! The apiextensions group.

mod definition;
mod structural;
mod validate;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("apiextensions.k8s.io", "customresourcedefinitions", Arc::new(definition::Definition))]
}
