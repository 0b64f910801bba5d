//! Volume attachments: a volume, the node it is to be attached to, and whether it is.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::volumes::csi_driver_name;
use crate::common::{metadata, versioned};
use crate::core::validate_inline_spec;

const SPEC: &str = "io.k8s.api.storage.v1.VolumeAttachmentSpec";
const ATTACHER_MAX_CHARACTERS: usize = 63;
const METADATA_MAX_BYTES: usize = 256 * 1024;
const MESSAGE_MAX_BYTES: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

pub struct VolumeAttachment;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    returns_deleted_object: true,
    ..Facts::WITH_STATUS
};

impl Strategy for VolumeAttachment {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_parts(object, errors);
        // Upstream's declarative rules come last.
        let attacher = object.at(&["spec", "attacher"]);
        if attacher.require(errors) {
            attacher.check(errors, names::long_name_caseless);
            if attacher.str().chars().count() > ATTACHER_MAX_CHARACTERS {
                errors.too_long_characters(attacher.path(), ATTACHER_MAX_CHARACTERS);
            }
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        // A change of the spec keeps the declarative rules from looking into it.
        csi_driver_name(&new.at(&["spec", "attacher"]), errors);
        validate_parts(new, errors);
        let spec = new.field("spec");
        if !versioned::same(SPEC, spec.value(), old.field("spec").value()) {
            spec.invalid_as(errors, Value::Null, "field is immutable");
        }
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
        if cx.features.enabled("MutableCSINodeAllocatableCount") {
            return;
        }
        for error in ["attachError", "detachError"] {
            if old.at(&["status", error, "errorCode"]).is_null() {
                new.remove(&["status", error, "errorCode"]);
            }
        }
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate_update(cx, new, old, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![
            object.name().into(),
            object.str_at(&["spec", "attacher"]).into(),
            object.str_at(&["spec", "source", "persistentVolumeName"]).into(),
            object.str_at(&["spec", "nodeName"]).into(),
            object.at(&["status", "attached"]).as_bool().unwrap_or(false).into(),
            columns::age(cx, object),
        ]
    }
}

/// Everything but the attacher.
fn validate_parts(attachment: &Cursor, errors: &mut Errors) {
    let spec = attachment.field("spec");
    validate_source(&spec.field("source"), errors);
    spec.field("nodeName").check_name(errors, names::name_is_dns_subdomain);
    validate_status(&attachment.field("status"), errors);
    let volume = spec.at(&["source", "persistentVolumeName"]);
    if volume.is_set() {
        volume.check_name(errors, names::name_is_dns_subdomain);
    }
}

fn validate_source(source: &Cursor, errors: &mut Errors) {
    let (inline, name) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => source.required(errors, ONE_SOURCE),
        (true, true) => source.forbidden(errors, ONE_SOURCE),
        (false, true) => {
            name.must_be_set(errors, "must specify non empty persistentVolumeName");
        }
        (true, false) => validate_inline_spec(&inline, errors),
    }
}

fn validate_status(status: &Cursor, errors: &mut Errors) {
    let told = status.field("attachmentMetadata");
    if told.entries().map(|(key, value)| key.len() + value.str().len()).sum::<usize>() > METADATA_MAX_BYTES {
        errors.too_long(told.path(), METADATA_MAX_BYTES);
    }
    for error in [status.field("attachError"), status.field("detachError")] {
        let (message, code) = (error.field("message"), error.field("errorCode"));
        if message.str().len() > MESSAGE_MAX_BYTES {
            errors.too_long(message.path(), MESSAGE_MAX_BYTES);
        }
        if code.int() < 0 {
            code.invalid(errors, names::inclusive_range_error(0, i64::from(i32::MAX)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            VolumeAttachment,
            "{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: a}, spec: {attacher: d, nodeName: node, \
             source: {persistentVolumeName: v}}}",
        )
    }

    #[test]
    fn attachments_are_checked() {
        check().create(&[
            ("spec: {attacher: Example.COM}", ""),
            (
                "spec: {attacher: '', source: null}",
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName
                 spec.attacher: Required value",
            ),
            (
                "spec: {source: {persistentVolumeName: ''}}",
                r#"spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName
                   spec.source.persistentVolumeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ),
            (
                "spec: {source: {inlineVolumeSpec: {hostPath: {path: /a}}}}",
                "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            ),
            (
                &format!("spec: {{attacher: {}}}", "a".repeat(64)),
                "spec.attacher: Too long: may not be more than 63 characters",
            ),
        ]);
    }

    #[test]
    fn the_spec_stays() {
        check().update(&[
            ("", "metadata: {labels: {a: b}}", ""),
            ("", "spec: {nodeName: other}", "spec: Invalid value: null: field is immutable"),
            (
                "",
                "spec: {attacher: ''}",
                "spec.attacher: Required value
                 spec: Invalid value: null: field is immutable",
            ),
        ]);
    }

    #[test]
    fn a_status_writer_may_not_touch_metadata() {
        let written = check().try_update_status("", "{metadata: {labels: {a: b}}, status: {attached: true}}").unwrap();
        assert_eq!(written.at(&["metadata", "labels"]), &Value::Null);
        check().update_status(&[(
            "",
            "status: {attachError: {errorCode: -1}}",
            "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        )]);
    }
}
