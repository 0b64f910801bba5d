//! Workloads: templates of the groups of pods that make up an application.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value};
use registry::{Context, Facts, Strategy};

use super::podgroup::{GATED, drop_disabled};
use crate::common::declared::SCHEDULING;
use crate::common::{internal, named};

const MAX_DEPTH: usize = 4;
const COMPOSITE: &str = "compositePodGroupTemplates";
const GROUPS: &str = "podGroupTemplates";
/// Decoders let nothing nest deeper; rules that follow templates downwards stop here.
const RECURSION_MAX: usize = 512;

pub struct Workload;

const FACTS: Facts = Facts { allows_unconditional_update: false, ..Facts::WITHOUT_STATUS };

impl Strategy for Workload {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_fields(cx, object.slot(&["spec"]), &Value::Null, 0);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_fields(cx, new.slot(&["spec"]), old.field("spec"), 0);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        validate_spec(&spec, errors);
        SCHEDULING.validate(cx, "WorkloadSpec", &spec, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let spec = new.field("spec");
        validate_spec(&spec, errors);
        SCHEDULING.validate(cx, "WorkloadSpec", &spec, Some(old.field("spec").value()), errors);
    }
}

/// Takes away what features that are off would need. Groups are compared by their place, groups of groups by name.
fn drop_fields(cx: &Context, new: &mut Value, old: &Value, depth: usize) {
    if depth >= RECURSION_MAX {
        return;
    }
    if !cx.features.enabled("CompositePodGroup") && old.list_at(&[COMPOSITE]).is_empty() {
        new.remove(&[COMPOSITE]);
    }
    if let Some(groups) = new.get_mut(GROUPS).and_then(Value::as_list_mut) {
        for (i, group) in groups.iter_mut().enumerate() {
            drop_disabled(cx, group, old.list_at(&[GROUPS]).get(i).unwrap_or(&Value::Null), &GATED[..3]);
        }
    }
    if let Some(groups) = new.get_mut(COMPOSITE).and_then(Value::as_list_mut) {
        let old = named::first_by_name(old.list_at(&[COMPOSITE]));
        for group in groups {
            let before = old.get(group.str_at(&["name"])).copied().unwrap_or(&Value::Null);
            drop_disabled(cx, group, before, &GATED[2..3]);
            drop_fields(cx, group, before, depth + 1);
        }
    }
}

fn validate_spec(spec: &Cursor, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = spec.field(GROUPS).each().map(|group| group.field("name").str()).collect();
    composite_names(spec, &mut names, errors, 0);
    for template in spec.field(COMPOSITE).each() {
        if !fits(template.value(), 1) {
            let shown = internal::shown("[]CompositePodGroupTemplate", template.field(COMPOSITE).value());
            template.invalid_as(errors, shown, format!("maximum template hierarchy depth is {MAX_DEPTH}"));
        }
    }
    one_priority(spec, errors);
    for template in spec.field(COMPOSITE).each() {
        has_children(&template, errors, 0);
    }
}

/// Names are unique in the whole tree; two in one list are reported by the declared rules.
fn composite_names<'a>(parent: &Cursor<'a>, names: &mut BTreeSet<&'a str>, errors: &mut Errors, depth: usize) {
    if depth >= RECURSION_MAX {
        return;
    }
    take_names(&parent.field(COMPOSITE), names, errors);
    for template in parent.field(COMPOSITE).each() {
        take_names(&template.field(GROUPS), names, errors);
        composite_names(&template, names, errors, depth + 1);
    }
}

fn take_names<'a>(list: &Cursor<'a>, names: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let mut here = Vec::new();
    for item in list.each() {
        let name = item.field("name");
        if names.contains(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        here.push(name.str());
    }
    names.extend(here);
}

fn fits(template: &Value, depth: usize) -> bool {
    depth < MAX_DEPTH && template.list_at(&[COMPOSITE]).iter().all(|inner| fits(inner, depth + 1))
}

/// The whole of a workload is as important as any part of it.
fn one_priority(spec: &Cursor, errors: &mut Errors) {
    let mut first = None;
    let mut differs = |template: &Value| {
        let priority = (template.str_at(&["priorityClassName"]).to_string(), template.field("priority").as_int());
        *first.get_or_insert(priority.clone()) != priority
    };
    let groups = spec.value().list_at(&[GROUPS]);
    if groups.iter().any(&mut differs) {
        return spec.invalid_as(errors, Value::Null, "detected multiple priority configurations");
    }
    fn any(template: &Value, differs: &mut dyn FnMut(&Value) -> bool, depth: usize) -> bool {
        depth < RECURSION_MAX
            && (differs(template)
                || template.list_at(&[COMPOSITE]).iter().any(|inner| any(inner, differs, depth + 1))
                || template.list_at(&[GROUPS]).iter().any(differs))
    }
    if spec.value().list_at(&[COMPOSITE]).iter().any(|template| any(template, &mut differs, 0)) {
        let detail = "all priority and priorityClassName values must be identical, detected multiple values";
        spec.invalid_as(errors, Value::Null, detail);
    }
}

fn has_children(template: &Cursor, errors: &mut Errors, depth: usize) {
    if template.field(GROUPS).is_empty() && template.field(COMPOSITE).is_empty() {
        let name = template.field("name").str();
        let detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate";
        template.invalid_as(errors, name, detail);
    }
    if depth < RECURSION_MAX {
        for inner in template.field(COMPOSITE).each() {
            has_children(&inner, errors, depth + 1);
        }
    }
}
