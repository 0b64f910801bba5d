use object::value;

use super::*;
use crate::testing::{Custom, kind, shape};

fn check(schema: Schema<'_>, cases: impl IntoIterator<Item = (Value, Value, bool)>) {
    for (a, b, want) in cases {
        assert_eq!(equal(schema, &a, &b), want, "{a:?} and {b:?}");
        assert_eq!(equal(schema, &b, &a), want, "{b:?} and {a:?}");
        assert!(equal(schema, &a, &a) && equal(schema, &b, &b));
    }
}

#[test]
fn unset_and_zero_are_alike_where_go_cannot_tell() {
    check(
        kind("v1", "Pod"),
        [
            (value!({}), value!({"spec": {}, "status": {}, "metadata": {"name": ""}}), true),
            (value!({"metadata": {"labels": {}}}), value!({"metadata": {"labels": null}}), true),
            (value!({"spec": {"containers": []}}), value!({"spec": {}}), true),
            (
                value!({"spec": {"containers": [{}]}}),
                value!({"spec": {"containers": [{"name": "", "args": []}]}}),
                true,
            ),
            (value!({"spec": {"containers": [{}]}}), value!({"spec": {"containers": []}}), false),
            (value!({"metadata": {"labels": {"a": ""}}}), value!({"metadata": {"labels": {"a": null}}}), true),
            (value!({"metadata": {"labels": {"a": ""}}}), value!({}), false),
            (
                value!({"metadata": {"labels": {"a": "", "b": ""}}}),
                value!({"metadata": {"labels": {"a": "", "c": ""}}}),
                false,
            ),
            (value!({"spec": {"hostNetwork": false}}), value!({}), true),
            (value!({"spec": {"hostNetwork": true}}), value!({}), false),
        ],
    );
}

#[test]
fn pointers_tell_unset_from_zero() {
    check(
        kind("v1", "Pod"),
        [
            (value!({"spec": {"activeDeadlineSeconds": 0}}), value!({"spec": {}}), false),
            (value!({"spec": {"securityContext": {}}}), value!({"spec": {}}), false),
            (value!({"spec": {"securityContext": {}}}), value!({"spec": {"securityContext": {"sysctls": []}}}), true),
            (value!({"spec": {"securityContext": null}}), value!({"spec": {}}), true),
        ],
    );
}

#[test]
fn quantities_times_and_durations_are_compared_by_value() {
    let limits = |cpu: Value| value!({"spec": {"overhead": {"cpu": cpu}}});
    let created = |time: &str| value!({"metadata": {"creationTimestamp": time}});
    check(
        kind("v1", "Pod"),
        [
            (limits("1".into()), limits("1000m".into()), true),
            (limits(1.into()), limits("1".into()), true),
            (limits("1".into()), limits("2".into()), false),
            (limits("x".into()), limits("1".into()), false),
            (created("2024-01-02T03:04:05Z"), created("2024-01-02T04:04:05+01:00"), true),
            (created("2024-01-02T03:04:05Z"), created("2024-01-02T03:04:06Z"), false),
        ],
    );
}

#[test]
fn unknown_fields_count() {
    check(
        kind("v1", "Pod"),
        [
            (value!({"zzz": 1}), value!({}), false),
            (value!({"aaa": 1, "spec": {}}), value!({"aaa": 1}), true),
            (value!({"aaa": 1}), value!({"aaa": 2}), false),
        ],
    );
}

#[test]
fn custom_values_are_equal_when_identical() {
    let mut custom = Custom::default();
    let root = custom.object([("list", shape(Shape::Any)), ("text", shape(Shape::String))]);
    check(
        Schema::new(&custom.types, &root),
        [
            (value!({"list": []}), value!({}), false),
            (value!({"text": ""}), value!({}), false),
            (value!({"text": "a"}), value!({"text": "a"}), true),
        ],
    );
}
