use object::{Value, value};
use proptest::prelude::*;

use super::*;

fn patch(document: Value, patch: Value) -> Result<Value, Status> {
    JsonPatch::parse(&patch, Reading::Checked)?.apply(document)
}

fn check(document: Value, operations: Value, want: Value) {
    match patch(document, operations.clone()) {
        Ok(got) => assert_eq!(got, want, "{}", go::json(&operations)),
        Err(status) => panic!("{}: {status}", go::json(&operations)),
    }
}

fn refused(document: Value, operations: Value) {
    let status = patch(document, operations.clone()).expect_err(&go::json(&operations));
    assert_eq!(status.code, 422, "{}", go::json(&operations));
    assert_eq!(status.message, "the server rejected our request due to an error in our request");
}

#[test]
fn operations_apply() {
    let list = || value!({"l": ["a", "b", "c"], "m": {"x": 1, "n": null}});
    for (operation, want) in [
        (
            value!({"op": "add", "path": "/l/-", "value": "d"}),
            value!({"l": ["a", "b", "c", "d"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "add", "path": "/l/0", "value": "d"}),
            value!({"l": ["d", "a", "b", "c"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "add", "path": "/l/3", "value": "d"}),
            value!({"l": ["a", "b", "c", "d"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "add", "path": "/l/-1", "value": "d"}),
            value!({"l": ["a", "b", "c", "d"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "add", "path": "/l/-2", "value": "d"}),
            value!({"l": ["a", "b", "d", "c"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "add", "path": "/l/+1", "value": "d"}),
            value!({"l": ["a", "d", "b", "c"], "m": {"x": 1, "n": null}}),
        ),
        (value!({"op": "add", "path": "/m/y"}), value!({"l": ["a", "b", "c"], "m": {"x": 1, "n": null, "y": null}})),
        (value!({"op": "remove", "path": "/l/-1"}), value!({"l": ["a", "b"], "m": {"x": 1, "n": null}})),
        (value!({"op": "remove", "path": "/m"}), value!({"l": ["a", "b", "c"]})),
        (
            value!({"op": "replace", "path": "/l/1", "value": {}}),
            value!({"l": ["a", {}, "c"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "replace", "path": "/new", "value": 1}),
            value!({"l": ["a", "b", "c"], "m": {"x": 1, "n": null}, "new": 1}),
        ),
        (value!({"op": "replace", "path": "ignored/m", "value": 1}), value!({"l": ["a", "b", "c"], "m": 1})),
        (value!({"op": "replace", "path": "", "value": {"a": 1}}), value!({"a": 1})),
        (value!({"op": "replace", "path": "", "value": []}), value!([])),
        (
            value!({"op": "move", "from": "/l/0", "path": "/l/-"}),
            value!({"l": ["b", "c", "a"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "move", "from": "/m/x", "path": "/m/y"}),
            value!({"l": ["a", "b", "c"], "m": {"y": 1, "n": null}}),
        ),
        (
            value!({"op": "copy", "from": "/m", "path": "/l/0"}),
            value!({"l": [{"x": 1, "n": null}, "a", "b", "c"], "m": {"x": 1, "n": null}}),
        ),
        (
            value!({"op": "copy", "from": "/gone", "path": "/m/x"}),
            value!({"l": ["a", "b", "c"], "m": {"x": null, "n": null}}),
        ),
        (value!({"op": "test", "path": "/m/x", "value": 1}), list()),
        (value!({"op": "test", "path": "/m/n", "value": null}), list()),
        (value!({"op": "test", "path": "/m/gone"}), list()),
        (value!({"op": "test", "path": "/l", "value": ["a", "b", "c"]}), list()),
        (value!({"op": "test", "path": "", "value": {"m": {"n": null, "x": 1}, "l": ["a", "b", "c"]}}), list()),
    ] {
        check(list(), Value::List(vec![operation]), want);
    }
}

#[test]
fn keys_are_unescaped_in_one_pass() {
    for (path, key) in [("/a~1b", "a/b"), ("/a~0b", "a~b"), ("/~01", "~1"), ("/~2~", "~2~"), ("/", ""), ("/é~1", "é/")]
    {
        let mut want = Value::map();
        want.set(&[key], 1);
        check(value!({}), value!([{"op": "add", "path": path, "value": 1}]), want);
    }
}

#[test]
fn operations_that_do_not_apply_are_refused_alike() {
    let document = || value!({"l": ["a", "b"], "m": {"x": 1, "n": null}});
    for operation in [
        value!({"op": "add", "path": "", "value": 1}),
        value!({"op": "add", "path": "nowhere", "value": 1}),
        value!({"op": "add", "path": "/gone/x", "value": 1}),
        value!({"op": "add", "path": "/m/n/x", "value": 1}),
        value!({"op": "add", "path": "/m/x/y", "value": 1}),
        value!({"op": "add", "path": "/l/3", "value": 1}),
        value!({"op": "add", "path": "/l/-4", "value": 1}),
        value!({"op": "add", "path": "/l/x", "value": 1}),
        value!({"op": "add", "path": "/l/99999999999999999999", "value": 1}),
        value!({"op": "add", "path": "/l/-9223372036854775808", "value": 1}),
        value!({"op": "add"}),
        value!({"op": "remove", "path": "/l/-"}),
        value!({"op": "remove", "path": "/l/2"}),
        value!({"op": "remove", "path": "/gone"}),
        value!({"op": "remove", "path": ""}),
        value!({"op": "replace", "path": "/l/2", "value": 1}),
        value!({"op": "replace", "path": "", "value": 1}),
        value!({"op": "replace", "path": ""}),
        value!({"op": "move", "path": "/m/x"}),
        value!({"op": "move", "from": "/gone", "path": "/m/x"}),
        value!({"op": "copy", "from": "/l/9", "path": "/m/x"}),
        value!({"op": "test", "path": "/m/x", "value": 2}),
        value!({"op": "test", "path": "/m/x"}),
        value!({"op": "test", "path": "/l", "value": ["b", "a"]}),
        value!({"op": "test", "path": "/l/7", "value": null}),
        value!({"op": "bogus", "path": "/m/x"}),
        value!({"Op": "add", "path": "/m/x", "value": 1}),
        value!({}),
        Value::Null,
    ] {
        refused(document(), Value::List(vec![operation]));
    }
}

#[test]
fn bodies_that_are_no_patch_are_named() {
    for (body, reading, message) in [
        (
            value!({}),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            value!("x"),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
        ),
        (
            value!([1]),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            value!([[]]),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal array into Go value of type handlers.jsonPatchOp",
        ),
        (
            value!([{"op": 1}]),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            value!([{"path": {}}]),
            Reading::Checked,
            "error decoding patch: json: cannot unmarshal object into Go struct field jsonPatchOp.path of type string",
        ),
        (value!({}), Reading::Lenient, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (value!([1]), Reading::Lenient, "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
    ] {
        let status = JsonPatch::parse(&body, reading).expect_err(message);
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
    assert!(JsonPatch::parse(&value!([{"op": 1}]), Reading::Lenient).is_ok());
}

#[test]
fn unknown_members_are_noted() {
    let patch = JsonPatch::parse(
        &value!([{"op": "test", "path": "/x"}, {"op": "test", "path": "/x", "foo": 1}]),
        Reading::Checked,
    );
    assert_eq!(patch.unwrap().unknown_fields(), [r#"json patch unknown field "[1].foo""#]);
}

#[test]
fn patches_are_bounded() {
    let operation = value!({"op": "test", "path": "/gone"});
    let many = |n: usize| Value::List(vec![operation.clone(); n]);
    assert!(patch(value!({}), many(MAX_OPERATIONS)).is_ok());
    let status = patch(value!({}), many(MAX_OPERATIONS + 1)).unwrap_err();
    assert_eq!(status.code, 413);
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );

    // Each copy doubles the document: it must stop at the limit instead of filling the memory.
    let doubling: Vec<Value> =
        (0..64).map(|i| value!({"op": "copy", "from": "/a", "path": (format!("/a/{i}"))})).collect();
    refused(value!({"a": {"x": "some text to start with"}}), Value::List(doubling));

    // And no patch nests a document more deeply than a decoder would let it come in.
    let nest = |depth: usize| {
        let operations: Vec<Value> =
            (0..depth).map(|i| value!({"op": "add", "path": ("/a".repeat(i + 1)), "value": {}})).collect();
        Value::List(operations)
    };
    assert!(patch(value!({}), nest(MAX_DEPTH - 1)).is_ok());
    refused(value!({}), nest(MAX_DEPTH + 1));
}

#[test]
fn opened_containers_are_those_on_the_way() {
    let patch =
        value!([{"op": "add", "path": "/data/q", "value": 1}, {"op": "move", "from": "/spec/list/0/x", "path": "/y"}]);
    let patch = JsonPatch::parse(&patch, Reading::Checked).unwrap();
    assert_eq!(patch.opened(), value!({"data": {}, "spec": {"list": {"0": {}}}}));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "b"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| Value::Map(map.into_iter().collect())),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "bogus", ""]);
    let key = prop::sample::select(vec!["/a", "/b", "/c", "/0", "/1", "/-1", "/-", "/~1", "", "x", "/99"]);
    let path = || prop::collection::vec(key.clone(), 0..4).prop_map(|keys| keys.concat());
    (kind, path(), path(), prop::option::of(any_value())).prop_map(|(kind, path, from, value)| {
        let mut operation = value!({"op": kind, "path": path, "from": from});
        if let Some(value) = value {
            operation.set(&["value"], value);
        }
        operation
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever comes in, the answer is a document or the one refusal.
    #[test]
    fn hostile_patches_are_survived(document in any_value(), operations in prop::collection::vec(any_operation(), 0..6)) {
        if let Err(status) = patch(document, Value::List(operations)) {
            prop_assert_eq!(status.code, 422);
        }
    }

    /// What was put somewhere is found there, and taking it away again leaves what was before.
    #[test]
    fn adding_is_undone_by_removing(document in prop::collection::btree_map("[a-c]", any_value(), 0..4), value in any_value()) {
        let document = Value::Map(document.into_iter().collect());
        let round = value!([
            {"op": "add", "path": "/new", "value": (value.clone())},
            {"op": "test", "path": "/new", "value": value},
            {"op": "copy", "from": "/new", "path": "/other"},
            {"op": "move", "from": "/other", "path": "/new"},
            {"op": "remove", "path": "/new"},
        ]);
        prop_assert_eq!(patch(document.clone(), round), Ok(document));
    }
}
