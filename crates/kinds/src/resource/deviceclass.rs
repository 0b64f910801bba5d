//! DeviceClasses: what administrators let people ask for.

use object::{Cursor, Errors, names};
use registry::{Context, Strategy};

use super::claim::too_many;
use super::devices::{self, CONFIG_MAX, SELECTORS_MAX};
use crate::common::problems;

pub struct DeviceClass;

impl Strategy for DeviceClass {
    fn has_status(&self) -> bool {
        false
    }

    fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        if is_prefix { names::name_is_dns_subdomain(name, true) } else { names::long_name(name) }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        let (selectors, config, extended) =
            (spec.field("selectors"), spec.field("config"), spec.field("extendedResourceName"));
        devices::selectors(&selectors, errors);
        for config in config.each() {
            devices::configuration(&config, errors);
        }
        // What upstream declares on the types comes last.
        too_many(&selectors, SELECTORS_MAX, errors);
        too_many(&config, CONFIG_MAX, errors);
        for config in config.each() {
            devices::configuration_declared(&config, errors);
        }
        if extended.is_set() {
            problems::report(&extended, names::extended_resource_name(extended.str()), errors);
        }
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
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
