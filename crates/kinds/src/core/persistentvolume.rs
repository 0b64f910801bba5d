//! PersistentVolumes: a piece of storage. What it is made of cannot change.

mod sources;

use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::volume_cells::{access_modes, class};
use crate::common::checks::{Checks, IMMUTABLE, quantity};
use crate::common::pod_spec::{affinity, warnings};
use crate::common::{claim, diff, internal, resources};

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const SOURCE: &str = "PersistentVolumeSource";
const AFFINITY: &str = "*VolumeNodeAffinity";

pub struct PersistentVolume;

const FACTS: Facts = Facts { checks_updated_generate_name: true, returns_deleted_object: true, ..Facts::WITH_STATUS };

impl Strategy for PersistentVolume {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        // The spec of an inline volume has no defaults, so the schema cannot say these.
        if object.str_at(&["spec", "persistentVolumeReclaimPolicy"]).is_empty() {
            object.set(&["spec", "persistentVolumeReclaimPolicy"], "Retain");
        }
        object.set_default(&["spec", "volumeMode"], "Filesystem");
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        object.set(&["status", "phase"], "Pending");
        object.set(&["status", "lastPhaseTransitionTime"], Time(cx.now).to_string());
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, old);
    }

    /// The time of the last change of phase is kept here unless the client does it.
    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        let path = ["status", "lastPhaseTransitionTime"];
        let (now, before) = (new.str_at(&path), old.str_at(&path));
        if new.str_at(&["status", "phase"]) == old.str_at(&["status", "phase"]) {
            if now.is_empty() {
                new.keep(&path, old);
            }
        } else if now.is_empty() || now == before {
            new.set(&path, Time(cx.now).to_string());
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(object, &VolumeValidationOptions::new(cx, None), errors);
        validate_mount_options(object.value(), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let options = VolumeValidationOptions::new(cx, Some(old.value()));
        validate_spec(new, &options, errors);
        validate_mount_options(new.value(), errors);
        // Upstream checks the spec a second time with what may not change.
        validate_spec(new, &options, errors);
        validate_source_unchanged(new.value(), old.value(), errors);
        let (mode, old_mode) = (new.at(&["spec", "volumeMode"]), old.at(&["spec", "volumeMode"]));
        if mode.value() != old_mode.value() {
            errors.invalid(&Path::of("volumeMode"), mode.value().clone(), IMMUTABLE);
        }
        validate_affinity_unchanged(cx, new, old, errors);
        validate_attributes_class_change(cx, new, old, errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        if new.value().resource_version().is_empty() {
            errors.required(&Path::of("resourceVersion"), "");
        }
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        volume_warnings(object)
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let (spec, status) = (object.field("spec"), object.field("status"));
        let claim = match spec.field("claimRef") {
            Value::Null => String::new(),
            claim => format!("{}/{}", claim.str_at(&["namespace"]), claim.str_at(&["name"])),
        };
        let or_unset = |field: &str| Value::from(spec.field(field).as_str().unwrap_or("<unset>"));
        vec![
            object.name().into(),
            quantity(spec.at(&["capacity", "storage"])).to_string().into(),
            access_modes(spec).into(),
            spec.str_at(&["persistentVolumeReclaimPolicy"]).into(),
            if object.is_deleting() { "Terminating" } else { status.str_at(&["phase"]) }.into(),
            claim.into(),
            class(object).into(),
            or_unset("volumeAttributesClassName"),
            status.str_at(&["reason"]).into(),
            columns::age(cx, object),
            or_unset("volumeMode"),
        ]
    }
}

/// The spec of a volume that stands inside a VolumeAttachment; upstream does not look at its attributes class.
pub fn validate_inline_spec(spec: &Cursor, errors: &mut Errors) {
    let place = "in the context of inline volumes";
    let forbid = |field: &str, set: bool, errors: &mut Errors| {
        if set {
            spec.field(field).forbidden(errors, format!("may not be specified {place}"));
        }
    };
    forbid("claimRef", spec.field("claimRef").is_set(), errors);
    forbid("capacity", !spec.field("capacity").is_empty(), errors);
    if !spec.field("csi").is_set() {
        spec.field("csi").required(errors, format!("has to be specified {place}"));
    }
    validate_access_modes(spec, errors);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !matches!(policy.str(), "" | "Retain") {
        policy.forbidden(errors, format!("may only be Retain {place}"));
    }
    forbid("nodeAffinity", spec.field("nodeAffinity").is_set(), errors);
    sources::validate(spec, "", false, errors);
    forbid("storageClassName", !spec.field("storageClassName").is_empty(), errors);
    let mode = spec.field("volumeMode");
    if mode.is_set() && mode.str() != "Filesystem" {
        mode.forbidden(errors, format!("may not specify volumeMode other than Filesystem {place}"));
    }
}

/// What validation tolerates because the stored volume already has it.
struct VolumeValidationOptions {
    attributes_class: bool,
    any_affinity_values: bool,
}

impl VolumeValidationOptions {
    fn new(cx: &Context, old: Option<&Value>) -> VolumeValidationOptions {
        let old = old.map_or(&Value::Null, |old| old.field("spec"));
        let terms = old.list_at(&["nodeAffinity", "required", "nodeSelectorTerms"]).iter();
        let mut values = terms.flat_map(|t| t.list_at(&["matchExpressions"])).flat_map(|e| e.list_at(&["values"]));
        VolumeValidationOptions {
            attributes_class: cx.features.enabled("VolumeAttributesClass")
                || !old.field("volumeAttributesClassName").is_null(),
            any_affinity_values: values.any(|v| !names::label_value(v.as_str().unwrap_or("")).is_empty()),
        }
    }
}

fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    let class = ["spec", "volumeAttributesClassName"];
    if !cx.features.enabled("VolumeAttributesClass") && old.at(&class).is_null() {
        new.remove(&class);
    }
}

fn validate_spec(volume: &Cursor, options: &VolumeValidationOptions, errors: &mut Errors) {
    let spec = volume.field("spec");
    validate_access_modes(&spec, errors);
    validate_capacity(&spec.field("capacity"), errors);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        policy.one_of(errors, &RECLAIM_POLICIES);
    }
    let nodes = spec.field("nodeAffinity");
    if nodes.is_set() {
        let required = nodes.field("required");
        if required.is_set() {
            affinity::node_selector(&required, options.any_affinity_values, errors);
        } else {
            required.required(errors, "must specify required node constraints");
        }
    }
    sources::validate(&spec, volume.value().name(), nodes.is_set(), errors);
    if sources::is_root(spec.at(&["hostPath", "path"]).opt_str()) && policy.str() == "Recycle" {
        policy.forbidden(errors, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.field("storageClassName");
    if !class.is_empty() {
        class.check_name(errors, names::name_is_dns_subdomain);
    }
    spec.field("volumeMode").optional_one_of(errors, &claim::VOLUME_MODES);
    validate_attributes_class(&spec, options, errors);
}

fn validate_access_modes(spec: &Cursor, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(errors, "");
    }
    claim::access_modes(&modes, errors);
}

/// Storage, and nothing else.
fn validate_capacity(capacity: &Cursor, errors: &mut Errors) {
    if capacity.is_empty() {
        capacity.required(errors, "");
    }
    if capacity.value().get("storage").is_none() || capacity.len() > 1 {
        errors.not_supported(capacity.path(), capacity.value().clone(), &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let value = amount.quantity().value();
        if value < 0 {
            errors.invalid(amount.path(), value, "must be a valid resource quantity");
        }
        resources::positive(&amount, errors);
    }
}

fn validate_attributes_class(spec: &Cursor, options: &VolumeValidationOptions, errors: &mut Errors) {
    let class = spec.field("volumeAttributesClassName");
    if !class.is_set() || !options.attributes_class {
        return;
    }
    if class.str().is_empty() {
        class.required(errors, "an empty string is disallowed");
    } else {
        class.check_name(errors, names::name_is_dns_subdomain);
    }
    if !spec.field("csi").is_set() {
        spec.field("csi").required(errors, "has to be specified when using volumeAttributesClassName");
    }
}

/// Mount options stood in an annotation once, and only some kinds of volume take them from there.
fn validate_mount_options(volume: &Value, errors: &mut Errors) {
    const TAKE_OPTIONS: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let takes = TAKE_OPTIONS.iter().any(|source| !volume.at(&["spec", source]).is_null());
    if !takes && volume.annotation(MOUNT_OPTIONS).is_some() {
        let path = Path::of("metadata.annotations").field(MOUNT_OPTIONS);
        errors.forbidden(&path, "may not specify mount options for this volume type");
    }
}

fn validate_source_unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    let (mut now, before) = (new.field("spec").clone(), old.field("spec"));
    let secret = ["csi", "controllerExpandSecretRef"];
    if !before.field("csi").is_null() && before.at(&secret).is_null() {
        // A volume that cannot be expanded may become one that can.
        now.remove(&secret);
    }
    if !internal::same(SOURCE, &now, before) {
        let diff = diff::unified(&internal::pretty(SOURCE, before), &internal::pretty(SOURCE, &now));
        let path = Path::of("spec.persistentvolumesource");
        errors.forbidden(&path, format!("spec.persistentvolumesource is immutable after creation\n{diff}"));
    }
}

fn validate_affinity_unchanged(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (now, before) = (new.at(&["spec", "nodeAffinity"]), old.at(&["spec", "nodeAffinity"]));
    if cx.features.enabled("MutablePVNodeAffinity") || !before.is_set() {
        return;
    }
    let mut allowed = before.value().clone();
    modernize(&mut allowed, now.value());
    if !internal::same(AFFINITY, now.value(), &allowed) {
        let detail = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.invalid(&Path::of("nodeAffinity"), internal::shown(AFFINITY, now.value()), detail);
    }
}

/// Gives the old requirements the new names of labels, where the new volume uses them.
fn modernize(old: &mut Value, new: &Value) {
    const RENAMED: [(&str, &str); 5] = [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    let terms = old.at_mut(&["required", "nodeSelectorTerms"]).and_then(Value::as_list_mut);
    let new_terms = new.list_at(&["required", "nodeSelectorTerms"]);
    for (term, new_term) in terms.into_iter().flatten().zip(new_terms) {
        for list in ["matchExpressions", "matchFields"] {
            let requirements = term.get_mut(list).and_then(Value::as_list_mut);
            for (requirement, new) in requirements.into_iter().flatten().zip(new_term.list_at(&[list])) {
                let key = (requirement.str_at(&["key"]), new.str_at(&["key"]));
                // Upstream looks the old name up, and takes an empty name for the new one of a label that has none.
                let has_new_name = RENAMED.iter().any(|(old, _)| *old == key.0);
                if RENAMED.contains(&key) || (key.1.is_empty() && !has_new_name) {
                    requirement.keep(&["key"], new);
                }
            }
        }
    }
}

fn validate_attributes_class_change(cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let (class, before) =
        (new.at(&["spec", "volumeAttributesClassName"]), old.at(&["spec", "volumeAttributesClassName"]));
    if class.value() == before.value() {
        return;
    }
    if !cx.features.enabled("VolumeAttributesClass") {
        class.forbidden(errors, "update is forbidden when the VolumeAttributesClass feature gate is disabled");
    }
    if before.is_set() && !class.is_set() {
        class.forbidden(errors, "update from non-nil value to nil is forbidden");
    }
}

fn volume_warnings(volume: &Value) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    const SOURCES: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let mut found = Vec::new();
    for (key, message) in ANNOTATIONS.iter().filter(|(key, _)| volume.annotation(key).is_some()) {
        found.push(format!("metadata.annotations[{key}]: {message}"));
    }
    let spec = Cursor::root(volume).field("spec");
    if spec.field("persistentVolumeReclaimPolicy").str() == "Recycle" {
        found.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_string(),
        );
    }
    for term in spec.at(&["nodeAffinity", "required", "nodeSelectorTerms"]).each() {
        warnings::node_selector_term(&term, false, &mut found);
    }
    let deprecated = SOURCES.iter().filter(|(source, ..)| spec.field(source).is_set());
    found.extend(deprecated.map(|(_, shown, message)| format!("spec.{shown}: {message}")));
    found
}

#[cfg(test)]
mod tests;
