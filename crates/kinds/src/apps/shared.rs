//! What controllers with a pod template have in common: the template, the selector that must match it, and counts of
//! pods in the status.

use object::labels::Selector;
use object::{Cursor, Errors, Meta, Path, Status, Value, names, quote};
use registry::Context;

use crate::common::pod_spec::PodValidationOptions;
use crate::common::versioned::{self, LABEL_SELECTOR};
use crate::common::{pod_template, selector};

pub const TEMPLATE: [&str; 2] = ["spec", "template"];
pub const MORE_THAN_REPLICAS: &str = "cannot be greater than status.replicas";

pub fn default_template(object: &mut Value) {
    if let Some(template) = object.at_mut(&TEMPLATE) {
        pod_template::default(template);
    }
}

pub fn drop_disabled(cx: &Context, object: &mut Value, old: Option<&Value>) {
    if let Some(template) = object.at_mut(&TEMPLATE) {
        pod_template::drop_disabled(cx, template, old.map(|old| old.at(&TEMPLATE)));
    }
}

pub fn template_options(cx: &Context, new: &Cursor, old: Option<&Cursor>) -> PodValidationOptions {
    pod_template::options(cx, new.at(&TEMPLATE).value(), old.map(|old| old.at(&TEMPLATE).value()))
}

pub fn template_warnings(cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
    let path = Path::of("spec.template");
    pod_template::warnings(cx, &path, object.at(&TEMPLATE), old.map(|old| old.at(&TEMPLATE)))
}

/// A name that pods cannot have as a part of their hostname works, but not as one would think.
pub fn name_warning(object: &Value) -> Option<String> {
    let problems = names::dns1123_label(object.name());
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label \
             is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// The selector must be there and select something. `kind` is what upstream calls the object.
pub fn validate_selector(spec: &Cursor, kind: &str, errors: &mut Errors) {
    let selected = spec.field("selector");
    if !selected.is_set() {
        return selected.required(errors, "");
    }
    selector::validate(&selected, selector::LabelSelectorValidationOptions::default(), errors);
    not_empty(&selected, kind, errors);
}

/// A selector that selects everything would take pods that are others'.
pub fn not_empty(selected: &Cursor, kind: &str, errors: &mut Errors) {
    if selected.is_set() && selected.field("matchLabels").len() + selected.field("matchExpressions").len() == 0 {
        let shown = versioned::shown(LABEL_SELECTOR, selected.value());
        selected.invalid_as(errors, shown, format!("empty selector is invalid for {kind}"));
    }
}

/// The selector that `spec.selector` stands for, if it stands for one.
pub fn compiled(spec: &Cursor, errors: &mut Errors, detail: &str) -> Option<Selector> {
    let selected = spec.field("selector");
    match selector::compile(selected.value()) {
        Ok(compiled) => Some(compiled),
        Err(_) => {
            selected.invalid_as(errors, versioned::shown(LABEL_SELECTOR, selected.value()), detail);
            None
        }
    }
}

/// The pods made from the template must be the ones the selector finds.
pub fn must_match(selector: &Selector, template: &Cursor, errors: &mut Errors) {
    if !selector.is_empty() && !selector::selects(selector, template.value()) {
        let labels = template.at(&["metadata", "labels"]);
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Checks the template of something that keeps a number of pods running; `kind` is what upstream calls it.
pub fn validate_replicated(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let Some(selector) = compiled(spec, errors, "invalid label selector") else { return };
    let template = spec.field("template");
    must_match(&selector, &template, errors);
    pod_template::validate(&template, options, errors);
    runs_for_ever(&template, "ReplicaSet", errors);
}

/// Pods that end by themselves would be replaced for ever.
pub fn runs_for_ever(template: &Cursor, kind: &str, errors: &mut Errors) {
    let pod = template.field("spec");
    pod.field("restartPolicy").one_of(errors, &["Always"]);
    let deadline = pod.field("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.forbidden(errors, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

pub fn selector_stays(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (new, old) = (new.at(&["spec", "selector"]), old.at(&["spec", "selector"]));
    if !versioned::same(LABEL_SELECTOR, new.value(), old.value()) {
        new.invalid_as(errors, versioned::shown(LABEL_SELECTOR, new.value()), "field is immutable");
    }
}

pub fn not_negative(status: &Cursor, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        status.field(field).non_negative(errors);
    }
}

/// Reports `field` if it counts more than `limit` does.
pub fn at_most(status: &Cursor, field: &str, limit: &str, detail: &str, errors: &mut Errors) {
    let count = status.field(field);
    if count.int() > status.field(limit).int() {
        count.invalid_as(errors, count.int(), detail);
    }
}

/// Collisions are only ever added to the count of them.
pub fn collisions_only_grow(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let count = new.at(&["status", "collisionCount"]);
    let decremented = match (count.opt_int(), old.at(&["status", "collisionCount"]).opt_int()) {
        (Some(new), Some(old)) => new < old,
        (new, old) => new.is_none() && old.is_some(),
    };
    if decremented {
        count.invalid_as(errors, count.int(), "cannot be decremented");
    }
}

/// The cell of a selector, as upstream formats one: `<none>` if it selects everything or nothing.
pub fn selector_cell(selected: &Value) -> Value {
    match selector::compile(selected) {
        Ok(selector) => object::labels::cell(selector).into(),
        Err(_) => "<error>".into(),
    }
}

pub fn number(object: &Value, path: &[&str]) -> i64 {
    object.at(path).as_int().unwrap_or(0)
}

/// The answer to an object that upstream cannot decode, because an annotation stands for a number and is none.
pub fn undecodable(kind: &str, why: &str) -> Status {
    Status::bad_request(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"))
}

/// Reads a number as Go's `strconv.ParseInt` does, with its error.
pub fn parse_int(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseInt: parsing {}: {problem}", quote(text))
    })
}
