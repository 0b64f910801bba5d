//! Storage classes: the kinds of volumes a cluster provisions.

use std::collections::{BTreeMap, BTreeSet};

use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Timestamp, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::{immutable, validate_driver, validate_parameters};
use crate::common::checks::Checks;
use crate::common::pod_spec::warnings::deprecated_node_label;

const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub struct StorageClass;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    returns_deleted_object: true,
    default_row: Some(default_class),
    ..Facts::WITHOUT_STATUS
};

impl Strategy for StorageClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_class(object, errors);
        object.field("provisioner").require(errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_class(new, errors);
        if !old.field("provisioner").is_empty() {
            new.field("provisioner").require(errors);
        }
        for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            immutable(&new.field(field), &old.field(field), errors);
        }
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for term in Cursor::root(object).field("allowedTopologies").each() {
            for expression in term.field("matchLabelExpressions").each() {
                let key = expression.field("key");
                warnings.extend(deprecated_node_label(key.str()).map(|why| format!("{}: {why}", key.path())));
            }
        }
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let text = |field, default: &str| Value::from(object.field(field).as_str().unwrap_or(default));
        vec![
            object.name().into(),
            text("provisioner", ""),
            text("reclaimPolicy", "Delete"),
            text("volumeBindingMode", "Immediate"),
            object.field("allowVolumeExpansion").as_bool().unwrap_or(false).into(),
            columns::age(cx, object),
        ]
    }
}

/// The class that claims without one get: the newest that says so, and the first by name of several as new.
fn default_class<'a>(classes: &[&'a Value]) -> Option<&'a str> {
    let says_so = |class: &Value| DEFAULT_ANNOTATIONS.iter().any(|key| class.annotation(key) == Some("true"));
    let created = |class: &Value| {
        Time::parse(class.meta_str("creationTimestamp")).map_or(Timestamp::ZERO, |Time(created)| created)
    };
    let candidates = classes.iter().filter(|class| says_so(class));
    candidates.max_by(|a, b| created(a).cmp(&created(b)).then_with(|| b.name().cmp(a.name()))).map(|class| class.name())
}

fn validate_class(class: &Cursor, errors: &mut Errors) {
    validate_driver(&class.field("provisioner"), errors);
    validate_parameters(&class.field("parameters"), errors);
    let reclaim = class.field("reclaimPolicy");
    if !reclaim.is_empty() {
        reclaim.one_of(errors, &["Delete", "Retain"]);
    }
    let mode = class.field("volumeBindingMode");
    if mode.is_set() {
        mode.one_of(errors, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        mode.required(errors, "");
    }
    validate_topologies(&class.field("allowedTopologies"), errors);
}

type Term<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn validate_topologies(topologies: &Cursor, errors: &mut Errors) {
    // Upstream compares each term with as many empty ones as there are terms, besides those before it.
    let mut seen: BTreeMap<Term, usize> = BTreeMap::from([(Term::new(), topologies.len())]);
    for term in topologies.each() {
        let expressions = term.field("matchLabelExpressions");
        let count = seen.entry(validate_term(&expressions, errors)).or_default();
        for _ in 0..*count {
            if errors.is_full() {
                break;
            }
            errors.duplicate(expressions.path(), "");
        }
        *count += 1;
    }
}

fn validate_term<'a>(expressions: &Cursor<'a>, errors: &mut Errors) -> Term<'a> {
    let mut labels = Term::new();
    for expression in expressions.each() {
        let (key, values) = (expression.field("key"), expression.field("values"));
        if values.is_empty() {
            values.required(errors, "");
        }
        let mut distinct = BTreeSet::new();
        for value in values.each() {
            if !distinct.insert(value.str()) {
                value.duplicate(errors);
            }
        }
        key.check(errors, names::label_key);
        if labels.insert(key.str(), distinct).is_some() {
            errors.duplicate(key.path(), key.str());
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Check, yaml};

    fn check() -> Check {
        Check::new(
            StorageClass,
            "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: example.com/p, \
             reclaimPolicy: Delete, volumeBindingMode: Immediate}",
        )
    }

    #[test]
    fn classes_are_checked() {
        check().create(&[
            ("provisioner: Example.com/P", ""),
            (
                "{provisioner: '', reclaimPolicy: Recycle, volumeBindingMode: Never, parameters: {'': x}}",
                r#"parameters: Invalid value: "": field can not be empty.
                   reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"
                   volumeBindingMode: Unsupported value: "Never": supported values: "Immediate", "WaitForFirstConsumer"
                   provisioner: Required value"#,
            ),
            (
                "allowedTopologies: [{matchLabelExpressions: [{key: a, values: [x, x]}, {key: a, values: []}]}]",
                r#"allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "x"
                   allowedTopologies[0].matchLabelExpressions[1].values: Required value
                   allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a""#,
            ),
            (
                "allowedTopologies: [{matchLabelExpressions: [{key: a, values: [x, z]}]}, {matchLabelExpressions: [{key: a, values: [z, x]}]}]",
                r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#,
            ),
        ]);
    }

    #[test]
    fn most_fields_stay() {
        check().update(&[
            ("", "{allowVolumeExpansion: true, mountOptions: [a]}", ""),
            (
                "",
                "{provisioner: other, parameters: {a: b}, reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer}",
                "provisioner: Invalid value: null: field is immutable
                 parameters: Invalid value: null: field is immutable
                 reclaimPolicy: Invalid value: null: field is immutable
                 volumeBindingMode: Invalid value: null: field is immutable",
            ),
        ]);
    }

    #[test]
    fn lists_mark_the_default() {
        let class = |name: &str, created: &str, default: bool| {
            yaml(&format!(
                "{{metadata: {{name: {name}, creationTimestamp: '{created}', annotations: {{storageclass.kubernetes.io/is-default-class: '{default}'}}}}}}"
            ))
        };
        let old = class("z", "2026-01-01T00:00:00Z", true);
        let (new, same) = (class("c", "2026-01-02T00:00:00Z", true), class("b", "2026-01-02T00:00:00Z", true));
        let newest = class("a", "2026-01-03T00:00:00Z", false);
        assert_eq!(default_class(&[&old, &new, &same, &newest]), Some("b"));
        let check = check();
        let strategy: &dyn Strategy = &StorageClass;
        let rows = strategy.rows(&check.context(""), &[&old, &newest]);
        assert_eq!((rows[0][0].as_str(), rows[1][0].as_str()), (Some("z (default)"), Some("a")));
    }
}
