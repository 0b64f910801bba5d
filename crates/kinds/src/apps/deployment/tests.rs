use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(
        Deployment,
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, generation: 1}
        spec:
          replicas: 1
          progressDeadlineSeconds: 600
          revisionHistoryLimit: 10
          strategy: {type: RollingUpdate}
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec:
              restartPolicy: Always
              dnsPolicy: ClusterFirst
              terminationGracePeriodSeconds: 30
              containers:
              - {name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File}
        ",
    )
}

#[test]
fn rollouts_are_defaulted() {
    let rolling = |patch: &str| check().decoded(patch).at(&["spec", "strategy", "rollingUpdate"]).clone();
    assert_eq!(rolling(""), object::value!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    assert_eq!(
        rolling("spec: {strategy: {rollingUpdate: {maxSurge: 0}}}"),
        object::value!({"maxSurge": 0, "maxUnavailable": "25%"})
    );
    assert_eq!(rolling("spec: {strategy: {type: Recreate}}"), Value::Null);
}

#[test]
fn specs_are_checked() {
    check().create(&[
        ("", ""),
        (
            "spec: {replicas: -1, minReadySeconds: -1, revisionHistoryLimit: -1, progressDeadlineSeconds: -2}",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0
             spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
             spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0
             spec.progressDeadlineSeconds: Invalid value: -2: must be greater than or equal to 0
             spec.progressDeadlineSeconds: Invalid value: -2: must be greater than minReadySeconds",
        ),
        (
            "spec: {selector: null}",
            r#"spec.selector: Required value
               spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`"#,
        ),
        (
            "spec: {selector: {matchLabels: null}}",
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        ),
        (
            "spec: {selector: {matchExpressions: [{key: a, operator: Near}]}}",
            r#"spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator
               spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"a","operator":"Near"}]}: invalid label selector"#,
        ),
        (
            "spec: {template: {metadata: {labels: null}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}}",
            r#"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
               spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
               spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"#,
        ),
    ]);
}

#[test]
fn strategies_are_checked() {
    check().create(&[
        ("spec: {strategy: {type: Recreate}}", ""),
        (
            "spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}",
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "spec: {strategy: {type: Never}}",
            r#"spec.strategy: Unsupported value: {"Type":"Never","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#,
        ),
        (
            "spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}}",
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0"#,
        ),
        (
            "spec: {strategy: {rollingUpdate: {maxSurge: 200%, maxUnavailable: 101%}}}",
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#,
        ),
    ]);
}

#[test]
fn the_selector_stays() {
    check().update(&[
        ("", "spec: {replicas: 2}", ""),
        (
            "",
            "spec: {selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}}}",
            r#"spec.selector: Invalid value: {"matchLabels":{"app":"api"}}: field is immutable"#,
        ),
    ]);
}

#[test]
fn statuses_are_checked() {
    check().update_status(&[
        ("", "status: {replicas: 2, readyReplicas: 1, availableReplicas: 1, collisionCount: 1}", ""),
        (
            "status: {collisionCount: 2}",
            "status: {replicas: 1, updatedReplicas: 2, readyReplicas: -1, availableReplicas: 2, collisionCount: 1}",
            "status.readyReplicas: Invalid value: -1: must be greater than or equal to 0
             status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas
             status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas
             status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas
             status.collisionCount: Invalid value: 1: cannot be decremented",
        ),
        (
            "status: {collisionCount: 2}",
            "status: {collisionCount: null}",
            "status.collisionCount: Invalid value: 0: cannot be decremented",
        ),
    ]);
    let written = check().try_update_status("", "{metadata: {labels: {a: b}}, status: {replicas: 1}}").unwrap();
    assert_eq!(written.at(&["metadata", "labels"]), &Value::Null);
}

#[test]
fn generations_count_specs_and_annotations() {
    let bumps = |patch: &str| FACTS.bumps_generation(&check().decoded(patch), &check().decoded(""));
    assert!(bumps("spec: {replicas: 2}"));
    assert!(bumps("metadata: {annotations: {a: b}}"));
    assert!(!bumps("metadata: {labels: {a: b}}"));
    assert!(!bumps("spec: {minReadySeconds: 0, paused: false}"));
    assert!(!bumps("metadata: {annotations: {}}"));
}

#[test]
fn the_old_rollback_annotation_is_a_number() {
    check().create(&[(
        "metadata: {annotations: {deprecated.deployment.rollback.to: '-1'}}",
        "spec.rollback.version: Invalid value: -1: must be greater than or equal to 0",
    )]);
    let check = check();
    let object = check.decoded("metadata: {annotations: {deprecated.deployment.rollback.to: x}}");
    let refused = Deployment.check_conversion(&object).unwrap_err();
    assert_eq!(
        object::Status::from(refused).message,
        r#"Deployment in version "v1" cannot be handled as a Deployment: failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: strconv.ParseInt: parsing "x": invalid syntax"#
    );
}

#[test]
fn cells_show_progress() {
    check().cells(&[(
        "{spec: {replicas: 3}, status: {readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1}}",
        "web 1/3 2 1 <unknown> c i app=web",
    )]);
}

#[test]
fn names_that_are_no_labels_are_warned_about() {
    let warnings = Deployment.warnings(&check().context(""), &check().decoded("metadata: {name: a.b}"), None);
    assert_eq!(
        warnings,
        [
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
        ]
    );
}
