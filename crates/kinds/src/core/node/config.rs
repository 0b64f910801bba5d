//! References to ConfigMaps with a kubelet's configuration. The feature is gone; nodes that have one are still checked.

use object::{Cursor, Errors, names};

use crate::common::checks::Checks;
use crate::common::internal;

pub fn validate_spec(source: &Cursor, errors: &mut Errors) {
    let map = source.field("configMap");
    if map.is_set() {
        for field in ["uid", "resourceVersion"] {
            if !map.field(field).is_empty() {
                map.field(field).forbidden(errors, format!("{field} must not be set in spec"));
            }
        }
        validate_reference(&map, errors);
    }
    must_have_a_reference(source, errors);
}

pub fn validate_status(config: &Cursor, errors: &mut Errors) {
    for field in ["assigned", "active", "lastKnownGood"] {
        let source = config.field(field);
        let map = source.field("configMap");
        if map.is_set() {
            map.field("uid").require(errors);
            map.field("resourceVersion").require(errors);
            validate_reference(&map, errors);
        }
        must_have_a_reference(&source, errors);
    }
}

fn must_have_a_reference(source: &Cursor, errors: &mut Errors) {
    if source.is_set() && !source.field("configMap").is_set() {
        source.invalid_as(
            errors,
            internal::shown("NodeConfigSource", source.value()),
            "exactly one reference subfield must be non-nil",
        );
    }
}

fn validate_reference(map: &Cursor, errors: &mut Errors) {
    let (namespace, name, key) = (map.field("namespace"), map.field("name"), map.field("kubeletConfigKey"));
    if namespace.require(errors) {
        namespace.check_name(errors, names::name_is_dns_label);
    }
    if name.require(errors) {
        name.check_name(errors, names::name_is_dns_subdomain);
    }
    if key.require(errors) {
        key.check(errors, names::config_map_key);
    }
}
