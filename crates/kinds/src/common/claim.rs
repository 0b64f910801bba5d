//! The spec of a PersistentVolumeClaim, in a claim, in the template of a pod's ephemeral volume or of a StatefulSet.

use object::{BadValue, Cursor, Errors, Value, names};
use registry::Context;

use super::checks::Checks;
use super::{metadata, resources, selector};

pub const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// What validation tolerates.
#[derive(Clone, Copy, Debug)]
pub struct ClaimValidationOptions {
    pub allow_invalid_label_values: bool,
    pub allow_invalid_api_group: bool,
    pub check_attributes_class: bool,
}

impl ClaimValidationOptions {
    /// For a claim template; `old` is the template that an update replaces.
    pub fn for_template(cx: &Context, old: Option<&Value>) -> ClaimValidationOptions {
        let selector = old.map_or(&Value::Null, |old| old.at(&["spec", "selector"]));
        let mut errors = Errors::new();
        selector::validate(&Cursor::root(selector), selector::LabelSelectorValidationOptions::default(), &mut errors);
        ClaimValidationOptions {
            allow_invalid_label_values: !errors.is_empty(),
            allow_invalid_api_group: false,
            check_attributes_class: cx.features.enabled("VolumeAttributesClass"),
        }
    }
}

/// Checks a claim template: its metadata may hold nothing but labels and annotations.
pub fn template(template: &Cursor, options: ClaimValidationOptions, errors: &mut Errors) {
    metadata::of_template(&template.field("metadata"), errors);
    spec(&template.field("spec"), options, errors);
}

/// Checks the spec of a claim.
pub fn spec(spec: &Cursor, options: ClaimValidationOptions, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(errors, "at least 1 access mode is required");
    }
    let selector_options = selector::LabelSelectorValidationOptions {
        allow_invalid_values: options.allow_invalid_label_values,
        ..selector::LabelSelectorValidationOptions::default()
    };
    selector::validate(&spec.field("selector"), selector_options, errors);
    access_modes(&modes, errors);
    storage_request(spec, errors);
    class_name(&spec.field("storageClassName"), errors);
    spec.field("volumeMode").optional_one_of(errors, &VOLUME_MODES);
    data_sources(spec, options, errors);
    if options.check_attributes_class {
        class_name(&spec.field("volumeAttributesClassName"), errors);
    }
}

/// Known modes, and the mode for a single pod alone.
pub fn access_modes(modes: &Cursor, errors: &mut Errors) {
    for mode in modes.strs().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(modes.path(), mode, &ACCESS_MODES);
    }
    let single_pod = modes.strs().any(|mode| mode == "ReadWriteOncePod");
    let other = modes.strs().any(|mode| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode));
    if single_pod && other {
        modes.forbidden(errors, "may not use ReadWriteOncePod with other access modes");
    }
}

fn storage_request(spec: &Cursor, errors: &mut Errors) {
    let value = spec.at(&["resources", "requests", "storage"]);
    // Upstream leaves `requests` out of the path.
    let storage = Cursor::new(value.value(), spec.path().field("resources").key("storage"));
    if !storage.is_set() {
        return storage.required(errors, "");
    }
    let before = errors.len();
    resources::positive(&storage, errors);
    if errors.len() == before {
        resources::amount("storage", &storage, errors);
    }
}

fn class_name(class: &Cursor, errors: &mut Errors) {
    if !class.str().is_empty() {
        class.check_name(errors, names::name_is_dns_subdomain);
    }
}

fn data_sources(spec: &Cursor, options: ClaimValidationOptions, errors: &mut Errors) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    if source.is_set() {
        data_source(&source, options, errors);
    }
    let namespace = reference.field("namespace");
    if reference.is_set() {
        data_source(&reference, options, errors);
        if !namespace.str().is_empty() {
            namespace.check_name(errors, names::name_is_dns_label);
        }
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    // Upstream shows the path object itself as the bad value, and nothing of it is printable.
    let shown = BadValue::Raw("{}".to_string());
    let same = ["apiGroup", "kind", "name"].iter().all(|field| {
        let (a, b) = (source.field(field), reference.field(field));
        a.str() == b.str() && (*field != "apiGroup" || a.is_set() == b.is_set())
    });
    if !namespace.str().is_empty() {
        spec.invalid_as(errors, shown, "may not be specified when dataSourceRef.namespace is specified");
    } else if !same {
        spec.invalid_as(errors, shown, "must match dataSourceRef");
    }
}

fn data_source(source: &Cursor, options: ClaimValidationOptions, errors: &mut Errors) {
    source.field("name").require(errors);
    let (kind, group) = (source.field("kind"), source.field("apiGroup"));
    kind.require(errors);
    if group.str().is_empty() && kind.str() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        source.invalid_as(errors, kind.str(), detail);
    }
    if !group.str().is_empty() && !options.allow_invalid_api_group {
        group.check(errors, names::dns1123_subdomain);
    }
}
