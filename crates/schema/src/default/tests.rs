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
