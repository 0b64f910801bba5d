//! Cases for the rules of pods.

use object::{GroupVersionKind, Status, Value, value};
use registry::{Features, Strategy};
use request::User;

use super::{Pod, bind, columns, container_for, grace_period, validate_binding};
use crate::check::{Check, yaml};
use crate::common::recorded::{Kind, cases, context};

const CASES: &str = include_str!("../../../data/cases/pod.txt");

/// The pod that the recorded cases change, with what admission gives every pod.
const BASE: &str = "
metadata: {name: p, labels: {app: a}}
spec:
  containers: [{name: c, image: i, resources: {limits: {cpu: '1', memory: 1Gi}}}]
  priority: 0
  preemptionPolicy: PreemptLowerPriority
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
";

fn pods() -> Kind<Pod> {
    Kind { strategy: Pod, kind: GroupVersionKind::new("", "v1", "Pod"), base: BASE, convert: None }
}

/// The base with a change, as it is stored.
fn stored(change: &str) -> Value {
    pods().created(&context("", &Features::default(), &User::default()), change)
}

#[test]
fn pods_are_answered_as_recorded() {
    let mut played = 0;
    for case in cases(CASES) {
        assert_eq!(pods().play(&case), case.errors, "{case:?}");
        played += 1;
    }
    assert!(played > 50, "the file has lost its cases");
}

#[test]
fn the_server_fills_in() {
    let check = |change: &str, path: &[&str], want: Value| assert_eq!(*stored(change).at(path), want, "{change}");
    check("", &["status"], value!({"phase": "Pending", "qosClass": "Guaranteed"}));
    check("status: {phase: Running}", &["status", "phase"], value!("Pending"));
    check("spec: {containers: [{name: c, image: i}]}", &["status", "qosClass"], value!("BestEffort"));
    check(
        "spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1m}}}]}",
        &["status", "qosClass"],
        value!("Burstable"),
    );
    check("spec: {serviceAccount: s}", &["spec", "serviceAccountName"], value!("s"));
    check("spec: {serviceAccount: s, serviceAccountName: t}", &["spec", "serviceAccount"], value!("t"));
    check("spec: {terminationGracePeriodSeconds: -5}", &["spec", "terminationGracePeriodSeconds"], value!(1));
    check("spec: {volumes: [{name: v}]}", &["spec", "volumes"], value!([{"name": "v", "emptyDir": {}}]));
    check(
        "spec: {schedulingGates: [{name: g}]}",
        &["status", "conditions"],
        value!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": "2023-11-14T22:13:20Z"
        }]),
    );
    check(
        "spec: {hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}",
        &["spec", "containers"],
        value!([{
            "name": "c", "image": "i", "imagePullPolicy": "Always",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
        }]),
    );
    check(
        "spec: {resources: {limits: {cpu: '2'}}}",
        &["spec", "resources"],
        value!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
    );
    check(
        "spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, \
         labelSelector: {}, matchLabelKeys: [app, x]}]}",
        &["spec", "topologySpreadConstraints"],
        value!([{
            "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app", "x"],
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}
        }]),
    );
    check(
        "metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: localhost/x}}, \
         spec: {containers: [{name: c, image: i}]}",
        &["spec", "containers"],
        value!([{
            "name": "c", "image": "i", "imagePullPolicy": "Always",
            "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
        }]),
    );
}

#[test]
fn fields_of_features_that_are_off_go() {
    for field in ["schedulingGroup: {podGroupName: a}", "evictionResponders: [{name: a.b/c, priority: 5000}]"] {
        let name = field.split(':').next().unwrap_or_default();
        assert!(stored(&format!("spec: {{{field}}}")).at(&["spec", name]).is_null(), "{field}");
    }
}

#[test]
fn grace_ends_what_runs() {
    let check = |pod: &str, options: Value, seconds: i64| {
        assert_eq!(grace_period(&yaml(pod), &options), seconds, "{pod} {options:?}");
    };
    let bound = "{spec: {nodeName: m1, terminationGracePeriodSeconds: 30}}";
    check(bound, value!({}), 30);
    check(bound, value!({"gracePeriodSeconds": 5}), 5);
    check(bound, value!({"gracePeriodSeconds": 0}), 0);
    check(bound, value!({"gracePeriodSeconds": (-1)}), 1);
    check("{spec: {terminationGracePeriodSeconds: 30}}", value!({"gracePeriodSeconds": 5}), 0);
    check("{spec: {nodeName: m1, terminationGracePeriodSeconds: 30}, status: {phase: Failed}}", value!({}), 0);
}

#[test]
fn warnings_are_upstreams() {
    Check::new(Pod, "{metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}").warnings(&[
        ("{}", &[]),
        ("{metadata: {name: a.b}}", &[
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [must not contain dots]",
        ]),
        ("{spec: {nodeSelector: {beta.kubernetes.io/os: linux}}}", &[
            r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
        ]),
        ("{spec: {containers: [{name: c, image: i, env: [{name: A, value: a}, {name: A, value: b}]}]}}", &[
            r#"spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
        ]),
        ("{spec: {containers: [{name: c, image: i, ports: [{containerPort: 1}, {containerPort: 1}]}]}}", &[
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ]),
        ("{spec: {volumes: [{name: v, secret: {secretName: s, items: [{path: a}, {path: a/b}]}}]}}", &[
            r#"volume "v" (Secret "s"): overlapping paths: "a/b" with "a""#,
        ]),
        ("{spec: {containers: [{name: c, image: i, resources: {limits: {memory: 1500m}}}]}}", &[
            r#"spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
        ]),
    ]);
}

#[test]
fn rows_tell_how_a_pod_is() {
    let waiting = "{name: c, state: {waiting: {reason: ImagePullBackOff}}}";
    let running = "{name: c, ready: true, restartCount: 2, state: {running: {}}, \
                   lastState: {terminated: {finishedAt: '2023-11-14T22:08:20Z'}}}";
    let done = "{name: d, state: {terminated: {exitCode: 0, reason: Completed}}}";
    let check = |spec: &str, status: &str, more: &str, want: &str| {
        let pod = format!(
            "{{metadata: {{name: p, creationTimestamp: '2023-11-14T21:13:20Z'{more}}}, \
             spec: {{containers: [{{name: c}}]{spec}}}, status: {{{status}}}}}"
        );
        Check::new(Pod, &pod).cells(&[("{}", want)]);
    };
    check("", "phase: Pending", "", "p 0/1 Pending 0 60m <none> <none> <none> <none>");
    check(
        "",
        &format!("phase: Pending, containerStatuses: [{waiting}]"),
        "",
        "p 0/1 ImagePullBackOff 0 60m <none> <none> <none> <none>",
    );
    check(
        ", nodeName: m1",
        &format!("phase: Running, podIP: 1.2.3.4, containerStatuses: [{running}]"),
        "",
        "p 1/1 Running 2 (5m ago) 60m 1.2.3.4 m1 <none> <none>",
    );
    check(
        "",
        &format!(
            "phase: Running, conditions: [{{type: Ready, status: 'False'}}], containerStatuses: [{running}, {done}]"
        ),
        "",
        "p 1/1 NotReady 2 (5m ago) 60m <none> <none> <none> <none>",
    );
    check(
        "",
        "phase: Running",
        ", deletionTimestamp: '2023-11-14T22:13:20Z'",
        "p 0/1 Terminating 0 60m <none> <none> <none> <none>",
    );
    check(
        "",
        "phase: Running, reason: NodeLost",
        ", deletionTimestamp: '2023-11-14T22:13:20Z'",
        "p 0/1 Unknown 0 60m <none> <none> <none> <none>",
    );
    check(
        ", initContainers: [{name: i}, {name: s, restartPolicy: Always}]",
        "phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 3}}}]",
        "",
        "p 0/2 Init:ExitCode:3 0 60m <none> <none> <none> <none>",
    );
    check(
        ", initContainers: [{name: i}, {name: j}], readinessGates: [{conditionType: a}]",
        "phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j}]",
        "",
        "p 0/1 Init:1/2 0 60m <none> <none> <none> 0/1",
    );
    check(
        "",
        "phase: Pending, conditions: [{type: PodScheduled, reason: SchedulingGated}]",
        "",
        "p 0/1 SchedulingGated 0 60m <none> <none> <none> <none>",
    );
    check(
        "",
        "phase: Failed, containerStatuses: [{name: c, state: {terminated: {signal: 9}}}]",
        "",
        "p 0/1 Signal:9 0 60m <none> <none> <none> <none>",
    );
    let completed = columns::conditions(&value!({"status": {"phase": "Succeeded"}}));
    assert_eq!(
        completed,
        [value!({
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully."
        })]
    );
}

#[test]
fn fields_can_be_selected() {
    let pod = yaml("{spec: {nodeName: m1}, status: {phase: Running, podIPs: [{ip: 1.2.3.4}]}}");
    for (field, want) in [
        ("spec.nodeName", "m1"),
        ("spec.host", "m1"),
        ("spec.hostNetwork", "false"),
        ("status.phase", "Running"),
        ("status.podIP", "1.2.3.4"),
        ("status.podIPs", ""),
        ("status.nominatedNodeName", ""),
    ] {
        assert!(Pod.selectable_fields().iter().any(|known| known == field));
        assert_eq!(Pod.select_field(&pod, field), want, "{field}");
    }
}

#[test]
fn bindings_assign_a_pod_once() {
    let check = |binding: &str, want: &str| {
        let got = validate_binding(&yaml(binding)).map_or_else(|error| Status::from(error).message, |()| String::new());
        assert_eq!(got, want, "{binding}");
    };
    check("{target: {name: m1}}", "");
    check(
        "{target: {kind: Pod}}",
        r#"[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]"#,
    );

    let (features, user) = (Features::default(), User::default());
    let cx = context("binding", &features, &user);
    let binding = yaml("{metadata: {annotations: {a: b}, labels: {zone: z}}, target: {name: m1}}");
    let bound = bind(&cx, &yaml("{metadata: {name: p}, status: {nominatedNodeName: m}}"), &binding).unwrap();
    assert_eq!(
        bound,
        value!({
            "metadata": {"name": "p", "annotations": {"a": "b"}, "labels": {"zone": "z"}},
            "spec": {"nodeName": "m1"},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}
            ]}
        })
    );
    for (pod, want) in [
        (bound, r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "m1""#),
        (
            yaml("{metadata: {name: p, deletionTimestamp: x}}"),
            r#"Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host"#,
        ),
        (
            yaml("{metadata: {name: p}, spec: {schedulingGates: [{name: g}]}}"),
            r#"Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates"#,
        ),
    ] {
        assert_eq!(bind(&cx, &pod, &binding).unwrap_err().message, want);
    }
}

#[test]
fn containers_are_found() {
    let pod = yaml("{metadata: {name: p}, spec: {containers: [{name: a}, {name: b}], initContainers: [{name: i}]}}");
    let check = |asked: &str, want: Result<&str, &str>| {
        let got = container_for(&pod, asked).map_err(|status| status.message);
        assert_eq!(got, want.map_err(str::to_string));
    };
    check("a", Ok("a"));
    check("i", Ok("i"));
    check("x", Err("container x is not valid for pod p"));
    check("", Err("a container name must be specified for pod p, choose one of: [i a b]"));
}
