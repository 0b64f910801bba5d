//! The apiextensions group.

mod defaults;
mod definition;
mod field_path;
mod openapi;
mod pattern;
mod structural;
mod v1;
mod validate;
mod warnings;

use std::sync::Arc;

pub use v1::{to_stored, to_v1};

use crate::{Conversions, Strategies};

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";

pub fn strategies() -> Strategies {
    vec![(GROUP, RESOURCE, Arc::new(definition::Definition))]
}

/// Definitions are stored as v1beta1, which is not served any more.
pub fn conversions() -> Conversions {
    vec![(GROUP, "v1", RESOURCE, Arc::new(v1::Definitions))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn definitions() {
        let cases = include_str!("../../data/cases/customresourcedefinition.txt");
        check(definition::Definition, "apiextensions.k8s.io/v1 CustomResourceDefinition", cases);
    }
}
