//! PodTemplates.

use object::{Cursor, Errors, Meta, Path, Value};
use registry::{Context, Facts, Strategy};

use crate::common::{columns, internal, pod_template};

pub struct PodTemplate;

const FACTS: Facts = Facts {
    generation: Some(|new, old| !internal::same("PodTemplateSpec", new.field("template"), old.field("template"))),
    returns_deleted_object: true,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for PodTemplate {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if let Some(template) = object.get_mut("template") {
            pod_template::default(template);
        }
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if let Some(template) = object.get_mut("template") {
            pod_template::drop_disabled(cx, template, None);
        }
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if let Some(template) = new.get_mut("template") {
            pod_template::drop_disabled(cx, template, Some(old.field("template")));
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let template = object.field("template");
        pod_template::validate(&template, &pod_template::options(cx, template.value(), None), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (template, old) = (new.field("template"), old.field("template"));
        pod_template::validate(&template, &pod_template::options(cx, template.value(), Some(old.value())), errors);
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| old.generation() == object.generation()) {
            return Vec::new();
        }
        let old = old.map(|old| old.field("template"));
        pod_template::warnings(cx, &Path::of("template"), object.field("template"), old)
    }

    /// Name, Containers, Images, Pod Labels.
    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let (names, images) = columns::containers(object.at(&["template", "spec"]));
        let labels = columns::labels(object.at(&["template", "metadata", "labels"]));
        vec![Value::from(object.name()), Value::from(names), Value::from(images), Value::from(labels)]
    }
}
