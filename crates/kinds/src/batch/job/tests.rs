use object::value;

use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(
        Job,
        "
        apiVersion: batch/v1
        kind: Job
        metadata: {name: once, uid: u-1}
        spec:
          template:
            spec:
              restartPolicy: Never
              dnsPolicy: ClusterFirst
              terminationGracePeriodSeconds: 30
              containers:
              - {name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File}
        ",
    )
}

#[test]
fn specs_are_defaulted() {
    let spec = |patch: &str, fields: &[&str]| -> Vec<Value> {
        let object = check().decoded(patch);
        fields.iter().map(|field| object.at(&["spec", field]).clone()).collect()
    };
    let fields = ["completions", "parallelism", "backoffLimit", "podReplacementPolicy"];
    let defaults = [value!(1), value!(1), value!(6), value!("TerminatingOrFailed")];
    assert_eq!(spec("", &fields), defaults);
    assert_eq!(spec("spec: {parallelism: 3}", &fields)[..2], [Value::Null, value!(3)]);
    assert_eq!(spec("spec: {completions: 3}", &fields)[..2], [value!(3), value!(1)]);
    let per_index = "spec: {completionMode: Indexed, backoffLimitPerIndex: 1, podFailurePolicy: {rules: []}}";
    assert_eq!(spec(per_index, &fields)[2..], [value!(2147483647), value!("Failed")]);
}

#[test]
fn pods_are_found_by_the_uid_of_the_job() {
    let labels = "{batch.kubernetes.io/controller-uid: u-1, batch.kubernetes.io/job-name: once, controller-uid: u-1, job-name: once";
    check().stored(&[
        (
            "metadata: {labels: {own: label}}",
            &format!(
                "{{spec: {{completions: 1, parallelism: 1, backoffLimit: 6, completionMode: NonIndexed, suspend: false, \
                 podReplacementPolicy: TerminatingOrFailed, manualSelector: false, \
                 selector: {{matchLabels: {{batch.kubernetes.io/controller-uid: u-1}}}}, template: {{metadata: {{labels: {labels}}}}}}}}}}}"
            ),
        ),
    ]);
    let own_labels =
        |patch: &str| check().try_create(patch).unwrap().at(&["metadata", "labels"]).as_map().map(Map::len);
    // A job without labels gets the template's when it is read.
    assert_eq!(own_labels(""), None);
    assert_eq!(own_labels("spec: {template: {metadata: {labels: {a: b}}}}"), Some(5));
    assert_eq!(own_labels("{metadata: {labels: {c: d}}, spec: {template: {metadata: {labels: {a: b}}}}}"), Some(1));
    check().create(&[
        (
            "spec: {template: {metadata: {labels: {job-name: other}}}}",
            r#"spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u-1","batch.kubernetes.io/job-name":"once","controller-uid":"u-1","job-name":"other"}: must be 'once'"#,
        ),
        (
            "spec: {selector: {matchLabels: {a: b}}}",
            r#"spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u-1"}}: `selector` not auto-generated
               spec.template.metadata.labels: Invalid value: {"batch.kubernetes.io/controller-uid":"u-1","batch.kubernetes.io/job-name":"once","controller-uid":"u-1","job-name":"once"}: `selector` does not match template `labels`"#,
        ),
        (
            "spec: {manualSelector: true}",
            "spec.selector: Required value
             spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        ),
        ("spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}", ""),
    ]);
}

#[test]
fn specs_are_checked() {
    check().create(&[
        ("", ""),
        (
            "spec: {parallelism: -1, completions: -1, activeDeadlineSeconds: -1, backoffLimit: -1, ttlSecondsAfterFinished: -1}",
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0
             spec.completions: Invalid value: -1: must be greater than or equal to 0
             spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
             spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0
             spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "spec: {maxFailedIndexes: 1, managedBy: me, podReplacementPolicy: Never}",
            r#"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified
               spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")
               spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode
               spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed""#,
        ),
        (
            "spec: {completionMode: Sorted}",
            r#"spec.completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed""#,
        ),
        (
            "spec: {completionMode: Indexed, parallelism: 100001, backoffLimitPerIndex: 1, maxFailedIndexes: 100001}",
            "spec.completions: Required value: when completion mode is Indexed
             spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed
             spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
        ),
        (
            "spec: {completionMode: Indexed, completions: 100001, parallelism: 10001, backoffLimitPerIndex: 1}",
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000
             spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ),
        ("spec: {template: {spec: {restartPolicy: Always}}}", r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#),
        (
            &format!("{{metadata: {{name: {0}}}, spec: {{completionMode: Indexed, completions: 100}}}}", "a".repeat(61)),
            &format!(r#"metadata.name: Invalid value: "{0}": will not able to create pod with invalid DNS label: {0}-99"#, "a".repeat(61)),
        ),
    ]);
}

#[test]
fn failure_policies_are_checked() {
    let policy = |rules: &str| format!("spec: {{podFailurePolicy: {{rules: [{rules}]}}}}");
    check().create(&[
        (&policy("{action: FailJob, onExitCodes: {containerName: c, operator: In, values: [1, 2]}}"), ""),
        (&policy("{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: 'True'}]}"), ""),
        (
            &policy("{action: Count}, {action: FailIndex, onExitCodes: {containerName: d, operator: In, values: [2, 0, 2]}}"),
            r#"spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
               spec.podFailurePolicy.rules[1].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set
               spec.podFailurePolicy.rules[1].onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer names in the pod template
               spec.podFailurePolicy.rules[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator
               spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 2
               spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: [2,0,2]: must be ordered"#,
        ),
        (
            &policy("{onExitCodes: {operator: Odd, values: []}, onPodConditions: [{type: A, status: Maybe}]}"),
            r#"spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]
               spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: "Odd": supported values: "In", "NotIn"
               spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required
               spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"
               spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"#,
        ),
        (
            "spec: {podFailurePolicy: {rules: []}, template: {spec: {restartPolicy: OnFailure}}, podReplacementPolicy: TerminatingOrFailed}",
            r#"spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"
               spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified"#,
        ),
    ]);
}

#[test]
fn success_policies_are_checked() {
    let policy =
        |rules: &str| format!("spec: {{completionMode: Indexed, completions: 5, successPolicy: {{rules: [{rules}]}}}}");
    check().create(&[
        (&policy("{succeededIndexes: '0,2-3', succeededCount: 2}"), ""),
        (&policy(""), "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"),
        (
            &policy("{}, {succeededIndexes: '9'}, {succeededIndexes: '0', succeededCount: 6}"),
            r#"spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified
               spec.successPolicy.rules[1].succeededIndexes: Invalid value: "9": error parsing succeededIndexes: too large index: "9"
               spec.successPolicy.rules[2].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)
               spec.successPolicy.rules[2].succeededCount: Invalid value: 6: must be less than or equal to 1 (the number of indexes in the specified succeededIndexes field)"#,
        ),
        (
            "spec: {successPolicy: {rules: [{succeededCount: 1}]}}",
            r#"spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode"#,
        ),
    ]);
}

/// A job as it is stored, so that updates have their selector.
const STORED: &str = "selector: {matchLabels: {batch.kubernetes.io/controller-uid: u-1}}";
const LABELS: &str = "metadata: {labels: {batch.kubernetes.io/controller-uid: u-1}}";

fn stored(spec: &str, pod: &str, rest: &str) -> String {
    format!("{{spec: {{{STORED}, {spec} template: {{{LABELS}, spec: {{{pod}}}}}}}{rest}}}")
}

#[test]
fn most_of_a_job_stays() {
    let base = stored("", "", "");
    check().update(&[
        (&base, &stored("completions: 1, parallelism: 3, suspend: true, ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 5, backoffLimit: 1,", "", ""), ""),
        (
            &base,
            &stored("completions: 2, parallelism: 1, completionMode: Indexed, managedBy: a.b/c,", "", ""),
            r#"spec.completions: Invalid value: 2: can only be modified in tandem with spec.parallelism
               spec.completionMode: Invalid value: "Indexed": field is immutable
               spec.managedBy: Invalid value: "a.b/c": field is immutable"#,
        ),
    ]);
    let changed = check().try_update(&base, &stored("", "hostNetwork: true", "")).unwrap_err().to_string();
    assert!(changed.starts_with(r#"spec.template: Invalid value: {"labels":{"batch.kubernetes.io/controller-uid":"u-1"},"Spec":{"Volumes":null,"#), "{changed}");
    assert!(changed.ends_with(": field is immutable"), "{changed}");
}

#[test]
fn a_suspended_job_may_be_scheduled_anew() {
    let suspended = stored("suspend: true,", "", "");
    let resources = "containers: [{name: c, image: i, imagePullPolicy: Always, terminationMessagePolicy: File, resources: {requests: {cpu: '1'}}}]";
    check().update(&[
        (&suspended, &stored("suspend: true,", "nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}]", ""), ""),
        (
            &suspended,
            &stored("suspend: true,", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}", ""),
            "",
        ),
        (&suspended, &stored("suspend: true,", resources, ""), ""),
    ]);
    let refused = |old: &str, new: &str| check().try_update(old, new).unwrap_err().to_string();
    assert!(
        refused(&suspended, &stored("suspend: true,", "hostNetwork: true", ""))
            .starts_with("spec.template.spec: Invalid value: {\"Volumes\"")
    );
    let active = stored("suspend: true,", "", ", status: {startTime: '2026-01-01T00:00:00Z', active: 1}");
    assert!(refused(&active, &stored("suspend: true,", resources, "")).starts_with("spec.template: Invalid value: "));
}

#[test]
fn statuses_are_checked() {
    let done = "conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}], startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:00:01Z'";
    let status = |fields: &str| format!("status: {{{fields}}}");
    check().update_status(&[
        ("", &status("active: 1, ready: 1, startTime: '2026-01-01T00:00:00Z'"), ""),
        ("", &status(done), ""),
        (
            "",
            &status("active: -1, ready: 1, uncountedTerminatedPods: {succeeded: ['', a], failed: [a]}"),
            r#"status.active: Invalid value: -1: must be greater than or equal to 0
               status.uncountedTerminatedPods.succeeded[0]: Invalid value: "": must not be empty
               status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"
               status.ready: Invalid value: 1: cannot set more ready pods than active"#,
        ),
        (
            "",
            &status("conditions: [{type: Complete, status: 'True'}, {type: Failed, status: 'True'}], active: 1, terminating: 1"),
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions
             status.completionTime: Required value: completionTime is required for Complete jobs
             status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition
             status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition
             status.active: Invalid value: 1: active>0 is invalid for finished job
             status.startTime: Required value: startTime is required for finished job
             status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            "",
            &status("completionTime: '2026-01-01T00:00:00Z', startTime: '2026-01-01T00:00:01Z', completedIndexes: '0', failedIndexes: '0'"),
            r#"status.completionTime: Invalid value: "2026-01-01T00:00:00Z": cannot set completionTime when there is no Complete=True condition
               status.completionTime: Invalid value: "2026-01-01T00:00:00Z": must be equal to or after `startTime`
               status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode
               status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex is null
               status.failedIndexes: Invalid value: "0": failedIndexes and completedIndexes overlap at index: 0"#,
        ),
        (
            &status(&format!("{done}, failed: 2, succeeded: 2")),
            &status("failed: 1, succeeded: 1"),
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition
             status.failed: Invalid value: 1: cannot decrease the failed counter
             status.succeeded: Invalid value: 1: cannot decrease the succeeded counter
             status.startTime: Invalid value: null: field is immutable for unsuspended job once set
             status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ),
        (
            &status("startTime: '2026-01-01T00:00:00Z'"),
            &status("startTime: '2026-01-01T00:00:05Z'"),
            r#"status.startTime: Invalid value: "2026-01-01T00:00:05Z": field is immutable for unsuspended job once set"#,
        ),
    ]);
}

#[test]
fn deletions_warn_that_pods_stay() {
    let warns = |options: Value| FACTS.deletion_warning(&options).is_some();
    assert!(warns(value!({})));
    assert!(!warns(value!({"propagationPolicy": "Orphan"})));
    assert!(!warns(value!({"orphanDependents": false})));
}

#[test]
fn cells_show_progress() {
    check().cells(&[
        ("", "once Running 0/1  <unknown> c i <none>"),
        (
            "status: {succeeded: 1, startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:01:05Z', conditions: [{type: Complete, status: 'True'}]}",
            "once Complete 1/1 65s <unknown> c i <none>",
        ),
        ("{spec: {parallelism: 2}, status: {conditions: [{type: Suspended, status: 'True'}]}}", "once Suspended 0/1 of 2  <unknown> c i <none>"),
        ("metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}", "once Terminating 0/1  <unknown> c i <none>"),
    ]);
}
