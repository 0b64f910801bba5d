//! DeviceClasses: what administrators let people ask for.

use object::{Cursor, Errors, Value, names};
use registry::{Context, Facts, Strategy};

use super::claim::up_to;
use super::devices::{self, CONFIG_MAX};
use crate::common::checks::Checks;
use crate::common::declared::RESOURCE;
use crate::common::versioned;

pub struct DeviceClass;

const FACTS: Facts = Facts {
    // The name is checked with the declared rules, which come last; a name to generate from is not checked at all.
    name: |_, _| Vec::new(),
    generation: Some(|new, old| {
        !versioned::same("io.k8s.api.resource.v1.DeviceClassSpec", new.field("spec"), old.field("spec"))
    }),
    returns_deleted_object: true,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for DeviceClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, object, None, errors);
        let name = object.at(&["metadata", "name"]);
        if !name.is_empty() {
            name.check(errors, names::long_name);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(cx, new, Some(old.field("spec").value()), errors);
    }
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.field("spec");
    let selectors = spec.field("selectors");
    let stored = old.is_some_and(|old| old.field("selectors") == selectors.value());
    devices::selectors(cx, &selectors, stored, errors);
    for config in up_to(&spec.field("config"), CONFIG_MAX) {
        devices::configuration(&config, errors);
    }
    RESOURCE.validate(cx, "DeviceClassSpec", &spec, old, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn classes_are_checked() {
        Check::new(DeviceClass, "{metadata: {name: a}}").create(&[
            ("", ""),
            (
                "spec: {selectors: [{}], config: [{}, {opaque: {parameters: 1}}]}",
                "spec.selectors[0].cel: Required value
                 spec.config[0].opaque: Required value
                 spec.config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object
                 spec.config[1].opaque.driver: Required value",
            ),
        ]);
    }
}
