use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(
        PersistentVolumeClaim,
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, resourceVersion: '1'}, spec: {accessModes: [ReadWriteOnce],
          resources: {requests: {storage: 1Gi}}}}",
    )
}

#[test]
fn data_sources_are_united() {
    let pending = "status: {phase: Pending}";
    check().stored(&[
        ("", pending),
        (
            "spec: {dataSource: {kind: PersistentVolumeClaim, name: b}}",
            "{status: {phase: Pending}, spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: b}}}",
        ),
        (
            "spec: {dataSourceRef: {apiGroup: x.io, kind: Any, name: b}}",
            "{status: {phase: Pending}, spec: {dataSource: {apiGroup: x.io, kind: Any, name: b}}}",
        ),
        (
            "spec: {dataSource: {apiGroup: x.io, kind: Any, name: b}}",
            "{status: {phase: Pending}, spec: {dataSource: null}}",
        ),
        (
            "spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: b, namespace: other}}",
            "{status: {phase: Pending}, spec: {dataSourceRef: null}}",
        ),
    ]);
}

#[test]
fn new_claims_are_checked() {
    check().create(&[
        ("spec: {accessModes: []}", "spec.accessModes: Required value: at least 1 access mode is required"),
        (
            "spec: {resources: {requests: {storage: '0'}}}",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ),
        ("spec: {resources: null}", "spec.resources[storage]: Required value"),
        (
            "spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: ''}}",
            "spec.dataSource.name: Required value
             spec.dataSourceRef.name: Required value",
        ),
    ]);
}

#[test]
fn bound_claims_may_grow() {
    let bound = |size: &str| {
        format!(
            "{{spec: {{resources: {{requests: {{storage: {size}}}}}}}, status: {{phase: Bound, capacity: {{storage: 1Gi}}}}}}"
        )
    };
    check().update(&[
        ("", "spec: {volumeName: v}", ""),
        (&bound("1Gi"), &bound("2Gi"), ""),
        (&bound("3Gi"), &bound("2Gi"), ""),
        (
            &bound("3Gi"),
            &bound("1Gi"),
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
        ),
    ]);
    let errors = check().try_update("", "spec: {resources: {requests: {storage: 2Gi}}}").unwrap_err().to_string();
    assert_eq!(
        errors,
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n\
         @@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n"
    );
}

#[test]
fn classes_move_from_the_annotation_to_the_field() {
    let annotated = "metadata: {annotations: {volume.beta.kubernetes.io/storage-class: fast}}";
    check().update(&[
        (annotated, "spec: {storageClassName: fast}", ""),
        ("", "spec: {storageClassName: fast}", ""),
        (
            annotated,
            "",
            "metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"\": field is immutable",
        ),
    ]);
}

#[test]
fn the_volume_mode_stays() {
    let errors = check().try_update("", "spec: {volumeMode: Block}").unwrap_err().to_string();
    assert!(errors.starts_with("spec: Forbidden: spec is immutable after creation"), "{errors}");
    assert!(errors.ends_with("volumeMode: Invalid value: \"Block\": field is immutable"), "{errors}");
}

#[test]
fn the_attributes_class_stays_once_applied() {
    let applied = "{spec: {volumeAttributesClassName: a}, status: {phase: Bound, currentVolumeAttributesClassName: a}}";
    check().update(&[
        (applied, "spec: {volumeAttributesClassName: b}", ""),
        (
            applied,
            "",
            "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
        ),
    ]);
}

#[test]
fn statuses_are_checked() {
    check().update_status(&[
        ("", "status: {capacity: {storage: 1Gi}, allocatedResources: {storage: 2Gi}}", ""),
        (
            "",
            "status: {capacity: {storage: '-1'}, allocatedResources: {cpu: '1'}, allocatedResourceStatuses: {storage: Odd}}",
            r#"status.capacity[storage]: Invalid value: -1: must be a valid resource quantity
            status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"
            status.allocatedResources: Unsupported value: "cpu": supported values: "storage""#,
        ),
    ]);
}

#[test]
fn cells_follow_the_binding() {
    check().cells(&[
        ("", "a Pending     <unset> <unknown> Filesystem"),
        (
            "{spec: {volumeName: v, storageClassName: fast}, status: {phase: Bound, capacity: {storage: 2Gi},
              accessModes: [ReadOnlyMany, ReadWriteOnce]}}",
            "a Bound v 2Gi RWO,ROX fast <unset> <unknown> Filesystem",
        ),
    ]);
}
