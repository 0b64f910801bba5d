//! CSI storage capacities: how much of a storage class is left where.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy};

use crate::common::checks::{Checks, IMMUTABLE, immutable_text};
use crate::common::pod_spec::warnings::deprecated_node_label;
use crate::common::versioned::{self, LABEL_SELECTOR};
use crate::common::{resources, selector};

pub struct CsiStorageCapacity;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, allows_unconditional_update: false, ..Facts::WITHOUT_STATUS };

impl Strategy for CsiStorageCapacity {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_capacity(object, selector::LabelSelectorValidationOptions::default(), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let mut problems = Errors::new();
        selector::validate(
            &old.field("nodeTopology"),
            selector::LabelSelectorValidationOptions::default(),
            &mut problems,
        );
        let options = selector::LabelSelectorValidationOptions {
            allow_invalid_values: !problems.is_empty(),
            ..selector::LabelSelectorValidationOptions::default()
        };
        validate_capacity(new, options, errors);
        let topology = new.field("nodeTopology");
        if !versioned::same(LABEL_SELECTOR, topology.value(), old.field("nodeTopology").value()) {
            topology.invalid_as(errors, versioned::shown(LABEL_SELECTOR, topology.value()), IMMUTABLE);
        }
        immutable_text(&new.field("storageClassName"), &old.field("storageClassName"), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let topology = Cursor::root(object).field("nodeTopology");
        let expressions = topology.field("matchExpressions").each().filter_map(|expression| {
            let key = expression.field("key");
            Some(format!("{}: {} is {}", key.path(), key.str(), deprecated_node_label(key.str())?))
        });
        let labels = topology.field("matchLabels");
        let labels = labels
            .entries()
            .filter_map(|(key, _)| Some(format!("{}: {}", labels.path().field(key), deprecated_node_label(key)?)));
        expressions.chain(labels).collect()
    }

    /// Name and Created At: upstream never gave it columns of its own.
    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.meta_str("creationTimestamp").into()]
    }
}

fn validate_capacity(capacity: &Cursor, options: selector::LabelSelectorValidationOptions, errors: &mut Errors) {
    selector::validate(&capacity.field("nodeTopology"), options, errors);
    capacity.field("storageClassName").check_name(errors, names::name_is_dns_subdomain);
    let amount = capacity.field("capacity");
    if amount.is_set() {
        resources::non_negative(&amount, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            CsiStorageCapacity,
            "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: c}",
        )
    }

    #[test]
    fn capacities_are_checked() {
        check().create(&[
            ("capacity: 10Gi", ""),
            (
                "{capacity: '-1', storageClassName: A}",
                r#"storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                   capacity: Invalid value: "-1": must be greater than or equal to 0"#,
            ),
        ]);
    }

    #[test]
    fn what_was_asked_for_stays() {
        check().update(&[
            ("", "maximumVolumeSize: 1Gi", ""),
            (
                "",
                "{storageClassName: d, nodeTopology: {matchExpressions: [{key: a, operator: Exists}], matchLabels: {a: b}}}",
                r#"nodeTopology: Invalid value: {"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is immutable
                   storageClassName: Invalid value: "d": field is immutable"#,
            ),
        ]);
    }

    #[test]
    fn old_node_labels_are_warned_about() {
        check().warnings(&[(
            "nodeTopology: {matchLabels: {beta.kubernetes.io/os: a}, matchExpressions: [{key: beta.kubernetes.io/arch, operator: Exists}]}",
            &[
                r#"nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#,
                r#"nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        )]);
    }
}
