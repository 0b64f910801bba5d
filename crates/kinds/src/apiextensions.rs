//! The apiextensions group.

mod definition;
mod v1;
mod v1beta1;

mod validate;

mod approval;
mod conversion;
mod conversion_rules;
mod defaults;
mod demands;
mod field_path;
mod openapi;
mod pattern;
mod schemas;
mod structural;
mod warnings;

use std::sync::Arc;

use object::{Cursor, Errors, GroupVersionResource, Path, Value};
use registry::Catalog;

pub use approval::Approval;
pub use v1::{to_stored, to_v1};

use crate::{Conversions, Strategies};

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";

pub fn strategies() -> Strategies {
    vec![(GROUP, RESOURCE, Arc::new(definition::Definition))]
}

/// Definitions are stored as v1beta1, which is not served any more.
pub fn conversions() -> Conversions {
    vec![(GROUP, "v1", RESOURCE, Arc::new(v1::DefinitionsV1))]
}

/// Serves definitions in v1beta1 as well, which upstream has removed.
pub fn serve_v1beta1(catalog: &mut Catalog) {
    catalog.add_version(
        &GroupVersionResource::new(GROUP, "v1", RESOURCE),
        "v1beta1",
        Arc::new(v1beta1::DefinitionsV1beta1),
    );
}

/// Whether the certificates of a definition's conversion webhook can be used, in the form of v1.
pub fn is_ca_bundle_valid(definition: &Value) -> bool {
    conversion::is_ca_bundle_valid(&Cursor::root(definition).field("spec"))
}

/// What is not structural about the schemas of a definition, in the form of v1. The error is about a schema that has no
/// structural form at all.
pub fn structural_problems(definition: &Value) -> Result<Errors, String> {
    let spec = Cursor::root(definition).field("spec");
    let mut errors = Errors::new();
    let preserves = spec.field("preserveUnknownFields");
    if preserves.bool() {
        preserves.invalid(&mut errors, "must be false");
    }
    for (i, version) in spec.field("versions").each().enumerate() {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        if !schema.is_set() {
            continue;
        }
        structural::is_convertible(schema.value()).map_err(|why| {
            format!("failed to check validation schema for version {}: {why}", version.field("name").str())
        })?;
        let path = Path::of("spec.versions").index(i).field("schema").field("openAPIV3Schema");
        structural::validate(&Cursor::new(schema.value(), path), &mut errors);
    }
    Ok(errors)
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check_converted;

    #[test]
    fn definitions() {
        let cases = include_str!("../data/cases/customresourcedefinition.txt");
        check_converted(
            definition::Definition,
            &v1::DefinitionsV1,
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            cases,
        );
    }
}
