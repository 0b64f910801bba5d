//! The `resize` subresource: cpu and memory of a running pod.

use object::{Cursor, Errors, Value};
use registry::Context;

use super::{levels, metadata_and_spec, prepare, update};
use crate::common::checks::quantity;
use crate::common::internal;
use crate::common::pod_spec::visit::{change_each, is_sidecar};
use crate::common::pod_spec::{PodValidationOptions, annotations, drop_disabled, usage};

const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";

/// Puts back everything but resources and resize policies, unless containers came, went or moved: that is an error, and
/// the checks must see it.
pub fn prepare(cx: &Context, new: &mut Value, old: &Value) {
    let length = |pod: &Value, list: &str| pod.list_at(&["spec", list]).len();
    if LISTS.iter().all(|list| length(new, list) == length(old, list)) {
        keep_but_resources(cx, new, old);
    }
    if cx.features.enabled("PodLevelResourcesFixDefaulting") {
        levels::keep(cx, new, old);
        if let Some(spec) = new.get_mut("spec").filter(|spec| !spec.field("resources").is_null()) {
            levels::default(cx, spec);
        }
    }
    drop_disabled(cx, new, Some(old));
}

fn keep_but_resources(cx: &Context, new: &mut Value, old: &Value) {
    let wanted = new.field("spec").clone();
    new.keep(&["spec"], old);
    new.keep(&["status"], old);
    prepare::keep_metadata(new, old);
    let Some(spec) = new.get_mut("spec") else { return };
    if cx.features.enabled("InPlacePodLevelResourcesVerticalScaling") {
        spec.keep(&["resources"], &wanted);
    }
    if cx.features.enabled("InPlacePodVerticalScalingMemoryBackedVolumes") {
        spec.keep(&["volumes"], &wanted);
    }
    for list in LISTS {
        let wanted = wanted.list_at(&[list]);
        let name = |container: &Value| container.str_at(&["name"]).to_string();
        let in_order = spec.list_at(&[list]).iter().zip(wanted).all(|(a, b)| name(a) == name(b));
        if !in_order {
            spec.set(&[list], wanted.to_vec());
            continue;
        }
        let mut wanted = wanted.iter();
        change_each(spec, list, |container| {
            let wanted = wanted.next().unwrap_or(&Value::Null);
            container.keep(&["resources"], wanted);
            container.keep(&["resizePolicy"], wanted);
        });
    }
}

pub fn validate(cx: &Context, new: &Cursor, old: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    metadata_and_spec(new, options, errors);
    let (spec, old_spec) = (new.field("spec"), old.field("spec"));
    if old.at(&["metadata", "annotations"]).field(annotations::MIRROR).is_set() {
        return update::refuse(errors, "static pods cannot be resized");
    }
    if old_spec.at(&["os", "name"]).str() == "windows" {
        return update::refuse(errors, "windows pods cannot be resized");
    }
    let class = new.at(&["status", "qosClass"]).str();
    let before = match old.at(&["status", "qosClass"]).str() {
        "" => usage::qos_class(cx.features, old_spec.value()),
        class => class,
    };
    if before != usage::qos_class(cx.features, spec.value()) {
        spec.invalid_as(errors, class, "Pod QOS Class may not change as a result of resizing");
    }
    if !node_can_resize(old.value()) {
        spec.forbidden(errors, "Pod running on node without support for resize");
    }
    let mut munged = spec.value().clone();
    let has_own = |spec: &Cursor| ["requests", "limits"].iter().any(|which| !spec.at(&["resources", which]).is_empty());
    if has_own(&old_spec) || has_own(&spec) {
        if !options.resize_pod_level_resources {
            let why = "resize of pods with pod-level resources is forbidden when \
                       InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
            return errors.forbidden(&object::Path::root().key(""), why);
        }
        pod_level(&mut munged, &spec, old_spec.value(), errors);
    }
    if !same_containers(&spec, old_spec.value(), errors) {
        return;
    }
    for (list, container) in
        ["initContainers", "containers"].iter().flat_map(|list| spec.field(list).each().map(move |c| (list, c)))
    {
        not_removed(&container, old_spec.value(), list, errors);
    }
    regular(&mut munged, &spec, old_spec.value(), errors);
    init(&mut munged, &spec, old_spec.value(), errors);
    volumes(&mut munged, &spec, &old_spec, options, errors);
    if errors.is_empty() && !internal::same("PodSpec", &munged, old_spec.value()) {
        spec.forbidden(errors, ONLY_CPU_AND_MEMORY);
    }
}

/// A node that reports what running containers have can change it. Without running containers there is no telling.
fn node_can_resize(pod: &Value) -> bool {
    let mut statuses = pod.list_at(&["status", "containerStatuses"]).iter();
    let running = statuses.find(|status| !status.at(&["state", "running"]).is_null());
    running.is_none_or(|status| !status.field("resources").is_null())
}

fn pod_level(munged: &mut Value, spec: &Cursor, old: &Value, errors: &mut Errors) {
    let (resources, before) = (spec.field("resources"), old.field("resources"));
    if !before.is_null() {
        if !resources.is_set() {
            return resources.forbidden(errors, "pod-level resources cannot be removed");
        }
        for which in ["requests", "limits"] {
            if is_removed(resources.field(which).value(), before.field(which)) {
                let detail = format!("pod-level resource {which} cannot be removed");
                resources.field(which).forbidden(errors, detail);
            }
        }
    }
    if let Some(resources) = munged.get_mut("resources") {
        keep_cpu_and_memory(resources, before);
        let is_empty = ["requests", "limits", "claims"].iter().all(|field| resources.field(field).is_empty());
        if before.is_null() && is_empty {
            munged.remove(&["resources"]);
        }
    }
    if !internal::same("*ResourceRequirements", munged.field("resources"), before) {
        spec.forbidden(errors, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Makes cpu and memory what they were, so that a comparison shows only other changes.
fn keep_cpu_and_memory(resources: &mut Value, old: &Value) {
    for which in ["limits", "requests"] {
        for resource in ["cpu", "memory"] {
            let path = [which, resource];
            match old.at(&path) {
                Value::Null => {
                    resources.remove(&path);
                }
                amount => resources.set(&path, amount.clone()),
            }
        }
    }
}

fn is_removed(new: &Value, old: &Value) -> bool {
    old.as_map().is_some_and(|old| old.keys().any(|name| new.field(name).is_null()))
}

/// Containers may not come, go, move or change their name.
fn same_containers(spec: &Cursor, old: &Value, errors: &mut Errors) -> bool {
    let before = errors.len();
    for list in LISTS {
        let (new, old) = (spec.field(list), old.list_at(&[list]));
        if new.len() != old.len() {
            new.forbidden(errors, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (container, old) in new.each().zip(old) {
            let name = container.field("name");
            if name.str() != old.str_at(&["name"]) {
                name.forbidden(errors, format!("{list} may not be renamed or reordered on resize"));
            }
        }
    }
    errors.len() == before
}

fn not_removed(container: &Cursor, old: &Value, list: &str, errors: &mut Errors) {
    let name = container.field("name").str();
    let Some(old) = old.list_at(&[list]).iter().find(|old| old.str_at(&["name"]) == name) else { return };
    for which in ["requests", "limits"] {
        let amounts = container.at(&["resources", which]);
        if is_removed(amounts.value(), old.at(&["resources", which])) {
            amounts.forbidden(errors, format!("resource {which} cannot be removed"));
        }
    }
}

fn regular(munged: &mut Value, spec: &Cursor, old: &Value, errors: &mut Errors) {
    let mut before = old.list_at(&["containers"]).iter();
    change_each(munged, "containers", |container| {
        let before = before.next().unwrap_or(&Value::Null);
        keep_cpu_and_memory(container.slot(&["resources"]), before.field("resources"));
        if !internal::same("Container", container, before) {
            spec.forbidden(errors, ONLY_CPU_AND_MEMORY);
        }
    });
}

fn init(munged: &mut Value, spec: &Cursor, old: &Value, errors: &mut Errors) {
    let mut before = old.list_at(&["initContainers"]).iter();
    let mut places = spec.field("initContainers").each();
    change_each(munged, "initContainers", |container| {
        let before = before.next().unwrap_or(&Value::Null);
        let Some(place) = places.next() else { return };
        let modified = !internal::same("Container", container, before);
        keep_cpu_and_memory(container.slot(&["resources"]), before.field("resources"));
        if !internal::same("Container", container, before) {
            place.forbidden(errors, "only cpu and memory resources for init or sidecar containers are mutable");
        }
        if modified && !is_sidecar(container) {
            for policy in container.list_at(&["resizePolicy"]) {
                if policy.str_at(&["restartPolicy"]) == "RestartContainer" {
                    let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    place.forbidden(errors, why);
                }
            }
        }
    });
}

/// Volumes in memory may change their size, where that is allowed.
fn volumes(munged: &mut Value, spec: &Cursor, old_spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let (new, old) = (spec.field("volumes"), old_spec.field("volumes"));
    if !options.resize_memory_volumes {
        if !internal::same("[]Volume", new.value(), old.value()) {
            let why = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate \
                       is disabled";
            new.forbidden(errors, why);
        }
        return;
    }
    if new.len() != old.len() {
        new.forbidden(errors, "volumes may not be added or removed on resize");
    } else {
        for (volume, old) in new.each().zip(old.each()) {
            memory_volume(&volume, old.value(), errors);
        }
    }
    munged.keep(&["volumes"], old_spec.value());
}

fn memory_volume(volume: &Cursor, old: &Value, errors: &mut Errors) {
    const LIMIT: [&str; 2] = ["emptyDir", "sizeLimit"];
    let name = volume.field("name");
    if name.str() != old.str_at(&["name"]) {
        return name.forbidden(errors, "volumes may not be renamed or reordered on resize");
    }
    let directories = volume.field("emptyDir").is_set() && !old.field("emptyDir").is_null();
    let mut same_size = volume.value().clone();
    if directories {
        same_size.keep(&LIMIT, old);
    }
    if !internal::same("Volume", &same_size, old) {
        return volume.forbidden(errors, "only sizeLimit of memory-backed emptyDir volumes is mutable on resize");
    }
    let limit = volume.at(&LIMIT);
    let (now, before) = (quantity(limit.value()), quantity(old.at(&LIMIT)));
    if !directories || now == before {
    } else if now.is_zero() != before.is_zero() {
        limit.forbidden(errors, "adding or removing sizeLimit on an existing volume is not allowed");
    } else if volume.at(&["emptyDir", "medium"]).str() != "Memory" {
        limit.forbidden(errors, "sizeLimit is only mutable for memory-backed emptyDir volumes");
    }
}
