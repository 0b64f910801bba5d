//! Runtime classes: ways in which nodes can run containers.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::pod_spec::warnings::deprecated_node_label;
use crate::common::pod_spec::{PodValidationOptions, resources, tolerations};
use crate::common::{internal, selector};

pub struct RuntimeClass;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    allows_create_on_update: true,
    allows_unconditional_update: false,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for RuntimeClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_parts(object, errors);
        let handler = object.field("handler");
        if handler.require(errors) {
            handler.check(errors, names::short_name);
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_parts(new, errors);
        let handler = new.field("handler");
        if handler.str() != old.field("handler").str() {
            if !handler.is_empty() {
                handler.check(errors, names::dns1123_label);
            }
            handler.invalid_as(errors, Value::Null, "field is immutable");
            handler.require(errors);
        }
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = object.at(&["scheduling", "nodeSelector"]).as_map();
        let deprecated = labels.into_iter().flat_map(|map| map.keys()).filter_map(deprecated_node_label);
        deprecated.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.str_at(&["handler"]).into(), columns::age(cx, object)]
    }
}

fn validate_parts(class: &Cursor, errors: &mut Errors) {
    let (overhead, scheduling) = (class.field("overhead"), class.field("scheduling"));
    // The cost of a pod is checked as the limits of a container; nothing is tolerated for the sake of old objects.
    let options = PodValidationOptions::default();
    let fixed = Cursor::new(overhead.field("podFixed").value(), overhead.path().clone());
    resources::overhead(&fixed, &options, errors);
    selector::labels(&scheduling.field("nodeSelector"), errors);
    let list = scheduling.field("tolerations");
    tolerations::validate(&list, &options, errors);
    let mut seen = BTreeSet::new();
    for toleration in list.each() {
        let key = ["key", "operator", "value", "effect"].map(|field| toleration.field(field).str());
        if !seen.insert(key) {
            errors.duplicate(toleration.path(), internal::shown("Toleration", toleration.value()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(RuntimeClass, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: h}")
    }

    #[test]
    fn the_handler_is_a_label() {
        check().create(&[
            ("", ""),
            ("handler: ''", "handler: Required value"),
            (
                "handler: Runc",
                r#"handler: Invalid value: "Runc": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
            ),
            ("handler: a.b", r#"handler: Invalid value: "a.b": must not contain dots"#),
        ]);
        check().update(&[("", "handler: i", "handler: Invalid value: null: field is immutable")]);
    }

    #[test]
    fn overhead_and_scheduling_are_checked_before_the_handler() {
        check().create(&[
            (
                "{handler: '', overhead: {podFixed: {cpu: -1}}}",
                r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
                   handler: Required value"#,
            ),
            (
                "scheduling: {tolerations: [{key: a, operator: Exists, tolerationSeconds: 1, effect: NoExecute}, {key: a, operator: Exists, effect: NoExecute}]}",
                r#"scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"NoExecute","TolerationSeconds":null}"#,
            ),
        ]);
    }

    #[test]
    fn old_node_labels_are_warned_about() {
        check().warnings(&[
            ("", &[]),
            (
                "scheduling: {nodeSelector: {beta.kubernetes.io/os: linux}}",
                &[r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead"#],
            ),
        ]);
    }
}
