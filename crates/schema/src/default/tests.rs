use object::value;

use super::*;
use crate::testing::{Custom, kind, list, map, nullable, shape, with_default};

fn check(schema: Schema<'_>, mut value: Value, want: Value) {
    default(schema, &mut value);
    assert_eq!(value, want);
    default(schema, &mut value);
    assert_eq!(value, want, "defaulting twice changes nothing more");
}

#[test]
fn zero_scalars_held_by_value_are_unset() {
    check(
        kind("v1", "Endpoints"),
        value!({"subsets": [{"ports": [{"port": 1}, {"port": 2, "protocol": ""}, {"port": 3, "protocol": "UDP"}]}]}),
        value!({"subsets": [{"ports": [
            {"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "TCP"}, {"port": 3, "protocol": "UDP"},
        ]}]}),
    );
}

#[test]
fn custom_defaults_replace_missing_fields_and_nulls_that_are_not_allowed() {
    let mut custom = Custom::default();
    let item = custom.object([("a", with_default(shape(Shape::String), "x"))]);
    let root = custom.object([
        ("missing", with_default(shape(Shape::Int64), 5)),
        ("empty", with_default(shape(Shape::String), "y")),
        ("null", with_default(shape(Shape::String), "z")),
        ("nullable", with_default(nullable(shape(Shape::String)), "z")),
        ("whole", with_default(item.clone(), value!({}))),
        ("absent", item.clone()),
        ("list", list(with_default(item.clone(), value!({"b": 1})))),
        ("map", map(item)),
    ]);
    custom.types.mark_defaults();
    check(
        Schema::new(&custom.types, &root),
        value!({"empty": "", "null": null, "nullable": null, "list": [null, {}], "map": {"k": {}, "l": null}}),
        value!({
            "missing": 5, "empty": "", "null": "z", "nullable": null, "whole": {"a": "x"},
            "list": [{"a": "x", "b": 1}, {"a": "x"}], "map": {"k": {"a": "x"}, "l": null},
        }),
    );
}

#[test]
fn structs_held_by_value_have_defaults_without_being_mentioned() {
    check(
        kind("apps/v1", "Deployment"),
        value!({}),
        value!({"spec": {
            "progressDeadlineSeconds": 600,
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate"},
            "template": {"spec": {
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            }},
        }}),
    );
    // A pointer that is not there stays away, one that is there has all its defaults.
    check(kind("v1", "Secret"), value!({"data": {}}), value!({"data": {}, "type": "Opaque"}));
    check(
        kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        value!({"webhooks": [{"clientConfig": {"service": {}}, "rules": [{}]}, {"timeoutSeconds": 0}]}),
        value!({"webhooks": [
            {
                "clientConfig": {"service": {"port": 443}},
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
                "namespaceSelector": {}, "objectSelector": {},
                "rules": [{"scope": "*"}],
            },
            {
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 0,
                "namespaceSelector": {}, "objectSelector": {},
            },
        ]}),
    );
}

#[test]
fn pointers_to_zero_are_defaults_too() {
    let pod = |probe: Value| value!({"spec": {"containers": [{"livenessProbe": probe}]}});
    let mut value = pod(value!({"grpc": {"port": 1}}));
    default(kind("v1", "Pod"), &mut value);
    let probe = &value.list_at(&["spec", "containers"])[0].at(&["livenessProbe"]).clone();
    let want = value!({
        "grpc": {"port": 1, "service": ""},
        "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
    });
    assert_eq!(probe, &want);
}

#[test]
fn empty_lists_held_by_value_are_unset() {
    let mut value = value!({"spec": {"volumeLifecycleModes": [], "attachRequired": false}});
    default(kind("storage.k8s.io/v1", "CSIDriver"), &mut value);
    assert_eq!(value.at(&["spec", "volumeLifecycleModes"]), &value!(["Persistent"]));
    assert_eq!(value.at(&["spec", "attachRequired"]), &value!(false));
}

#[test]
fn amounts_of_resources_are_rounded_up_to_thousandths() {
    for (amount, want) in
        [("0.1m", "1m"), ("1500u", "2m"), ("1", "1"), ("0.5Gi", "0.5Gi"), ("-0.1m", "-1m"), ("x", "x")]
    {
        let mut value = value!({"spec": {"hard": {"cpu": amount}}});
        default(kind("v1", "ResourceQuota"), &mut value);
        assert_eq!(value.str_at(&["spec", "hard", "cpu"]), want, "{amount}");
    }
}
