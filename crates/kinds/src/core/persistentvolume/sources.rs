//! What a volume is made of: exactly one of many sources.

use object::{Cursor, Errors, names};

use crate::common::checks::Checks;
use crate::common::volumes;

type Rule = fn(&Cursor, &mut Errors);

/// Each source with its rule, in upstream's order. The second name is where errors inside it are reported, the third
/// where a surplus one is.
const SOURCES: [(&str, &str, &str, Rule); 22] = [
    ("hostPath", "hostPath", "hostPath", volumes::host_path),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", volumes::gce_persistent_disk),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", volumes::aws_elastic_block_store),
    ("glusterfs", "glusterfs", "glusterfs", glusterfs),
    ("flocker", "flocker", "flocker", volumes::flocker),
    ("nfs", "nfs", "nfs", volumes::nfs),
    ("rbd", "rbd", "rbd", volumes::rbd),
    ("quobyte", "quobyte", "quobyte", volumes::quobyte),
    ("cephfs", "cephfs", "cephFS", volumes::cephfs),
    ("iscsi", "iscsi", "iscsi", |_, _| {}),
    ("cinder", "cinder", "cinder", cinder),
    ("fc", "fc", "fc", volumes::fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", volumes::flex),
    ("azureFile", "azureFile", "azureFile", azure_file),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", volumes::vsphere),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", volumes::photon_persistent_disk),
    ("portworxVolume", "portworxVolume", "portworxVolume", volumes::portworx),
    ("azureDisk", "azureDisk", "azureDisk", volumes::azure_disk),
    ("scaleIO", "scaleIO", "scaleIO", volumes::scale_io),
    ("local", "local", "local", volumes::local),
    ("storageos", "storageos", "storageos", storage_os),
    ("csi", "csi", "csi", csi),
];

pub fn validate(spec: &Cursor, volume_name: &str, has_affinity: bool, errors: &mut Errors) {
    let mut found = 0;
    for (name, inside, surplus, rule) in SOURCES {
        let source = spec.field(name);
        if !source.is_set() {
            continue;
        }
        // Upstream forgets to refuse a second source that is a flex volume.
        if found > 0 && name != "flexVolume" {
            errors.forbidden(&spec.path().field(surplus), "may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        let source = Cursor::new(source.value(), spec.path().field(inside));
        rule(&source, errors);
        if name == "iscsi" {
            volumes::iscsi_persistent(&source, volume_name, errors);
        }
        if name == "local" && !has_affinity {
            spec.field("nodeAffinity").required(errors, "Local volume requires node affinity");
        }
    }
    if found == 0 {
        spec.required(errors, "must specify a volume type");
    }
}

/// Whether a path, however it is written, is the root directory.
pub fn is_root(path: Option<&str>) -> bool {
    let Some(path) = path.filter(|path| path.starts_with('/')) else { return false };
    let mut depth: usize = 0;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    depth == 0
}

fn glusterfs(source: &Cursor, errors: &mut Errors) {
    volumes::glusterfs(source, errors);
    let namespace = source.field("endpointsNamespace");
    match namespace.opt_str() {
        None => {}
        Some("") => namespace.bad(errors, "if the endpointnamespace is set, it must be a valid namespace name"),
        Some(_) => namespace.check_name(errors, names::name_is_dns_label),
    }
}

fn cinder(source: &Cursor, errors: &mut Errors) {
    volumes::cinder(source, errors);
    secret_namespace(source, errors);
}

fn storage_os(source: &Cursor, errors: &mut Errors) {
    volumes::storage_os(source, errors);
    secret_namespace(source, errors);
}

/// A pod's secrets are in its namespace; a volume has none and must name it.
fn secret_namespace(source: &Cursor, errors: &mut Errors) {
    let secret = source.field("secretRef");
    if secret.is_set() {
        secret.field("namespace").require(errors);
    }
}

fn azure_file(source: &Cursor, errors: &mut Errors) {
    volumes::azure_file(source, errors);
    let namespace = source.field("secretNamespace");
    if namespace.is_set() {
        namespace.require(errors);
    }
}

fn csi(source: &Cursor, errors: &mut Errors) {
    volumes::csi_driver_name(&source.field("driver"), errors);
    source.field("volumeHandle").require(errors);
    // Upstream has no rule for the secret of the staging step.
    for secret in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = source.field(secret);
        if !secret.is_set() {
            continue;
        }
        let (name, namespace) = (secret.field("name"), secret.field("namespace"));
        if name.require(errors) {
            name.check(errors, names::dns1123_subdomain);
        }
        if namespace.require(errors) {
            namespace.check(errors, names::dns1123_label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_root;

    #[test]
    fn roots_are_seen_through() {
        for (path, want) in
            [("/", true), ("//./", true), ("/a/..", true), ("/..", true), ("/a", false), ("", false), ("a", false)]
        {
            assert_eq!(is_root(Some(path)), want, "{path}");
        }
    }
}
