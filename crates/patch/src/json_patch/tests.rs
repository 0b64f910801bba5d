use object::{Status, Value, value};
use proptest::prelude::*;

use super::*;
use crate::patched_text;

fn parse(patch: &Value, reading: Reading) -> Result<JsonPatch, Status> {
    Ok(JsonPatch::parse(&go::json(patch), reading)?)
}

fn patch(document: Value, patch: Value) -> Result<Value, Status> {
    let patched = parse(&patch, Reading::Checked)?.run(document, None)?;
    Ok(codec::json::open(&Raw::new(go::json(&patched.document))))
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
        let status = parse(&body, reading).expect_err(message);
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
    assert!(parse(&value!([{"op": 1}]), Reading::Lenient).is_ok());
}

#[test]
fn unknown_and_duplicate_members_are_noted() {
    for (body, want) in [
        (
            r#"[{"op": "test", "path": "/x"}, {"op": "test", "path": "/x", "foo": 1}]"#,
            &[r#"json patch unknown field "[1].foo""#][..],
        ),
        (
            r#"[{"op": "add", "path": "/x", "foo": 1}, {"op": "add", "path": "/x", "path": "/y", "value": {"a": 1, "a": 2}}]"#,
            &[
                r#"json patch unknown field "[0].foo""#,
                r#"json patch duplicate field "[1].path""#,
                r#"json patch duplicate field "[1].value.a""#,
            ],
        ),
        (r#"[{"op": "test", "path": "/x"}]"#, &[]),
    ] {
        assert_eq!(JsonPatch::parse(body, Reading::Checked).unwrap().complaints(), want, "{body}");
        assert!(JsonPatch::parse(body, Reading::Lenient).unwrap().complaints().is_empty(), "{body}");
    }
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

/// A value that is moved is not looked at, however large it is; one that is opened and printed again and again is too much.
#[test]
fn operations_cost_what_they_touch() {
    let text = "x".repeat(2_400_000);
    let document = || value!({"metadata": {"labels": {}}, "data": {}});
    // With so much left of what the operations may touch.
    let body = |value: &str, operations: Vec<String>, left: usize| {
        let add = format!(r#"{{"op":"add","path":"/data/a","value":{value}}}"#);
        let patch = JsonPatch::parse(&format!("[{add},{}]", operations.join(",")), Reading::Checked).unwrap();
        let mut work = Work::of(document(), None);
        work.touched = Touched(MAX_TOUCHED_BYTES - left);
        patch.operations.iter().try_for_each(|operation| work.run(operation))?;
        Ok::<_, DoesNotRun>(work.document)
    };
    let there_and_back = |from: &str, to: &str, times: usize| -> Vec<String> {
        let one = |at: usize| match at % 2 {
            0 => format!(r#"{{"op":"move","from":"{from}","path":"{to}"}}"#),
            _ => format!(r#"{{"op":"move","from":"{to}","path":"{from}"}}"#),
        };
        (0..times).map(one).collect()
    };
    let (string, nested) = (format!("\"{text}\""), format!(r#"{{"in":["{text}",1]}}"#));
    for value in [&string, &nested] {
        assert!(body(value, there_and_back("/data/a", "/data/b", 9_990), 1000).is_ok());
        assert!(body(value, there_and_back("/data/a", "/metadata/labels/a", 200), 1000).is_ok());
    }
    let opened: Vec<String> = there_and_back("/data/a", "/data/b", 20)
        .into_iter()
        .enumerate()
        .flat_map(|(at, moved)| {
            let name = if at % 2 == 0 { "b" } else { "a" };
            [moved, format!(r#"{{"op":"test","path":"/data/{name}/in/1","value":1}}"#)]
        })
        .collect();
    let too_often = |refused: DoesNotRun| refused.message().contains(TOO_MUCH_TOUCHED);
    assert!(body(&nested, opened.clone(), 200_000_000).is_ok());
    assert!(body(&nested, opened, 20_000_000).is_err_and(too_often));
    let test = format!(r#"{{"op":"test","path":"/data/a","value":{string}}}"#);
    assert!(body(&string, vec![test.clone(); 3], 20_000_000).is_ok());
    assert!(body(&string, vec![test; 6], 20_000_000).is_err_and(too_often));
    let spaced = format!(r#"{{"a":{}1}}"#, " ".repeat(1_000_000));
    let copy = r#"{"op":"copy","from":"/data/a","path":"/data/b"}"#.to_string();
    let copied = body(&spaced, vec![copy.clone()], 20_000_000).unwrap();
    assert_eq!(copied.at(&["data", "b"]), &Value::Raw(Raw::new(r#"{"a":1}"#)));
    assert!(body(&spaced, vec![copy; 30], 20_000_000).is_err_and(too_often));
}

#[test]
fn opened_containers_are_those_on_the_way() {
    let patch =
        value!([{"op": "add", "path": "/data/q", "value": 1}, {"op": "move", "from": "/spec/list/0/x", "path": "/y"}]);
    let document = value!({"data": {}, "spec": {"list": [{"x": 1}]}});
    let patched = parse(&patch, Reading::Checked).unwrap().run(document, None).unwrap();
    assert_eq!(patched.opened, value!({"data": {}, "spec": {"list": {"0": {}}}}));
}

/// What the server prints against what a patch says, both as text.
#[test]
fn tests_compare_scalars_as_they_are_written() {
    let document = || value!({"html": "<a>", "int": 1, "list": [1, {"s": "x"}], "kept": (Raw::new("[1.0, \"<\"]"))});
    for (path, wanted, same) in [
        ("/html", r#""\u003ca\u003e""#, true),
        ("/html", r#""<a>""#, false),
        ("/int", "1", true),
        ("/int", " 1 ", true),
        ("/int", "1.0", false),
        ("/int", "1e0", false),
        ("/list", r#"[1, {"s": "x"}]"#, true),
        ("/list", r#"[1.0, {"s": "x"}]"#, false),
        ("/list/1", r#"{"s": "\u0078"}"#, false),
        ("/kept", r#"[1.0,"<"]"#, true),
        ("/kept", r#"[1,"<"]"#, false),
        ("/kept/0", "1.0", true),
        ("/list", "{}", false),
        ("/int", "{}", false),
        ("/gone", "null", true),
    ] {
        let body = format!(r#"[{{"op": "test", "path": "{path}", "value": {wanted}}}]"#);
        let outcome = JsonPatch::parse(&body, Reading::Checked).unwrap().run(document(), None);
        assert_eq!(outcome.is_ok(), same, "{body}");
    }
}

/// Values stay as they came, and what is copied stays as it was printed, until a path leads into it.
#[test]
fn texts_stay_as_they_were() {
    let schema = schema::builtin().schema(&object::GroupVersionKind::new("apps", "v1", "Deployment")).unwrap();
    let document = value!({
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "<"}}},
        "status": {}
    });
    for (operations, want) in [
        (
            r#"[{"op": "add", "path": "/status/x", "value": {"z": 1.50, "a": 18446744073709551616, "z": "<"}}]"#,
            r#"{"z":1.50,"a":18446744073709551616,"z":"\u003c"}"#,
        ),
        (
            r#"[{"op": "copy", "from": "/spec/strategy", "path": "/status/x"}]"#,
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":"\u003c"}}"#,
        ),
        (
            r#"[{"op": "move", "from": "/spec/strategy", "path": "/status/x"}]"#,
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":"\u003c"}}"#,
        ),
        (
            r#"[{"op": "copy", "from": "/spec/strategy", "path": "/status/x"}, {"op": "add", "path": "/status/x/y", "value": 1}]"#,
            r#"{"rollingUpdate":{"maxUnavailable":1,"maxSurge":"\u003c"},"type":"RollingUpdate","y":1}"#,
        ),
        (
            r#"[{"op": "test", "path": "/spec/strategy/type", "value": "RollingUpdate"}, {"op": "copy", "from": "/spec/strategy", "path": "/status/x"}]"#,
            r#"{"rollingUpdate":{"maxUnavailable":1,"maxSurge":"\u003c"},"type":"RollingUpdate"}"#,
        ),
    ] {
        let patch = JsonPatch::parse(operations, Reading::Checked).unwrap();
        let patched = patch.run(document.clone(), Some(schema)).unwrap();
        let text = patched_text(&patched.document, Some(schema), &patched.opened);
        assert!(text.ends_with(&format!(r#""status":{{"x":{want}}}}}"#)), "{operations}\n{text}");
    }
    let huge = r#"[{"op": "add", "path": "/x", "value": {"a": [1e400]}}]"#;
    assert_eq!(
        JsonPatch::parse(huge, Reading::Checked).unwrap_err().to_string(),
        "error decoding patch: json: cannot unmarshal number 1e400 into Go struct field jsonPatchOp.value of type float64"
    );
    assert!(JsonPatch::parse(huge, Reading::Lenient).is_ok());
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
