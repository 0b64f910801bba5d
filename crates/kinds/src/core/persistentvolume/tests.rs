use object::Timestamp;

use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(
        PersistentVolume,
        "{apiVersion: v1, kind: PersistentVolume, metadata: {name: a, resourceVersion: '1'}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi},
          persistentVolumeReclaimPolicy: Retain, volumeMode: Filesystem, hostPath: {path: /tmp}}}",
    )
}

#[test]
fn new_volumes_are_pending_since_now() {
    check().stored(&[("", "status: {phase: Pending, lastPhaseTransitionTime: '2023-11-14T22:13:20Z'}")]);
}

#[test]
fn specs_are_checked() {
    check().create(&[
        ("", ""),
        (
            "spec: {capacity: null, accessModes: null}",
            "spec.accessModes: Required value
             spec.capacity: Required value
             spec.capacity: Unsupported value: null: supported values: \"storage\"",
        ),
        (
            "spec: {capacity: {storage: '-1', cpu: '1'}}",
            r#"spec.capacity: Unsupported value: {"cpu":"1","storage":"-1"}: supported values: "storage"
            spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity
            spec.capacity[storage]: Invalid value: "-1": must be greater than zero"#,
        ),
        ("spec: {hostPath: null}", "spec: Required value: must specify a volume type"),
        (
            "spec: {nfs: {server: s, path: /p}, flexVolume: {driver: d}, csi: {}}",
            "spec.nfs: Forbidden: may not specify more than 1 volume type
             spec.csi: Forbidden: may not specify more than 1 volume type",
        ),
        ("spec: {hostPath: null, gcePersistentDisk: {}}", "spec.persistentDisk.pdName: Required value"),
        (
            "spec: {hostPath: null, local: {path: /x}}",
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
        (
            "spec: {hostPath: {path: /a/..}, persistentVolumeReclaimPolicy: Recycle}",
            "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'
             spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ),
        (
            "spec: {hostPath: null, csi: {driver: d.io, nodePublishSecretRef: {}}}",
            "spec.csi.volumeHandle: Required value
             spec.csi.nodePublishSecretRef.name: Required value
             spec.csi.nodePublishSecretRef.namespace: Required value",
        ),
        (
            "spec: {volumeAttributesClassName: ''}",
            "spec.volumeAttributesClassName: Required value: an empty string is disallowed
             spec.csi: Required value: has to be specified when using volumeAttributesClassName",
        ),
        ("spec: {nodeAffinity: {}}", "spec.nodeAffinity.required: Required value: must specify required node constraints"),
        (
            "metadata: {annotations: {volume.beta.kubernetes.io/mount-options: ro}}",
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type",
        ),
    ]);
}

#[test]
fn sources_cannot_change() {
    let errors = check().try_update("", "spec: {hostPath: {path: /other}}").unwrap_err().to_string();
    assert_eq!(
        errors,
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n\
         @@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/tmp\",\n+  \"Path\": \"/other\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n"
    );
    let csi = |secret: &str| format!("spec: {{hostPath: null, csi: {{driver: d.io, volumeHandle: h{secret}}}}}");
    check().update(&[(&csi(""), &csi(", controllerExpandSecretRef: {name: a, namespace: b}"), "")]);
}

#[test]
fn affinity_is_set_once() {
    let term = |key: &str| {
        format!(
            "spec: {{nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: Exists}}]}}]}}}}}}"
        )
    };
    let (old, new) = (term("beta.kubernetes.io/os"), term("kubernetes.io/os"));
    check().update(&[
        ("", &old, ""),
        (&old, &new, ""),
        (
            &new,
            &old,
            r#"nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"beta.kubernetes.io/os","Operator":"Exists","Values":null}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA"#,
        ),
        (
            "{spec: {volumeAttributesClassName: a, hostPath: null, csi: {driver: d.io, volumeHandle: h}}}",
            "{spec: {hostPath: null, csi: {driver: d.io, volumeHandle: h}}}",
            "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden",
        ),
    ]);
}

#[test]
fn the_time_of_a_new_phase_is_kept() {
    let mut check = check();
    check.now = Timestamp::new(1_700_000_100, 0);
    let time = |old: &str, new: &str| {
        let stored = check.try_update_status(old, new).unwrap();
        stored.str_at(&["status", "lastPhaseTransitionTime"]).to_string()
    };
    let since = "status: {phase: Bound, lastPhaseTransitionTime: '2020-01-01T00:00:00Z'}";
    assert_eq!(time(since, "status: {phase: Bound}"), "2020-01-01T00:00:00Z");
    assert_eq!(time(since, "status: {phase: Released}"), "2023-11-14T22:15:00Z");
    assert_eq!(
        time(since, "status: {phase: Released, lastPhaseTransitionTime: '2021-01-01T00:00:00Z'}"),
        "2021-01-01T00:00:00Z"
    );
}

#[test]
fn old_ways_are_warned_about() {
    check().warnings(&[
        (
            "spec: {persistentVolumeReclaimPolicy: Recycle, storageos: {}}",
            &[
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
                "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
            ],
        ),
        (
            "spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: beta.kubernetes.io/os, operator: Exists}]}]}}}",
            &["spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead"],
        ),
    ]);
}

#[test]
fn inline_specs_are_csi() {
    let spec = check().object("spec: {csi: {driver: d.io, volumeHandle: h}}");
    let mut errors = Errors::new();
    validate_inline_spec(&Cursor::root(&spec).field("spec"), &mut errors);
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        [
            "spec.capacity: Forbidden: may not be specified in the context of inline volumes",
            "spec.csi: Forbidden: may not specify more than 1 volume type",
        ]
    );
}

#[test]
fn cells_show_the_claim() {
    check().cells(&[(
        "{spec: {claimRef: {namespace: ns, name: c}, storageClassName: fast}, status: {phase: Bound}}",
        "a 1Gi RWO Retain Bound ns/c fast <unset>  <unknown> Filesystem",
    )]);
}
