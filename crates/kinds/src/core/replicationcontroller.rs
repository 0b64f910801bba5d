//! ReplicationControllers.

use object::{Cursor, ErrorType, Errors, FieldError, Meta, Path, Value, names};
use registry::{Context, Facts, FieldRefusal, GarbageCollection, Strategy, columns as cells};

use crate::common::checks::{IS_NEGATIVE, report};
use crate::common::{columns, internal, pod_template, selector};

const TEMPLATE: [&str; 2] = ["spec", "template"];
const LESS_THAN_REPLICAS: &str = "cannot be greater than status.replicas";
/// Annotations that hold what another version of the object could say and this one cannot.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

pub struct ReplicationController;

const FACTS: Facts = Facts {
    // The name is checked with the declared rules, which come last; a name to generate from is not checked at all.
    name: |_, _| Vec::new(),
    generation: Some(|new, old| !internal::same("ReplicationControllerSpec", new.field("spec"), old.field("spec"))),
    garbage_collection: GarbageCollection::Orphan,
    selectable_fields: object::strs!["status.replicas"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Strategy for ReplicationController {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    /// The selector and the object's own labels are the template's, unless it says otherwise.
    fn default(&self, object: &mut Value) {
        if let Some(template) = object.at_mut(&TEMPLATE) {
            pod_template::default(template);
        }
        let labels = object.at(&["spec", "template", "metadata", "labels"]).clone();
        if labels.is_empty() {
            return;
        }
        for path in [["spec", "selector"], ["metadata", "labels"]] {
            if object.at(&path).is_empty() {
                object.set(&path, labels.clone());
            }
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if let Some(template) = object.at_mut(&TEMPLATE) {
            pod_template::drop_disabled(cx, template, None);
        }
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if let Some(template) = new.at_mut(&TEMPLATE) {
            pod_template::drop_disabled(cx, template, Some(old.at(&TEMPLATE)));
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, object, None, errors);
        let name = object.at(&["metadata", "name"]);
        if !name.str().is_empty() {
            report(errors, name.path(), name.str(), names::long_name(name.str()));
        }
        declared(&object.field("spec"), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(cx, new, Some(old), errors);
        non_convertible(new, old.value(), errors);
        declared(&new.field("spec"), errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        validate_status(&new.field("status"), errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let path = Path::of("spec.template");
        if let Some(old) = old {
            // Upstream warns about the template that is being replaced.
            return match old.generation() == object.generation() {
                true => Vec::new(),
                false => pod_template::warnings(cx, &path, old.at(&TEMPLATE), Some(object.at(&TEMPLATE))),
            };
        }
        let mut warnings = Vec::new();
        let problems = names::dns1123_label(object.name());
        if !problems.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a \
                 DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        warnings.extend(pod_template::warnings(cx, &path, object.at(&TEMPLATE), None));
        warnings
    }

    fn select_field(&self, object: &Value, _field: &str) -> String {
        object.at(&["status", "replicas"]).as_int().unwrap_or(0).to_string()
    }

    /// Name, Desired, Current, Ready, Age, Containers, Images, Selector.
    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let number = |path: &[&str]| Value::from(object.at(path).as_int().unwrap_or(0));
        let (containers, images) = columns::containers(object.at(&["spec", "template", "spec"]));
        vec![
            Value::from(object.name()),
            number(&["spec", "replicas"]),
            number(&["status", "replicas"]),
            number(&["status", "readyReplicas"]),
            cells::age(cx, object),
            Value::from(containers),
            Value::from(images),
            Value::from(columns::labels(object.at(&["spec", "selector"]))),
        ]
    }
}

fn validate_spec(cx: &Context, object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let spec = object.field("spec");
    let selected = spec.field("selector");
    if selected.is_empty() {
        selected.required(errors, "");
    }
    let template = spec.field("template");
    if !template.is_set() {
        return template.required(errors, "");
    }
    if !selector::selects(&selector::from_map(selected.value()), template.value()) {
        template.at(&["metadata", "labels"]).invalid(errors, "`selector` does not match template `labels`");
    }
    let old_template = old.map(|old| old.value().at(&TEMPLATE)).filter(|template| !template.is_null());
    let options = pod_template::options(cx, template.value(), old_template);
    pod_template::validate(&template, &options, errors);
    let restart = template.at(&["spec", "restartPolicy"]);
    restart.one_of(errors, &["Always"]);
    let deadline = template.at(&["spec", "activeDeadlineSeconds"]);
    if deadline.is_set() {
        deadline.forbidden(errors, "activeDeadlineSeconds in ReplicationController is not Supported");
    }
}

/// Rules that upstream declares beside the fields, which it checks last.
fn declared(spec: &Cursor, errors: &mut Errors) {
    let replicas = spec.field("replicas");
    if !replicas.is_set() {
        replicas.required(errors, "");
    }
    for number in [replicas, spec.field("minReadySeconds")] {
        if number.int() < 0 {
            number.invalid(errors, IS_NEGATIVE);
        }
    }
}

fn non_convertible(new: &Cursor, old: &Value, errors: &mut Errors) {
    let annotations = old.at(&["metadata", "annotations"]).as_map();
    for (key, value) in
        annotations.into_iter().flat_map(|map| map.iter()).filter(|(key, _)| key.starts_with(NON_CONVERTIBLE))
    {
        let mut parts = key.split('/');
        let (Some(_), Some(field), None) = (parts.next(), parts.next(), parts.next()) else { continue };
        let selected = new.at(&["spec", "selector"]);
        if !field.contains("selector") {
            let path = Path::root().field(field);
            let detail = "unknown non-convertible field";
            errors.push(FieldError::new(ErrorType::NotFound, &path, value.clone(), detail));
        } else if !internal::same("map:string", selected.value(), old.at(&["spec", "selector"])) {
            selected.invalid(errors, "cannot update non-convertible selector");
        }
    }
}

fn validate_status(status: &Cursor, errors: &mut Errors) {
    const COUNTS: [&str; 5] =
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    for count in COUNTS.map(|field| status.field(field)) {
        count.non_negative(errors);
    }
    let [replicas, labeled, ready, available, _] = COUNTS.map(|field| status.field(field));
    for count in [&labeled, &ready, &available] {
        if count.int() > replicas.int() {
            count.invalid_as(errors, count.int(), LESS_THAN_REPLICAS);
        }
    }
    if available.int() > ready.int() {
        available.invalid_as(errors, available.int(), "cannot be greater than readyReplicas");
    }
}

#[cfg(test)]
mod tests {
    use object::GroupVersionKind;

    use super::*;
    use crate::check::Check;
    use crate::common::recorded::{Kind, cases};

    const CASES: &str = include_str!("../../data/cases/replicationcontroller.txt");
    const BASE: &str = "{metadata: {name: p}, spec: {replicas: 1, selector: {app: a}, \
                        template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i}]}}}}";

    #[test]
    fn controllers_are_answered_as_recorded() {
        let kind = GroupVersionKind::new("", "v1", "ReplicationController");
        let controllers = Kind { strategy: ReplicationController, kind, base: BASE, convert: None };
        let all = cases(CASES);
        assert!(all.len() > 10, "the file has lost its cases");
        for case in all {
            assert_eq!(controllers.play(&case), case.errors, "{case:?}");
        }
    }

    #[test]
    fn labels_come_from_the_template() {
        let check = Check::new(ReplicationController, BASE);
        let object = check.decoded("{spec: {selector: null}}");
        assert_eq!(object.at(&["spec", "selector"]), object.at(&["metadata", "labels"]));
        assert_eq!(object.str_at(&["metadata", "labels", "app"]), "a");
    }

    #[test]
    fn rows_count_replicas() {
        Check::new(ReplicationController, BASE).cells(&[
            ("{}", "p 1 0 0 <unknown> c i app=a"),
            ("{status: {replicas: 2, readyReplicas: 1}}", "p 1 2 1 <unknown> c i app=a"),
        ]);
    }
}
