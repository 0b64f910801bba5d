use object::value;

use super::*;
use crate::check::Check;

fn check() -> Check {
    Check::new(Node, "{apiVersion: v1, kind: Node, metadata: {name: a}}")
}

#[test]
fn creation_may_bring_a_status() {
    check().stored(&[
        (
            "{spec: {podCIDR: 10.0.0.0/24, configSource: {}}, status: {capacity: {cpu: '2'}, config: {}}}",
            "{spec: {podCIDRs: [10.0.0.0/24], configSource: null},
              status: {allocatable: {cpu: '2'}, config: null}}",
        ),
        ("spec: {podCIDRs: [10.0.0.0/24]}", "spec: {podCIDR: 10.0.0.0/24}"),
        ("spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.0.0.0/24, 'fd00::/64']}", "spec: {podCIDRs: [10.1.0.0/24]}"),
    ]);
}

#[test]
fn new_nodes_are_checked() {
    check().create(&[
        ("", ""),
        (
            "spec: {taints: [{key: a, effect: X}, {key: b}, {key: c, value: 'x y', effect: NoSchedule},
             {key: c, effect: NoSchedule}]}",
            r#"metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
            metadata.taints[1].effect: Required value
            metadata.taints[2].value: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            metadata.taints[3]: Duplicate value: {"Key":"c","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
        ),
        (
            "status: {capacity: {cpu: '-1', a.b/gpu: 500m}, allocatable: {}}",
            "status.capacity.a.b/gpu: Invalid value: \"500m\": must be an integer
             status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            "spec: {podCIDRs: [10.0.0.0/24, 10.1.0.0/24]}",
            "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each IP family",
        ),
        ("spec: {podCIDRs: [10.0.0.0/24, 'fd00::/64']}", ""),
        (
            "status: {nodeInfo: {swap: {capacity: 0}}}",
            "metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero",
        ),
        (
            "status: {declaredFeatures: [B, A, A]}",
            "status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically
             status.declaredFeatures[2]: Duplicate value: \"A\"",
        ),
    ]);
}

#[test]
fn some_fields_are_set_once() {
    check().update(&[
        ("", "spec: {podCIDR: 10.0.0.0/24, providerID: a}", ""),
        (
            "spec: {podCIDR: 10.0.0.0/24, providerID: a}",
            "spec: {podCIDR: 10.0.1.0/24, providerID: b}",
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid
             spec.providerID: Invalid value: null: field cannot be modified once set",
        ),
        ("spec: {providerID: a}", "", "spec.providerID: Invalid value: null: field cannot be cleared once set"),
        ("", "spec: {externalID: a}", "spec.externalID: Forbidden: may not be updated"),
    ]);
    check().update_status(&[(
        "",
        "status: {addresses: [{type: InternalIP, address: 1.1.1.1}, {type: InternalIP, address: 1.1.1.1}]}",
        r#"status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.1.1.1"}"#,
    )]);
}

#[test]
fn old_annotations_are_still_read() {
    let path = "metadata.annotations";
    check().create(&[
        (
            r#"metadata: {annotations: {scheduler.alpha.kubernetes.io/taints: '[{"Key": "a"}]'}}"#,
            &format!("{path}.scheduler.alpha.kubernetes.io/taints[0].effect: Required value"),
        ),
        (
            r#"metadata: {annotations: {scheduler.alpha.kubernetes.io/preferAvoidPods: '{"preferAvoidPods": [{}]}'}}"#,
            &format!("{path}.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value"),
        ),
    ]);
}

#[test]
fn cells_show_health_and_roles() {
    check().cells(&[
        ("", "a Unknown <none> <unknown>  <none> <none> <unknown> <unknown> <unknown>"),
        (
            "{metadata: {labels: {node-role.kubernetes.io/control-plane: '', kubernetes.io/role: x}},
              spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: 'True'}],
              addresses: [{type: InternalIP, address: 10.0.0.1}],
              nodeInfo: {kubeletVersion: v1, kernelVersion: '6', architecture: arm, osImage: os, containerRuntimeVersion: cri}}}",
            "a Ready,SchedulingDisabled control-plane,x <unknown> v1 10.0.0.1 <none> os 6 (arm) cri",
        ),
    ]);
}

#[test]
fn unschedulable_can_be_selected() {
    for (node, want) in [(value!({}), "false"), (value!({"spec": {"unschedulable": true}}), "true")] {
        assert_eq!(Node.select_field(&node, "spec.unschedulable"), want);
    }
}
