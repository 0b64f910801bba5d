//! Leases: who holds something, since when and for how long.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use super::validate_election;

pub struct Lease;

const FACTS: Facts = Facts {
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    allows_create_on_update: true,
    allows_unconditional_update: false,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for Lease {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, old);
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        let duration = spec.field("leaseDurationSeconds");
        if duration.opt_int().is_some_and(|seconds| seconds <= 0) {
            duration.invalid(errors, "must be greater than 0");
        }
        spec.field("leaseTransitions").non_negative(errors);
        let (strategy, preferred) = (spec.field("strategy"), spec.field("preferredHolder"));
        if strategy.is_set() {
            validate_election(&strategy, errors);
        }
        if !preferred.is_empty() && strategy.is_empty() {
            preferred.forbidden(errors, "may only be specified if `strategy` is defined");
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let holder = object.str_at(&["spec", "holderIdentity"]);
        vec![object.name().into(), holder.into(), columns::age(cx, object)]
    }
}

/// Coordinated leader election is a feature of its own.
fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    if cx.features.enabled("CoordinatedLeaderElection") {
        return;
    }
    for field in ["strategy", "preferredHolder"] {
        if old.at(&["spec", field]).is_null() {
            new.remove(&["spec", field]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        let mut check = Check::new(Lease, "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}");
        check.features.set(&[("CoordinatedLeaderElection".to_string(), true)]).unwrap();
        check
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("spec: {leaseDurationSeconds: 15, leaseTransitions: 0, holderIdentity: me}", ""),
            (
                "spec: {leaseDurationSeconds: 0, leaseTransitions: -1}",
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
                 spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ),
            ("spec: {strategy: OldestEmulationVersion, preferredHolder: x}", ""),
            ("spec: {strategy: example.com/mine}", ""),
            (
                "spec: {strategy: Mine}",
                r#"spec.strategy.strategy: Unsupported value: "Mine": supported values: "OldestEmulationVersion""#,
            ),
            (
                "spec: {strategy: 'a/b/c', preferredHolder: x}",
                r#"spec.strategy.strategy: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#,
            ),
            (
                "spec: {preferredHolder: x}",
                "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined",
            ),
        ]);
    }

    #[test]
    fn election_fields_need_their_feature() {
        let mut check = check();
        check.features.set(&[("CoordinatedLeaderElection".to_string(), false)]).unwrap();
        check.stored(&[(
            "spec: {strategy: Nonsense, preferredHolder: x, leaseTransitions: 1}",
            "spec: {strategy: null, preferredHolder: null}",
        )]);
    }

    #[test]
    fn cells_show_the_holder() {
        check().cells(&[("spec: {holderIdentity: me}", "a me <unknown>"), ("", "a  <unknown>")]);
    }
}
