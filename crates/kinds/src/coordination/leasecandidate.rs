//! Lease candidates: who would hold a lease, and which version it runs.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};
use semver::Version;

use super::{OLDEST_EMULATION_VERSION, validate_election};
use crate::common::checks::{Checks, immutable_text};

const NO_VERSION: Version = Version::new(0, 0, 0);

pub struct LeaseCandidate;

const FACTS: Facts = Facts {
    name: |name, _| names::config_map_key(name),
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    allows_create_on_update: true,
    allows_unconditional_update: false,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for LeaseCandidate {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        spec.field("leaseName").require(errors);
        let (emulation, binary) = (spec.field("emulationVersion"), spec.field("binaryVersion"));
        let emulated = version(&emulation, errors);
        binary.require(errors);
        let built = version(&binary, errors);
        if !binary.is_empty() && !emulation.is_empty() && built.cmp_precedence(&emulated).is_lt() {
            binary.bad(errors, "must be greater than or equal to `emulationVersion`");
        }
        let strategy = spec.field("strategy");
        if strategy.require(errors) {
            if strategy.str() == OLDEST_EMULATION_VERSION && emulated.cmp_precedence(&NO_VERSION).is_eq() {
                emulation.required(errors, "must be specified when `strategy` is 'OldestEmulationVersion'");
            }
            validate_election(&strategy, errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
        immutable_text(&new.at(&["spec", "leaseName"]), &old.at(&["spec", "leaseName"]), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let spec = |field| Value::from(object.str_at(&["spec", field]));
        let versions = (spec("binaryVersion"), spec("emulationVersion"));
        vec![object.name().into(), spec("leaseName"), versions.0, versions.1, columns::age(cx, object)]
    }
}

/// The semantic version in a field; one that is missing or wrong is none.
fn version(field: &Cursor, errors: &mut Errors) -> Version {
    if field.is_empty() {
        return NO_VERSION;
    }
    Version::parse(field.str()).unwrap_or_else(|_| {
        field.bad(errors, "must be a valid semantic version");
        NO_VERSION
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            LeaseCandidate,
            "{apiVersion: coordination.k8s.io/v1beta1, kind: LeaseCandidate, metadata: {name: a}, spec: {leaseName: l, \
             binaryVersion: 1.37.0, emulationVersion: 1.36.0, strategy: OldestEmulationVersion}}",
        )
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("", ""),
            (
                "spec: {leaseName: '', binaryVersion: '', emulationVersion: '', strategy: ''}",
                "spec.leaseName: Required value
                 spec.binaryVersion: Required value
                 spec.strategy: Required value",
            ),
            (
                "spec: {binaryVersion: '1.37', emulationVersion: '1'}",
                r#"spec.emulationVersion: Invalid value: "1": must be a valid semantic version
                   spec.binaryVersion: Invalid value: "1.37": must be a valid semantic version
                   spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'"#,
            ),
            (
                "spec: {binaryVersion: 1.36.0-rc.1}",
                r#"spec.binaryVersion: Invalid value: "1.36.0-rc.1": must be greater than or equal to `emulationVersion`"#,
            ),
            ("spec: {binaryVersion: 1.36.0+build}", ""),
        ]);
    }

    #[test]
    fn the_lease_stays() {
        check().update(&[("", "spec: {leaseName: m}", r#"spec.leaseName: Invalid value: "m": field is immutable"#)]);
    }

    #[test]
    fn names_may_be_any_key() {
        assert!((FACTS.name)("A_b.", false).is_empty());
        assert!(!(FACTS.name)("a/b", false).is_empty());
    }
}
