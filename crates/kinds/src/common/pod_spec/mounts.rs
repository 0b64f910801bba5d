//! Volumes inside containers: mounted file systems and block devices.

use std::collections::BTreeSet;

use object::{Cursor, Errors};

use super::Scope;
use crate::common::checks::Checks;
use crate::common::paths;

const BIND_OPTIONS: [&str; 3] = ["nodev", "noexec", "nosuid"];

pub fn validate(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let mounts = container.field("volumeMounts");
    let devices: Vec<Cursor> = container.field("volumeDevices").each().collect();
    let device_names: BTreeSet<&str> = devices.iter().map(|device| device.field("name").str()).collect();
    let device_paths = last_paths(&devices, "devicePath");
    let mut points = BTreeSet::new();
    for mount in mounts.each() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        name.require(errors);
        if !scope.volumes.contains_key(name.str()) {
            errors.not_found(name.path(), name.str());
        }
        path.require(errors);
        if !points.insert(path.str()) {
            path.bad(errors, "must be unique");
        }
        if device_names.contains(name.str()) {
            name.bad(errors, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path.str()) {
            path.bad(errors, "must not already exist as a path in volumeDevices");
        }
        sub_paths(&mount, &mounts, errors);
        propagation(&mount, container, &mounts, errors);
        recursive_read_only(&mount, &mounts, errors);
        bind_options(&mount, scope, errors);
    }
}

/// The paths by volume name: where a name repeats, upstream only remembers the last path.
fn last_paths<'a>(list: &[Cursor<'a>], field: &'a str) -> BTreeSet<&'a str> {
    let by_name: std::collections::BTreeMap<&str, &str> =
        list.iter().map(|item| (item.field("name").str(), item.field(field).str())).collect();
    by_name.into_values().collect()
}

fn sub_paths(mount: &Cursor, mounts: &Cursor, errors: &mut Errors) {
    let (path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    // Upstream reports these two, and the next, at the list.
    if !path.str().is_empty() {
        paths::local_descending(path.str(), &mounts.path().field("subPath"), errors);
    }
    if expression.str().is_empty() {
        return;
    }
    if !path.str().is_empty() {
        expression.bad(errors, "subPathExpr and subPath are mutually exclusive");
    }
    paths::local_descending(expression.str(), &mounts.path().field("subPathExpr"), errors);
}

fn propagation(mount: &Cursor, container: &Cursor, mounts: &Cursor, errors: &mut Errors) {
    let value = mount.field("mountPropagation");
    let mode = Cursor::new(value.value(), mounts.path().field("mountPropagation"));
    mode.optional_one_of(errors, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = container.at(&["securityContext", "privileged"]).bool();
    if mode.str() == "Bidirectional" && !privileged {
        mode.forbidden(errors, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &Cursor, mounts: &Cursor, errors: &mut Errors) {
    let value = mount.field("recursiveReadOnly");
    let mode = Cursor::new(value.value(), mounts.path().field("recursiveReadOnly"));
    match mode.opt_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.field("readOnly").bool() {
                mode.forbidden(errors, "may only be specified when readOnly is true");
            }
            if !matches!(mount.field("mountPropagation").opt_str(), None | Some("None")) {
                mode.forbidden(errors, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => mode.not_supported(errors, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn bind_options(mount: &Cursor, scope: &Scope, errors: &mut Errors) {
    let options = mount.field("bindMountOptions");
    let mut seen = BTreeSet::new();
    for option in options.each() {
        option.one_of(errors, &BIND_OPTIONS);
        if !seen.insert(option.str()) {
            option.duplicate(errors);
        }
    }
    let volume = scope.volumes.get(mount.field("name").str());
    if !options.is_empty() && volume.is_some_and(|volume| !volume.field("image").is_null()) {
        options.invalid(errors, "bindMountOptions may not be used with image volumes");
    }
}

/// Volumes that containers use as block devices.
pub fn devices(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let mounts: Vec<Cursor> = container.field("volumeMounts").each().collect();
    let mount_names: BTreeSet<&str> = mounts.iter().map(|mount| mount.field("name").str()).collect();
    let mount_paths = last_paths(&mounts, "mountPath");
    let (mut names, mut used) = (BTreeSet::new(), BTreeSet::new());
    for device in container.field("volumeDevices").each() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        name.require(errors);
        if names.contains(name.str()) {
            name.bad(errors, "must be unique");
        }
        match scope.volumes.get(name.str()) {
            None => errors.not_found(name.path(), name.str()),
            Some(volume) if volume.field("persistentVolumeClaim").is_null() && volume.field("ephemeral").is_null() => {
                name.bad(
                    errors,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(_) => {}
        }
        path.require(errors);
        if used.contains(path.str()) {
            path.bad(errors, "must be unique");
        }
        if paths::has_backsteps(path.str()) {
            path.bad(errors, "can not contain backsteps ('..')");
        } else {
            used.insert(path.str());
        }
        if mount_names.contains(name.str()) {
            name.bad(errors, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path.str()) {
            path.bad(errors, "must not already exist as a path in volumeMounts");
        }
        if !name.str().is_empty() {
            names.insert(name.str());
        }
    }
}
