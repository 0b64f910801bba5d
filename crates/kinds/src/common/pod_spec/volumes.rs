//! The volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Value, names};

use super::containers::PULL_POLICIES;
use super::{PodValidationOptions, env, projected};
use crate::common::checks::Checks;
use crate::common::{claim, paths, volumes};

const FILE_MODE_MAX: i64 = 0o777;
const DIRECTORY_MODE_MAX: i64 = 0o1777;
const DOWNWARD_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

type Rule = fn(&Cursor, &PodValidationOptions, &mut Errors);

/// Every kind of volume in upstream's order: its field, what upstream calls it when there is one too many, what it
/// calls it in other errors, and its rule.
const KINDS: [(&str, &str, &str, Rule); 30] = [
    ("emptyDir", "emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", "hostPath", |c, _, e| volumes::host_path(c, e)),
    ("gitRepo", "gitRepo", "gitRepo", |c, _, e| volumes::git_repo(c, e)),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |c, _, e| volumes::gce_persistent_disk(c, e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |c, _, e| {
        volumes::aws_elastic_block_store(c, e)
    }),
    ("secret", "secret", "secret", |c, _, e| keys_volume(c, "secretName", e)),
    ("nfs", "nfs", "nfs", |c, _, e| volumes::nfs(c, e)),
    ("iscsi", "iscsi", "iscsi", |c, _, e| volumes::iscsi(c, e)),
    ("glusterfs", "glusterfs", "glusterfs", |c, _, e| volumes::glusterfs(c, e)),
    ("flocker", "flocker", "flocker", |c, _, e| volumes::flocker(c, e)),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |c, _, e| {
        volumes::persistent_volume_claim(c, e)
    }),
    ("rbd", "rbd", "rbd", |c, _, e| volumes::rbd(c, e)),
    ("cinder", "cinder", "cinder", |c, _, e| volumes::cinder(c, e)),
    ("cephfs", "cephFS", "cephfs", |c, _, e| volumes::cephfs(c, e)),
    ("quobyte", "quobyte", "quobyte", |c, _, e| volumes::quobyte(c, e)),
    ("downwardAPI", "downwarAPI", "downwardAPI", downward_api),
    ("fc", "fc", "fc", |c, _, e| volumes::fibre_channel(c, e)),
    ("flexVolume", "flexVolume", "flexVolume", |c, _, e| volumes::flex(c, e)),
    ("configMap", "configMap", "configMap", |c, _, e| keys_volume(c, "name", e)),
    ("azureFile", "azureFile", "azureFile", |c, _, e| volumes::azure_file(c, e)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |c, _, e| volumes::vsphere(c, e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |c, _, e| {
        volumes::photon_persistent_disk(c, e)
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |c, _, e| volumes::portworx(c, e)),
    ("azureDisk", "azureDisk", "azureDisk", |c, _, e| volumes::azure_disk(c, e)),
    ("storageos", "storageos", "storageos", |c, _, e| volumes::storage_os(c, e)),
    ("projected", "projected", "projected", projected::validate),
    ("scaleIO", "scaleIO", "scaleIO", |c, _, e| volumes::scale_io(c, e)),
    ("csi", "csi", "csi", csi),
    ("ephemeral", "ephemeral", "ephemeral", ephemeral),
    ("image", "image", "image", image),
];

/// Whether a volume says where it comes from.
pub fn has_source(volume: &Value) -> bool {
    KINDS.iter().any(|(field, ..)| !volume.field(field).is_null())
}

/// Checks all volumes and returns those that are fine, by name. `pod` is the metadata of a real pod.
pub fn validate<'a>(
    list: &Cursor<'a>,
    pod: Option<&Cursor>,
    options: &PodValidationOptions,
    errors: &mut Errors,
) -> BTreeMap<&'a str, &'a Value> {
    let pod_name = pod.map_or("", |pod| pod.field("name").str());
    let made: BTreeSet<String> = match pod_name {
        "" => BTreeSet::new(),
        pod => list
            .each()
            .filter(|volume| volume.field("ephemeral").is_set())
            .map(|volume| format!("{pod}-{}", volume.field("name").str()))
            .collect(),
    };
    let mut fine = BTreeMap::new();
    for volume in list.each() {
        let before = errors.len();
        let name = volume.field("name");
        source(&volume, pod_name, options, errors);
        if name.require(errors) {
            name.check(errors, names::dns1123_label);
        }
        if fine.contains_key(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        if errors.len() == before {
            fine.insert(name.str(), volume.value());
        }
        let claim = volume.at(&["persistentVolumeClaim", "claimName"]);
        if made.contains(claim.str()) {
            claim.bad(errors, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    fine
}

/// Exactly one source; only the first is looked into.
fn source(volume: &Cursor, pod_name: &str, options: &PodValidationOptions, errors: &mut Errors) {
    let mut found = false;
    let name = volume.field("name");
    for (field, surplus, at, rule) in KINDS {
        let source = volume.field(field);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.forbidden(&volume.path().field(surplus), "may not specify more than 1 volume type");
        } else {
            found = true;
            rule(&Cursor::new(source.value(), volume.path().field(at)), options, errors);
            if field == "ephemeral" && !pod_name.is_empty() && !name.str().is_empty() {
                for problem in volumes::claim_name_problems(&format!("{pod_name}-{}", name.str())) {
                    name.bad(errors, problem);
                }
            }
        }
        if field == "iscsi" && volumes::is_iscsi_name_too_long(&source, name.str()) {
            name.bad(errors, volumes::ISCSI_NAME_TOO_LONG);
        }
    }
    if !found {
        volume.required(errors, "must specify a volume type");
    }
}

fn empty_dir(source: &Cursor, _: &PodValidationOptions, errors: &mut Errors) {
    let (limit, mode) = (source.field("sizeLimit"), source.field("mode"));
    if limit.quantity().signum() < 0 {
        limit.forbidden(errors, "SizeLimit field must be a valid resource quantity");
    }
    if mode.opt_int().is_some_and(|mode| !(0..=DIRECTORY_MODE_MAX).contains(&mode)) {
        mode.invalid(errors, "must be a number between 0 and 01777 (octal), both inclusive");
    }
}

/// The permissions of a file.
pub fn file_mode(mode: &Cursor, errors: &mut Errors) {
    if mode.opt_int().is_some_and(|mode| !(0..=FILE_MODE_MAX).contains(&mode)) {
        mode.invalid(errors, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// The owner of a file.
pub fn file_user(user: &Cursor, errors: &mut Errors) {
    user.in_range(errors, 0, i64::from(i32::MAX));
}

/// A Secret or a ConfigMap as files; `name` is the field that names it.
fn keys_volume(source: &Cursor, name: &str, errors: &mut Errors) {
    source.field(name).require(errors);
    file_mode(&source.field("defaultMode"), errors);
    file_user(&source.field("defaultUser"), errors);
    for item in source.field("items").each() {
        key_to_path(&item, errors);
    }
}

/// A key and the file its value becomes.
pub fn key_to_path(item: &Cursor, errors: &mut Errors) {
    item.field("key").require(errors);
    let path = item.field("path");
    path.require(errors);
    paths::local_non_reserved(path.str(), path.path(), errors);
    file_mode(&item.field("mode"), errors);
    file_user(&item.field("user"), errors);
}

fn downward_api(source: &Cursor, _: &PodValidationOptions, errors: &mut Errors) {
    file_mode(&source.field("defaultMode"), errors);
    file_user(&source.field("defaultUser"), errors);
    for file in source.field("items").each() {
        // Upstream reports what is wrong with a file at the volume.
        downward_file(&Cursor::new(file.value(), source.path().clone()), errors);
    }
}

/// A file with a field of the pod, or a resource of a container.
pub fn downward_file(file: &Cursor, errors: &mut Errors) {
    let (path, field, resource) = (file.field("path"), file.field("fieldRef"), file.field("resourceFieldRef"));
    path.require(errors);
    paths::local_non_reserved(path.str(), path.path(), errors);
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            env::field_reference(&field, &DOWNWARD_FIELDS, errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                file.invalid_as(errors, "resource", detail);
            }
        }
        (false, true) => env::resource_reference(&resource, true, errors),
        (false, false) => file.required(errors, "one of fieldRef and resourceFieldRef is required"),
    }
    file_mode(&file.field("mode"), errors);
    file_user(&file.field("user"), errors);
}

fn csi(source: &Cursor, _: &PodValidationOptions, errors: &mut Errors) {
    volumes::csi_driver_name(&source.field("driver"), errors);
    let secret = source.field("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.field("name");
    if name.require(errors) {
        // Upstream reports a bad name at the volume.
        let at = Cursor::new(name.value(), source.path().field("name"));
        at.check_name(errors, names::name_is_dns_subdomain);
    }
}

fn ephemeral(source: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let template = source.field("volumeClaimTemplate");
    if !template.is_set() {
        return template.required(errors, "");
    }
    let options = claim::ClaimValidationOptions {
        allow_invalid_label_values: false,
        allow_invalid_api_group: false,
        check_attributes_class: options.claim_attributes_class,
    };
    claim::template(&template, options, errors);
}

fn image(source: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    if !options.allow_empty_image_reference {
        source.field("reference").require(errors);
    }
    source.field("pullPolicy").require_one_of(errors, &PULL_POLICIES);
}
