use object::value;

use super::*;
use crate::testing::{Custom, kind, list, map, nullable, shape, with_default};

fn check(schema: Schema<'_>, mut value: Value, want: Value) {
    normalise(schema, &mut value);
    assert_eq!(value, want);
    normalise(schema, &mut value);
    assert_eq!(value, want, "normalising twice changes nothing more");
}

#[test]
fn nulls_are_unset_fields_and_zero_items() {
    check(
        kind("v1", "Pod"),
        value!({
            "metadata": {"name": null, "labels": {"a": null}, "finalizers": ["x", null], "deletionTimestamp": null},
            "spec": {"containers": [null, {"name": "c", "env": null, "resources": {"limits": {"cpu": null}}}]},
        }),
        value!({
            "metadata": {"labels": {"a": ""}, "finalizers": ["x", ""]},
            "spec": {"containers": [{}, {"name": "c", "resources": {"limits": {"cpu": "0"}}}]},
        }),
    );
    // A nil slice of bytes prints as null.
    check(kind("v1", "Secret"), value!({"data": {"a": null, "b": "eA=="}}), value!({"data": {"a": null, "b": "eA=="}}));
}

#[test]
fn scalars_take_their_canonical_form() {
    check(
        kind("v1", "Pod"),
        value!({
            "metadata": {"creationTimestamp": "2024-01-02T03:04:05.678+01:00"},
            "spec": {
                "terminationGracePeriodSeconds": 30.0,
                "containers": [{
                    "resources": {"limits": {"cpu": "0.1", "memory": "1024Mi"}, "requests": {"cpu": 1}},
                    "ports": [{"containerPort": 80.0}, {"containerPort": 80.5}],
                    "livenessProbe": {"httpGet": {"port": 8080.0}},
                }],
            },
        }),
        value!({
            "metadata": {"creationTimestamp": "2024-01-02T02:04:05Z"},
            "spec": {
                "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                    "ports": [{"containerPort": 80}, {"containerPort": 80.5}],
                    "livenessProbe": {"httpGet": {"port": 8080}},
                }],
            },
        }),
    );
    check(
        kind("coordination.k8s.io/v1", "Lease"),
        value!({"spec": {"renewTime": "2024-01-02T03:04:05.1234567Z"}}),
        value!({"spec": {"renewTime": "2024-01-02T03:04:05.1234567Z"}}),
    );
}

#[test]
fn what_is_never_printed_goes() {
    check(
        kind("v1", "Pod"),
        value!({
            "metadata": {"name": "", "generation": 0, "labels": {}, "annotations": {"a": ""}},
            "spec": {
                "hostNetwork": false,
                "volumes": [],
                // Pointers to zero values are values.
                "activeDeadlineSeconds": 0,
                "securityContext": {},
                "containers": [],
            },
            "status": {},
        }),
        value!({
            "metadata": {"annotations": {"a": ""}},
            "spec": {"activeDeadlineSeconds": 0, "securityContext": {}, "containers": []},
            "status": {},
        }),
    );
}

#[test]
fn what_does_not_fit_stays() {
    let odd = value!({
        "metadata": {"labels": [1], "creationTimestamp": "yesterday", "unknown": null},
        "spec": {"containers": {"a": 1}, "overhead": {"cpu": "many"}},
    });
    check(kind("v1", "Pod"), odd.clone(), odd);
}

#[test]
fn custom_types_lose_only_nulls_that_mean_nothing() {
    let mut custom = Custom::default();
    let inner = custom.object([("a", shape(Shape::String))]);
    let root = custom.open_object([
        ("plain", shape(Shape::String)),
        ("nullable", nullable(shape(Shape::String))),
        ("defaulted", with_default(shape(Shape::String), "x")),
        ("list", list(inner.clone())),
        ("map", map(inner)),
        ("empty", list(shape(Shape::String))),
        ("number", shape(Shape::Int64)),
    ]);
    check(
        Schema::new(&custom.types, &root),
        value!({
            "plain": null, "nullable": null, "defaulted": null, "unknown": null,
            "list": [null, {"a": null}], "map": {"k": null, "l": {"a": null}}, "empty": [], "number": 1.0,
        }),
        value!({
            "nullable": null, "defaulted": null, "unknown": null,
            "list": [null, {}], "map": {"l": {}}, "empty": [], "number": 1.0,
        }),
    );
}
