//! One `check` for all: a schema, a value, the messages.

use object::{Str, value};

use super::*;
use crate::testing::{Custom, list, map, nullable, ruled, shape};
use crate::{ListType, Pattern, Types};

fn check_node(types: &Types, node: &Node, value: Value, want: &[&str]) {
    let found: Vec<String> = validate(Schema::new(types, node), &value).iter().map(ToString::to_string).collect();
    assert_eq!(found, want, "{value:?}");
}

/// Puts a node at `spec.x`, so that paths show.
fn check_at_x(node: Node, cases: impl IntoIterator<Item = (Value, &'static [&'static str])>) {
    let mut custom = Custom::default();
    let spec = custom.object([("x", node)]);
    let root = custom.object([("spec", spec)]);
    for (value, want) in cases {
        check_node(&custom.types, &root, value!({"spec": {"x": value}}), want);
    }
}

fn rules(set: impl FnOnce(&mut Rules)) -> Rules {
    let mut rules = Rules::default();
    set(&mut rules);
    rules
}

#[test]
fn types() {
    check_at_x(
        shape(Shape::Int64),
        [
            (value!(1), &[][..]),
            (value!(1.0), &[]),
            (value!("a"), &[r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#]),
            (value!(null), &[r#"spec.x: Invalid value: "null": spec.x in body must be of type integer: "null""#]),
            (
                value!(1.5),
                &[
                    r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
                    r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
                ],
            ),
            (value!([]), &[r#"spec.x: Invalid value: "array": spec.x in body must be of type integer: "array""#]),
            (value!({}), &[r#"spec.x: Invalid value: "object": spec.x in body must be of type integer: "object""#]),
            (value!(true), &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean""#]),
        ],
    );
    check_at_x(shape(Shape::Float), [(value!(1), &[][..]), (value!(1.5), &[])]);
    check_at_x(
        shape(Shape::IntOrString),
        [
            (value!(1), &[][..]),
            (value!("50%"), &[]),
            (
                value!(false),
                &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#],
            ),
        ],
    );
    check_at_x(nullable(shape(Shape::String)), [(value!(null), &[][..]), (value!("a"), &[])]);
    check_at_x(shape(Shape::Any), [(value!(null), &[][..]), (value!([1, "a"]), &[])]);
    check_at_x(
        shape(Shape::Int32),
        [(
            value!(3_000_000_000_i64),
            &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#][..],
        )],
    );
}

#[test]
fn required_and_nested_places() {
    let mut custom = Custom::default();
    let item =
        ruled(custom.object([("a", shape(Shape::String))]), rules(|r| r.required = vec!["b".into(), "a".into()]));
    let spec = custom.object([("list", list(item.clone())), ("map", map(item.clone()))]);
    let root = ruled(custom.object([("spec", spec)]), rules(|r| r.required = vec!["spec".into()]));
    check_node(&custom.types, &root, value!({}), &["spec: Required value"]);
    check_node(
        &custom.types,
        &root,
        value!({"spec": {"list": [{"a": "x", "b": 1}, {"a": 5}], "map": {"k.1": {}}}}),
        &[
            r#"spec.list[1].a: Invalid value: "integer": spec.list[1].a in body must be of type string: "integer""#,
            "spec.list[1].b: Required value",
            "spec.map.k.1.b: Required value",
            "spec.map.k.1.a: Required value",
        ],
    );
}

#[test]
fn strings() {
    let node = ruled(
        shape(Shape::String),
        rules(|r| {
            r.min_length = Some(2);
            r.max_length = Some(4);
            r.pattern = Some(Pattern::new("^[a-z]*$"));
        }),
    );
    check_at_x(
        node,
        [
            (value!("abc"), &[][..]),
            (value!("a"), &[r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#]),
            (value!("abcde"), &["spec.x: Too long: may not be more than 4 bytes"]),
            (value!("ABC"), &[r#"spec.x: Invalid value: "ABC": spec.x in body should match '^[a-z]*$'"#]),
            (value!("ééé"), &[r#"spec.x: Invalid value: "ééé": spec.x in body should match '^[a-z]*$'"#]),
        ],
    );
    let date = ruled(shape(Shape::String), rules(|r| r.format = Some("date".into())));
    check_at_x(
        date,
        [
            (value!("2024-01-01"), &[][..]),
            (value!("soon"), &[r#"spec.x: Invalid value: "soon": spec.x in body must be of type date: "soon""#]),
            (value!(5), &[r#"spec.x: Invalid value: "int64": spec.x in body must be of type date: "int64""#]),
            (value!(true), &[r#"spec.x: Invalid value: "": spec.x in body must be of type date: """#]),
        ],
    );
    let unknown = ruled(shape(Shape::String), rules(|r| r.format = Some("zebra".into())));
    check_at_x(unknown, [(value!("x"), &[][..])]);
}

#[test]
fn enums() {
    let node = ruled(shape(Shape::String), rules(|r| r.enumeration = vec!["a".into(), "b".into()]));
    check_at_x(
        node,
        [(value!("a"), &[][..]), (value!("c"), &[r#"spec.x: Unsupported value: "c": supported values: "a", "b""#])],
    );
    let node =
        ruled(nullable(shape(Shape::Any)), rules(|r| r.enumeration = vec![1.into(), value!({"k": [1]}), Value::Null]));
    check_at_x(
        node,
        [
            (value!(1.0), &[][..]),
            (value!({"k": [1]}), &[]),
            (value!(2), &[r#"spec.x: Unsupported value: 2: supported values: "1", "{\"k\":[1]}", "null""#]),
            (value!(null), &[r#"spec.x: Unsupported value: null: supported values: "1", "{\"k\":[1]}", "null""#]),
        ],
    );
}

#[test]
fn numbers() {
    let node = |kind: Shape, exclusive: bool| {
        ruled(
            shape(kind),
            rules(|r| {
                r.minimum = Some(2.0);
                r.maximum = Some(10.0);
                r.multiple_of = Some(2.0);
                (r.exclusive_minimum, r.exclusive_maximum) = (exclusive, exclusive);
            }),
        )
    };
    check_at_x(
        node(Shape::Int64, false),
        [
            (value!(2), &[][..]),
            (value!(10), &[]),
            (value!(0), &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 2"]),
            (
                value!(13),
                &[
                    "spec.x: Invalid value: 13: spec.x in body should be a multiple of 2",
                    "spec.x: Invalid value: 13: spec.x in body should be less than or equal to 10",
                ],
            ),
        ],
    );
    check_at_x(
        node(Shape::Float, true),
        [
            (value!(4.0), &[][..]),
            (value!(2), &["spec.x: Invalid value: 2: spec.x in body should be greater than 2"]),
            (value!(10.0), &["spec.x: Invalid value: 10: spec.x in body should be less than 10"]),
            (value!(2.5), &["spec.x: Invalid value: 2.5: spec.x in body should be a multiple of 2"]),
        ],
    );
    let half = ruled(shape(Shape::Int64), rules(|r| r.maximum = Some(1.5)));
    check_at_x(
        half,
        [(
            value!(3),
            &[
                r#"<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in spec.x"#,
                "spec.x: Invalid value: 3: spec.x in body should be less than or equal to 1.5",
            ][..],
        )],
    );
    let big = ruled(shape(Shape::Float), rules(|r| r.maximum = Some(1e7)));
    check_at_x(
        big,
        [(value!(2e7), &["spec.x: Invalid value: 2e+07: spec.x in body should be less than or equal to 1e+07"][..])],
    );
}

#[test]
fn lists_and_maps() {
    let node = ruled(
        list(shape(Shape::Int64)),
        rules(|r| {
            r.min_items = Some(1);
            r.max_items = Some(2);
            r.unique_items = true;
        }),
    );
    check_at_x(
        node,
        [
            (value!([1, 2]), &[][..]),
            (value!([]), &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"]),
            (value!([1, 2, 3]), &["spec.x: Too many: 3: must have at most 2 items"]),
            (value!([1, 1]), &[r#"spec.x: Invalid value: "": spec.x in body shouldn't contain duplicates"#]),
            (
                value!([1, "a"]),
                &[r#"spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string""#],
            ),
        ],
    );
    let node = ruled(
        map(shape(Shape::Int64)),
        rules(|r| {
            r.min_properties = Some(1);
            r.max_properties = Some(1);
        }),
    );
    check_at_x(
        node,
        [
            (value!({"a": 1}), &[][..]),
            (value!({}), &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"]),
            (value!({"a": 1, "b": 2}), &["spec.x: Too many: 2: must have at most 1 item"]),
        ],
    );
}

/// A branch of alternatives: untyped, with required fields.
fn branch(custom: &mut Custom, required: &[&str]) -> Node {
    let node = custom.object([]);
    let required = required.iter().map(|name| Str::from(*name)).collect();
    ruled(Node { untyped: true, ..node }, rules(|r| r.required = required))
}

#[test]
fn alternatives() {
    let mut custom = Custom::default();
    let branches = vec![branch(&mut custom, &["a"]), branch(&mut custom, &["b", "c"])];
    let mut spec = |set: fn(&mut Rules, Vec<Node>)| {
        let spec = custom.object([("a", shape(Shape::Int64)), ("b", shape(Shape::Int64)), ("c", shape(Shape::Int64))]);
        let spec = ruled(spec, rules(|r| set(r, branches.clone())));
        custom.object([("spec", spec)])
    };
    let (any, one, all) = (spec(|r, b| r.any_of = b), spec(|r, b| r.one_of = b), spec(|r, b| r.all_of = b));
    let not = spec(|r, b| r.not = b.into_iter().next());
    let types = &custom.types;
    check_node(types, &any, value!({"spec": {"a": 1}}), &[]);
    check_node(
        types,
        &any,
        value!({"spec": {}}),
        &[r#"<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#, "spec.a: Required value"],
    );
    check_node(types, &one, value!({"spec": {"b": 1, "c": 1}}), &[]);
    check_node(
        types,
        &one,
        value!({"spec": {"a": 1, "b": 1, "c": 1}}),
        &[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check_node(
        types,
        &one,
        value!({"spec": {"b": 1}}),
        &[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value",
        ],
    );
    check_node(
        types,
        &all,
        value!({"spec": {"a": 1}}),
        &[
            "spec.b: Required value",
            "spec.c: Required value",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#,
        ],
    );
    check_node(
        types,
        &not,
        value!({"spec": {"a": 1}}),
        &[r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#],
    );
}

#[test]
fn unchanged_parts_are_forgiven() {
    let mut custom = Custom::default();
    let small = ruled(shape(Shape::Int64), rules(|r| r.maximum = Some(1.0)));
    let item = custom.object([("key", shape(Shape::String)), ("n", small.clone())]);
    let keyed = Node { list_type: ListType::Map(vec!["key".into()]), ..list(item) };
    let spec = custom.object([("a", small.clone()), ("b", small.clone()), ("plain", list(small)), ("keyed", keyed)]);
    let root = custom.object([("spec", spec)]);
    let schema = Schema::new(&custom.types, &root);
    for (old, new, want) in [
        (value!({"a": 5}), value!({"a": 5, "b": 0}), &[][..]),
        (value!({"a": 5}), value!({"a": 6}), &["spec.a"]),
        (value!({"a": 5}), value!({"b": 5}), &["spec.b"]),
        (value!({"plain": [5, 6]}), value!({"plain": [5, 6]}), &[]),
        (value!({"plain": [5, 6]}), value!({"plain": [5]}), &["spec.plain[0]"]),
        (
            value!({"keyed": [{"key": "a", "n": 5}, {"key": "b", "n": 6}]}),
            value!({"keyed": [{"key": "b", "n": 6}, {"key": "a", "n": 7}, {"key": "c", "n": 8}]}),
            &["spec.keyed[1].n", "spec.keyed[2].n"],
        ),
    ] {
        let (old, new) = (value!({"spec": old}), value!({"spec": new}));
        let fields: Vec<String> = validate_update(schema, &new, &old).iter().map(|e| e.field.clone()).collect();
        assert_eq!(fields, want, "{old:?} to {new:?}");
    }
}

#[test]
fn sets_and_keys_are_unique() {
    let mut custom = Custom::default();
    let item = custom.object([("a", shape(Shape::String)), ("b", shape(Shape::Int64))]);
    let of = |list_type: ListType, node: Node| Node { list_type, ..list(node) };
    let spec = custom.object([
        ("set", of(ListType::Set, shape(Shape::Any))),
        ("one", of(ListType::Map(vec!["a".into()]), item.clone())),
        ("two", of(ListType::Map(vec!["a".into(), "b".into()]), item)),
        ("plain", list(shape(Shape::Any))),
    ]);
    let root = custom.object([("spec", map(spec))]);
    for (value, want) in [
        (value!({"set": [1, "1", 2], "plain": [1, 1]}), &[][..]),
        (value!({"set": ["x", "y", "x", "x"]}), &[r#"spec[k].set[2]: Duplicate value: "x""#]),
        (value!({"set": [{"p": 1}, {"p": 1}]}), &[r#"spec[k].set[1]: Duplicate value: {"p":1}"#]),
        (value!({"one": [{"a": "x", "b": 1}, {"a": "x", "b": 2}]}), &[r#"spec[k].one[1]: Duplicate value: {"a":"x"}"#]),
        (value!({"one": [{}, null]}), &["spec[k].one[1]: Duplicate value: {}"]),
        (value!({"two": [{"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "x"}]}), &[]),
        (
            value!({"two": [{"a": "x", "b": 1}, {"a": "x", "b": 1}]}),
            &[r#"spec[k].two[1]: Duplicate value: {"a":"x","b":1}"#],
        ),
        (value!({"one": [5]}), &["spec[k].one[0]: Invalid value: 5: must be an object for an array of list-type map"]),
    ] {
        let value = value!({"spec": {"k": value}});
        let found: Vec<String> =
            validate_lists(Schema::new(&custom.types, &root), &value).iter().map(ToString::to_string).collect();
        assert_eq!(found, want);
    }
}
