use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(
        StatefulSet,
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db}
        spec:
          replicas: 1
          revisionHistoryLimit: 10
          podManagementPolicy: OrderedReady
          serviceName: db
          selector: {matchLabels: {app: db}}
          template:
            metadata: {labels: {app: db}}
            spec:
              restartPolicy: Always
              dnsPolicy: ClusterFirst
              terminationGracePeriodSeconds: 30
              containers:
              - {name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File}
        ",
    )
}

const CLAIM: &str = "{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: \
                     {requests: {storage: 1Gi}}}}";

#[test]
fn rollouts_and_claims_are_defaulted() {
    let rolled = |patch: &str| check().decoded(patch).at(&["spec", "updateStrategy"]).clone();
    assert_eq!(rolled(""), value!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}));
    assert_eq!(rolled("spec: {updateStrategy: {type: RollingUpdate}}"), value!({"type": "RollingUpdate"}));
    assert_eq!(rolled("spec: {updateStrategy: {type: OnDelete}}"), value!({"type": "OnDelete"}));
    let with_claim = check().decoded(&format!("spec: {{volumeClaimTemplates: [{CLAIM}]}}"));
    let claim = &with_claim.list_at(&["spec", "volumeClaimTemplates"])[0];
    assert_eq!((claim.api_version(), claim.kind()), ("v1", "PersistentVolumeClaim"));
}

#[test]
fn specs_are_checked() {
    check().create(&[
        ("", ""),
        (
            "spec: {podManagementPolicy: Random, replicas: -1, minReadySeconds: -1, ordinals: {start: -1}, serviceName: A.b}",
            r#"spec.podManagementPolicy: Invalid value: "Random": must be 'OrderedReady' or 'Parallel'
               spec.replicas: Invalid value: -1: must be greater than or equal to 0
               spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
               spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0
               spec.serviceName: Invalid value: "A.b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
        ),
        (
            "spec: {updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}}",
            r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#,
        ),
        (
            "spec: {updateStrategy: {type: Recreate}}",
            r#"spec.updateStrategy: Invalid value: {"Type":"Recreate","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'"#,
        ),
        (
            "spec: {updateStrategy: {rollingUpdate: {partition: -1, maxUnavailable: 0}}}",
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0
             spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
        ),
        (
            "spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep, whenScaled: Delete}}",
            r#"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete""#,
        ),
        (
            "spec: {selector: {matchLabels: null}, template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 1}}}",
            r#"spec.selector: Invalid value: {}: empty selector is invalid for statefulset
               spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
               spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"#,
        ),
    ]);
}

#[test]
fn claims_become_volumes_of_the_template() {
    let mounted = |claims: &str| {
        format!(
            "spec: {{volumeClaimTemplates: [{claims}], template: {{spec: {{hostname: Not_A_Name, subdomain: Not_A_Name, \
             containers: [{{name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File, volumeMounts: \
             [{{name: data, mountPath: /data}}]}}]}}}}}}"
        )
    };
    check().create(&[
        (&mounted(CLAIM), ""),
        (&mounted(""), r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data""#),
        (
            &mounted("{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}"),
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        ),
    ]);
}

#[test]
fn identity_stays() {
    check().update(&[
        ("", "spec: {replicas: 2, minReadySeconds: 5, template: {spec: {terminationGracePeriodSeconds: 5}}}", ""),
        (
            "",
            &format!("spec: {{serviceName: other, podManagementPolicy: Parallel, volumeClaimTemplates: [{CLAIM}]}}"),
            r#"spec.volumeClaimTemplates: Invalid value: [{"name":"data","Spec":{"AccessModes":["ReadWriteOnce"],"Selector":null,"Resources":{"Limits":null,"Requests":{"storage":"1Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Filesystem","DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Phase":"Pending","AccessModes":null,"Capacity":null,"Conditions":null,"AllocatedResources":null,"AllocatedResourceStatuses":null,"CurrentVolumeAttributesClassName":null,"ModifyVolumeStatus":null,"HealthStatus":null}}]: field is immutable
               spec.serviceName: Invalid value: "other": field is immutable
               spec.podManagementPolicy: Invalid value: "Parallel": field is immutable"#,
        ),
        // What was stored before it was checked does not stop an update.
        ("spec: {serviceName: A_B}", "spec: {serviceName: A_B, replicas: 2}", ""),
    ]);
}

#[test]
fn statuses_are_checked() {
    check().update_status(&[(
        "",
        "status: {replicas: 1, currentReplicas: 2, availableReplicas: 1, observedGeneration: -1}",
        "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0
         status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas
         status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
    )]);
}

#[test]
fn fractions_and_endless_histories_are_warned_about() {
    let claim = CLAIM.replace("1Gi", "1500m");
    check().warnings(&[(
        &format!("spec: {{revisionHistoryLimit: -1, volumeClaimTemplates: [{claim}]}}"),
        &[
            r#"spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ],
    )]);
}

#[test]
fn cells_show_progress() {
    check().cells(&[("{spec: {replicas: 3}, status: {readyReplicas: 1}}", "db 1/3 <unknown> c i")]);
}
