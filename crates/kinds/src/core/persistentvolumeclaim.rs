//! PersistentVolumeClaims: a request for storage. Nearly all of the spec is fixed once it is made; the size may grow.

mod health;
mod status;

use object::{Cursor, Errors, Map, Meta, Path, Value};
use registry::{Context, Facts, Strategy, columns};

use super::volume_cells::{access_modes, class};
use crate::common::checks::{Checks, IMMUTABLE, quantity};
use crate::common::pod_spec::warnings::claim_fractions;
use crate::common::{claim, diff, internal, selector};

/// Where the storage class stood before it was a field.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const SPEC: &str = "PersistentVolumeClaimSpec";

pub struct PersistentVolumeClaim;

const FACTS: Facts = Facts { checks_updated_generate_name: true, returns_deleted_object: true, ..Facts::WITH_STATUS };

impl Strategy for PersistentVolumeClaim {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        // A new claim has no phase yet in upstream's memory, and is pending once it is read.
        object.set(&["status", "phase"], "Pending");
        prepare_spec(cx, object.slot(&["spec"]), &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        prepare_spec(cx, new.slot(&["spec"]), old.field("spec"));
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        status::drop_disabled(cx, new, old);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        claim::spec(&object.field("spec"), options(cx, None), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let mut old_spec = old.field("spec").value().clone();
        normalize_data_sources(&mut old_spec);
        claim::spec(&new.field("spec"), options(cx, Some(&old_spec)), errors);
        validate_change(new.value(), old.value(), &old_spec, errors);
        validate_size(new, old, errors);
        let (mode, old_mode) = (new.at(&["spec", "volumeMode"]), old_spec.field("volumeMode"));
        if mode.value() != old_mode {
            errors.invalid(&Path::of("volumeMode"), mode.value().clone(), IMMUTABLE);
        }
        validate_attributes_class(cx, new, old, errors);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        status::validate(cx, new, old, errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.annotation(CLASS_ANNOTATION).is_some() {
            warnings.push(format!(
                "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        claim_fractions(&Cursor::root(object).field("spec"), &mut warnings);
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (spec, status) = (object.field("spec"), object.field("status"));
        let bound = !spec.str_at(&["volumeName"]).is_empty();
        let (capacity, modes) = if bound {
            (quantity(status.at(&["capacity", "storage"])).to_string(), access_modes(status))
        } else {
            (String::new(), String::new())
        };
        let or_unset = |field: &str| Value::from(spec.field(field).as_str().unwrap_or("<unset>"));
        vec![
            object.name().into(),
            if object.is_deleting() { "Terminating" } else { status.str_at(&["phase"]) }.into(),
            spec.str_at(&["volumeName"]).into(),
            capacity.into(),
            modes.into(),
            class(object).into(),
            or_unset("volumeAttributesClassName"),
            columns::age(cx, object),
            or_unset("volumeMode"),
        ]
    }
}

/// What validation tolerates; `old` is the spec that an update replaces.
fn options(cx: &Context, old: Option<&Value>) -> claim::ClaimValidationOptions {
    let old = old.unwrap_or(&Value::Null);
    let mut bad_selector = Errors::new();
    let old_selector = Cursor::root(old).field("selector");
    selector::validate(&old_selector, selector::LabelSelectorValidationOptions::default(), &mut bad_selector);
    let has_group = |field: &str| !old.at(&[field, "apiGroup"]).is_null();
    claim::ClaimValidationOptions {
        allow_invalid_label_values: !bad_selector.is_empty(),
        allow_invalid_api_group: has_group("dataSource") || has_group("dataSourceRef"),
        check_attributes_class: cx.features.enabled("VolumeAttributesClass")
            || !old.field("volumeAttributesClassName").is_null(),
    }
}

fn prepare_spec(cx: &Context, spec: &mut Value, old: &Value) {
    let class = "volumeAttributesClassName";
    if !cx.features.enabled("VolumeAttributesClass") && old.field(class).is_null() {
        spec.remove(&[class]);
    }
    let crosses_namespaces = !spec.str_at(&["dataSourceRef", "namespace"]).is_empty();
    if crosses_namespaces
        && !cx.features.enabled("CrossNamespaceVolumeDataSource")
        && old.field("dataSourceRef").is_null()
    {
        spec.remove(&["dataSourceRef"]);
    }
    let had_source = !old.field("dataSource").is_null() || !old.field("dataSourceRef").is_null();
    if !had_source && spec.field("dataSourceRef").is_null() && !is_claim_or_snapshot(spec.field("dataSource")) {
        // Before dataSourceRef, anything else was ignored, and clients rely on it.
        spec.remove(&["dataSource"]);
    }
    normalize_data_sources(spec);
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source.str_at(&["kind"]), source.str_at(&["apiGroup"])),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

/// `dataSource` and `dataSourceRef` say the same, whichever of them was given.
fn normalize_data_sources(spec: &mut Value) {
    let copy = |from: &Value| {
        let fields =
            ["apiGroup", "kind", "name"].into_iter().filter_map(|field| Some((field, from.get(field)?.clone())));
        Value::Map(fields.collect::<Map>())
    };
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    if !source.is_null() && reference.is_null() {
        let copied = copy(source);
        spec.set(&["dataSourceRef"], copied);
    } else if source.is_null() && !reference.is_null() && reference.str_at(&["namespace"]).is_empty() {
        let copied = copy(reference);
        spec.set(&["dataSource"], copied);
    }
}

/// The spec is fixed, apart from what binding and expansion need.
fn validate_change(new: &Value, old: &Value, old_spec: &Value, errors: &mut Errors) {
    let (mut now, mut before) = (new.field("spec").clone(), old_spec.clone());
    if before.str_at(&["volumeName"]).is_empty() {
        before.keep(&["volumeName"], &now);
    }
    let annotated = old.annotation(CLASS_ANNOTATION);
    let class = now.field("storageClassName").as_str();
    let had_class = !before.field("storageClassName").is_null();
    let becomes_field = !had_class
        && annotated.is_some()
        && class == annotated
        && new.annotation(CLASS_ANNOTATION).is_none_or(|now| Some(now) == annotated);
    if becomes_field {
        now.remove(&["storageClassName"]);
    } else {
        let (now_annotated, before_annotated) =
            (new.annotation(CLASS_ANNOTATION).unwrap_or(""), annotated.unwrap_or(""));
        if now_annotated != before_annotated {
            let path = Path::of("metadata.annotations").field(CLASS_ANNOTATION);
            errors.invalid(&path, now_annotated, IMMUTABLE);
        }
        if !had_class && class.is_some() && annotated.is_none_or(|annotated| class == Some(annotated)) {
            now.keep(&["storageClassName"], &before);
        }
    }
    if new.str_at(&["status", "phase"]) == "Bound" {
        let storage = ["resources", "requests", "storage"];
        if !now.at(&storage[..2]).is_null() {
            now.set(&storage, before.at(&storage).clone());
        }
        now.keep(&["volumeAttributesClassName"], &before);
    }
    if !internal::same(SPEC, &now, &before) {
        let diff = diff::unified(&internal::pretty(SPEC, &before), &internal::pretty(SPEC, &now));
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&Path::of("spec"), format!("{detail}\n{diff}"));
    }
}

/// A claim may shrink to recover from an expansion that failed, but not below what there is.
fn validate_size(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let size = |claim: &Cursor| claim.at(&["spec", "resources", "requests", "storage"]).quantity();
    let capacity = old.at(&["status", "capacity", "storage"]).quantity();
    if size(new) < size(old) && size(new) <= capacity {
        let storage = new.at(&["spec", "resources", "requests", "storage"]);
        storage.forbidden(errors, "field can not be less than status.capacity");
    }
}

fn validate_attributes_class(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (class, before) =
        (new.at(&["spec", "volumeAttributesClassName"]), old.at(&["spec", "volumeAttributesClassName"]));
    if class.value() == before.value() {
        return;
    }
    if !cx.features.enabled("VolumeAttributesClass") {
        class.forbidden(errors, "update is forbidden when the VolumeAttributesClass feature gate is disabled");
        if !before.is_set() {
            return;
        }
    }
    if !old.at(&["status", "currentVolumeAttributesClassName"]).is_set() {
        return;
    }
    match class.opt_str() {
        None => class
            .forbidden(errors, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"),
        Some("") => class.forbidden(
            errors,
            "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
        ),
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests;
