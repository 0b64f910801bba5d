//! The storage.k8s.io group: classes of volumes, drivers that provide them, and where volumes are attached.

mod csidriver;
mod csinode;
mod csistoragecapacity;
mod storageclass;
mod volumeattachment;
mod volumeattributesclass;

use std::sync::Arc;

use object::{Cursor, Errors, Value, names};

use crate::Strategies;

const PARAMETERS_MAX_ENTRIES: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub fn strategies() -> Strategies {
    const GROUP: &str = "storage.k8s.io";
    vec![
        (GROUP, "storageclasses", Arc::new(storageclass::StorageClass)),
        (GROUP, "volumeattributesclasses", Arc::new(volumeattributesclass::VolumeAttributesClass)),
        (GROUP, "csidrivers", Arc::new(csidriver::CsiDriver)),
        (GROUP, "csinodes", Arc::new(csinode::CsiNode)),
        (GROUP, "csistoragecapacities", Arc::new(csistoragecapacity::CsiStorageCapacity)),
        (GROUP, "volumeattachments", Arc::new(volumeattachment::VolumeAttachment)),
    ]
}

/// A driver's name where it may be in any case; errors show it in lower case.
fn validate_driver(driver: &Cursor, errors: &mut Errors) {
    let lower = driver.str().to_lowercase();
    if !lower.is_empty() {
        crate::common::checks::report(errors, driver.path(), &lower, names::label_key(&lower));
    }
}

/// What a class tells its driver: not too much of it.
fn validate_parameters(parameters: &Cursor, errors: &mut Errors) {
    if parameters.len() > PARAMETERS_MAX_ENTRIES {
        return errors.too_long(parameters.path(), PARAMETERS_MAX_ENTRIES);
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.invalid(parameters.path(), "", "field can not be empty.");
        }
        size += key.len() + value.str().len();
    }
    if size > PARAMETERS_MAX_BYTES {
        errors.too_long(parameters.path(), PARAMETERS_MAX_BYTES);
    }
}

/// Reports a change of a field, in the words of upstream's declarative rules: they do not show the value.
fn immutable(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    if !crate::common::checks::same(new.value(), old.value()) {
        new.invalid_as(errors, Value::Null, "field is immutable");
    }
}

/// A flag that defaults set, so that it is only missing from objects that were not defaulted.
fn require_flag(spec: &Cursor, field: &str, shown: &str, errors: &mut Errors) {
    if !spec.field(field).is_set() {
        errors.required(&spec.path().field(shown), "");
    }
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    #[test]
    fn storage_classes() {
        check(
            storageclass::StorageClass,
            "storage.k8s.io/v1 StorageClass",
            include_str!("../data/cases/storageclass.txt"),
        );
    }

    #[test]
    fn volume_attributes_classes() {
        check(
            volumeattributesclass::VolumeAttributesClass,
            "storage.k8s.io/v1 VolumeAttributesClass",
            include_str!("../data/cases/volumeattributesclass.txt"),
        );
    }

    #[test]
    fn drivers() {
        check(csidriver::CsiDriver, "storage.k8s.io/v1 CSIDriver", include_str!("../data/cases/csidriver.txt"));
    }

    #[test]
    fn nodes() {
        check(csinode::CsiNode, "storage.k8s.io/v1 CSINode", include_str!("../data/cases/csinode.txt"));
    }

    #[test]
    fn capacities() {
        check(
            csistoragecapacity::CsiStorageCapacity,
            "storage.k8s.io/v1 CSIStorageCapacity",
            include_str!("../data/cases/csistoragecapacity.txt"),
        );
    }

    #[test]
    fn attachments() {
        check(
            volumeattachment::VolumeAttachment,
            "storage.k8s.io/v1 VolumeAttachment",
            include_str!("../data/cases/volumeattachment.txt"),
        );
    }
}
