//! Volume attributes classes: what a driver may change about a volume while it is in use.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use super::{validate_driver, validate_parameters};
use crate::common::checks::{Checks, same_map};

pub struct VolumeAttributesClass;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, returns_deleted_object: true, ..Facts::WITHOUT_STATUS };

impl Strategy for VolumeAttributesClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (driver, parameters) = (object.field("driverName"), object.field("parameters"));
        driver.require(errors);
        validate_driver(&driver, errors);
        validate_parameters(&parameters, errors);
        if parameters.is_empty() {
            parameters.required(errors, "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (name, parameters) = (new.field("driverName"), new.field("parameters"));
        if name.str() != old.field("driverName").str() {
            name.forbidden(errors, "updates to driverName are forbidden.");
        }
        if !same_map(parameters.value(), old.field("parameters").value()) {
            parameters.forbidden(errors, "updates to parameters are forbidden.");
        }
        self.validate(cx, new, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.str_at(&["driverName"]).into(), columns::age(cx, object)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            VolumeAttributesClass,
            "{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: a}, driverName: d, parameters: {a: b}}",
        )
    }

    #[test]
    fn a_driver_and_parameters_are_needed() {
        check().create(&[
            ("", ""),
            (
                "{driverName: '', parameters: null}",
                "driverName: Required value
                 parameters: Required value: must contain at least one key/value pair",
            ),
            (
                &format!("parameters: {{a: {}}}", "x".repeat(256 * 1024)),
                "parameters: Too long: may not be more than 262144 bytes",
            ),
        ]);
    }

    #[test]
    fn nothing_changes() {
        check().update(&[(
            "",
            "{driverName: e, parameters: {a: c}}",
            "driverName: Forbidden: updates to driverName are forbidden.
             parameters: Forbidden: updates to parameters are forbidden.",
        )]);
    }
}
