use object::value;

use super::*;
use crate::testing::{Custom, kind, list, map, shape};
use crate::{Node, Types};

fn check(schema: Schema<'_>, mut value: Value, want: Value, unknown: &[&str]) {
    assert_eq!(prune(schema, &mut value), unknown);
    assert_eq!(value, want);
    assert!(prune(schema, &mut value).is_empty(), "pruning twice finds nothing more");
}

#[test]
fn built_in_fields_that_nobody_knows() {
    check(
        kind("v1", "Pod"),
        value!({
            "metadata": {"name": "a", "lables": {}, "labels": {"any": "x"}},
            "spec": {"containers": [{"name": "c", "foo": {"bar": 1}}, {"nme": 1}], "nodeSelector": {"a": "b"}},
            "extra": [],
        }),
        value!({
            "metadata": {"name": "a", "labels": {"any": "x"}},
            "spec": {"containers": [{"name": "c"}, {}], "nodeSelector": {"a": "b"}},
        }),
        &["extra", "metadata.lables", "spec.containers[0].foo", "spec.containers[1].nme"],
    );
}

#[test]
fn what_any_value_may_fill_is_kept() {
    check(
        kind("apps/v1", "ControllerRevision"),
        value!({"data": {"deep": [{"x": 1}]}, "revision": 1}),
        value!({"data": {"deep": [{"x": 1}]}, "revision": 1}),
        &[],
    );
    check(
        kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        value!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "properties": {"a": {"items": {"typo": 1, "default": {"x": 1}}, "additionalProperties": true}},
        }}}]}}),
        value!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "properties": {"a": {"items": {"default": {"x": 1}}, "additionalProperties": true}},
        }}}]}}),
        &["spec.versions[0].schema.openAPIV3Schema.properties.a.items.typo"],
    );
}

fn custom() -> (Types, Node) {
    let mut custom = Custom::default();
    let inner = custom.object([("known", shape(Shape::String))]);
    let open = custom.open_object([("closed", inner.clone())]);
    let embedded = Node { embedded: true, ..inner.clone() };
    let spec = custom.object([
        ("name", shape(Shape::String)),
        ("open", open),
        ("list", list(inner.clone())),
        ("map", map(inner)),
        ("embedded", embedded),
    ]);
    let root = custom.object([("spec", spec)]);
    (custom.types, Node { embedded: true, ..root })
}

#[test]
fn custom_objects() {
    let (types, root) = custom();
    check(
        Schema::new(&types, &root),
        value!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"anything": 1},
            "status": {},
            "spec": {
                "open": {"kept": {"a": 1}, "closed": {"known": "x", "unknown": 1}},
                "list": [{"known": "a"}, {"b": 1}, 5],
                "map": {"k": {"c": 1}},
                "embedded": {"apiVersion": "v1", "metadata": {"x": 1}, "d": 1},
            },
        }),
        value!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"anything": 1},
            "spec": {
                "open": {"kept": {"a": 1}, "closed": {"known": "x"}},
                "list": [{"known": "a"}, {}, 5],
                "map": {"k": {}},
                "embedded": {"apiVersion": "v1", "metadata": {"x": 1}},
            },
        }),
        &["spec.embedded.d", "spec.list[1].b", "spec.map.k.c", "spec.open.closed.unknown", "status"],
    );
}

#[test]
fn objects_where_none_is_expected_lose_their_fields() {
    let (types, root) = custom();
    check(
        Schema::new(&types, &root),
        value!({"spec": {"name": {"a": 1}, "list": {"b": 1}, "map": [[{"c": 1}]]}}),
        value!({"spec": {"name": {}, "list": {}, "map": [[{}]]}}),
        &["spec.list.b", "spec.map[0][0].c", "spec.name.a"],
    );
}

#[test]
fn depth_is_bounded() {
    let schema = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let mut value = value!({});
    for _ in 0..3000 {
        value = value!({"not": value});
    }
    let mut crd = value!({"spec": {"versions": [{"schema": {"openAPIV3Schema": value}}]}});
    assert!(prune(schema, &mut crd).is_empty());
}
