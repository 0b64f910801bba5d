use object::value;
use proptest::prelude::*;

use super::*;
use crate::samples::{Sample, any_object};
use crate::{FieldSet, go};

fn fields(value: Value) -> FieldSet {
    FieldSet::from_value(&value).unwrap()
}

/// Wraps a spec into an object.
fn with_spec(spec: Value) -> Value {
    value!({"apiVersion": "example.com/v1", "kind": "Sample", "spec": spec})
}

#[test]
fn what_does_not_fit_is_named_with_its_path() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    for (spec, want) in [
        (value!({"bogus": 1}), ".spec.bogus: field not declared in schema"),
        (value!({"number": "x"}), ".spec.number: expected numeric (int or float), got string"),
        (value!({"number": [1]}), ".spec.number: expected numeric (int or float), got []interface {}"),
        (value!({"flag": "x"}), ".spec.flag: expected boolean, got &{x}"),
        (value!({"text": 1}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (
            value!({"text": {"a": "b"}}),
            r#".spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":"b"}}"#,
        ),
        (value!({"pair": []}), ".spec.pair: expected map, got &{[]}"),
        (value!({"items": {"a": 1}}), ".spec.items: expected list, got &{map[a:1]}"),
        (value!({"items": [1]}), ".spec.items: element 0: associative list with keys may not have non-map elements"),
        (value!({"items": [null]}), ".spec.items: element 0: associative list with keys may not have a null element"),
        (
            value!({"items": [{"key": "a", "bogus": 1}]}),
            r#".spec.items[key="a",port="tcp"].bogus: field not declared in schema"#,
        ),
        (
            value!({"items": [{"key": "a"}, {"key": "a", "port": "tcp"}]}),
            r#".spec.items: duplicate entries for key [key="a",port="tcp"]"#,
        ),
        (value!({"set": ["a", "a"]}), r#".spec.set: duplicate entries for key [="a"]"#),
        (
            value!({"set": [null]}),
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (value!({"set": [{}]}), ".spec.set: element 0: associative list without keys has an element that's a map type"),
        (value!({"set": [[]]}), ".spec.set: element 0: not supported: associative list with lists as elements"),
        (value!({"set": [1]}), ".spec.set[=1]: expected string, got &value.valueUnstructured{Value:1}"),
        (value!({"plain": ["a", 1]}), ".spec.plain[1]: expected string, got &value.valueUnstructured{Value:1}"),
        (
            value!({"number": "x", "text": 1}),
            "errors:\n  .spec.number: expected numeric (int or float), got string\n  .spec.text: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ] {
        let problems = validate(&with_spec(spec.clone()), of, Duplicates::Refused).expect_err(&go::json(&spec));
        assert_eq!(problems.to_string(), want);
    }
    for spec in [
        value!({"items": [{"key": "a"}, {"key": "a", "port": "udp"}], "set": null, "pair": null, "text": null}),
        value!({"open": {"known": "x", "other": {"deep": [1]}}, "any": [1, {}], "raw": 3, "either": "5%"}),
    ] {
        assert_eq!(validate(&with_spec(spec.clone()), of, Duplicates::Refused), Ok(()), "{}", go::json(&spec));
    }
    let repeated = with_spec(value!({"set": ["a", "a"], "items": [{"key": "a"}, {"key": "a"}]}));
    assert_eq!(validate(&repeated, of, Duplicates::Allowed), Ok(()));
}

#[test]
fn problems_are_bounded() {
    let sample = Sample::new(true);
    let many: Vec<Value> = (0..10_000).map(Value::from).collect();
    let problems = validate(&with_spec(value!({"set": many})), Type::of(sample.schema()), Duplicates::Refused);
    assert_eq!(problems.expect_err("numbers are no strings").to_string().lines().count(), 101);
}

#[test]
fn a_configuration_claims_its_leaves_and_items() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    for (spec, want) in [
        (value!({"number": 1, "pair": {"x": "a"}}), value!({"f:number": {}, "f:pair": {"f:x": {}}})),
        (value!({"pair": {}, "atom": {"x": "a"}, "text": null}), value!({"f:pair": {}, "f:atom": {}, "f:text": {}})),
        (value!({"set": ["b", "a"], "plain": ["a"]}), value!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}, "f:plain": {}})),
        (
            value!({"items": [{"key": "1", "value": "v"}]}),
            value!({"f:items": {"k:{\"key\":\"1\",\"port\":\"tcp\"}": {".": {}, "f:key": {}, "f:value": {}}}}),
        ),
        (value!({"dict": {"m": {"x": "a"}, "n": {}}}), value!({"f:dict": {"f:m": {".": {}, "f:x": {}}, "f:n": {}}})),
        (
            value!({"open": {"known": "a", "other": {"b": [1]}}}),
            value!({"f:open": {"f:known": {}, "f:other": {".": {}, "f:b": {}}}}),
        ),
        (
            value!({"any": {"a": {"b": 1}}, "raw": {"a": 1}}),
            value!({"f:any": {"f:a": {".": {}, "f:b": {}}}, "f:raw": {}}),
        ),
        (value!({"set": ["a", "a", "b"]}), value!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}})),
    ] {
        let got = field_set(&value!({"spec": (spec.clone())}), of);
        assert_eq!(got, fields(value!({"f:spec": want})), "{}", go::json(&spec));
    }
    // Empty lists that are not atomic claim nothing.
    assert!(field_set(&value!({"spec": {"set": []}}), of).is_empty());
}

#[test]
fn lists_merge_in_the_order_of_the_applied_one() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    let words = |text: &str| Value::from(text.chars().map(String::from).collect::<Vec<_>>());
    for (live, applied, want) in [
        ("abc", "", "abc"),
        ("abc", "x", "abcx"),
        ("abc", "cb", "acb"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("abcd", "dxa", "bcdxa"),
        ("", "ba", "ba"),
        ("aab", "b", "aab"),
        ("aab", "a", "ab"),
    ] {
        let live_object = with_spec(value!({"set": (words(live))}));
        let merged = merge(&live_object, &with_spec(value!({"set": (words(applied))})), of).unwrap();
        let got: String = merged.list_at(&["spec", "set"]).iter().filter_map(Value::as_str).collect();
        assert_eq!(got, want, "{live} + {applied}");
    }
}

#[test]
fn merging_keeps_what_is_not_mentioned() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    for (live, applied, want) in [
        (value!({"pair": {"x": "a", "y": 1}}), value!({"pair": {"x": "b"}}), value!({"pair": {"x": "b", "y": 1}})),
        (value!({"atom": {"x": "a", "y": 1}}), value!({"atom": {"x": "b"}}), value!({"atom": {"x": "b"}})),
        (value!({"pair": {"x": "a"}}), value!({"pair": null}), value!({"pair": {"x": "a"}})),
        (value!({"text": "a"}), value!({"text": null}), value!({"text": null})),
        (value!({"any": {"a": 1}}), value!({"any": {"b": 2}}), value!({"any": {"a": 1, "b": 2}})),
        (value!({"any": {"a": 1}}), value!({"any": [1]}), value!({"any": [1]})),
        (value!({"any": [1, 2]}), value!({"any": [3]}), value!({"any": [3]})),
        (value!({"plain": ["a"]}), value!({"plain": []}), value!({"plain": []})),
        (
            value!({"items": [{"key": "1", "value": "a"}, {"key": "2"}]}),
            value!({"items": [{"key": "2", "value": "b"}, {"key": "1", "port": "udp"}]}),
            value!({"items": [{"key": "1", "value": "a"}, {"key": "2", "value": "b"}, {"key": "1", "port": "udp"}]}),
        ),
    ] {
        let merged = merge(&with_spec(live), &with_spec(applied.clone()), of).unwrap();
        assert_eq!(merged, with_spec(want), "{}", go::json(&applied));
    }
}

#[test]
fn repeated_items_are_compared_as_one() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    let compare = |before: Value, after: Value| {
        compare(&value!({"spec": {"set": before}}), &value!({"spec": {"set": after}}), of).unwrap()
    };
    let a = || fields(value!({"f:spec": {"f:set": {"v:\"a\"": {}}}}));
    assert_eq!(compare(value!(["a", "a"]), value!(["a", "a"])), Comparison::default());
    assert_eq!(
        compare(value!(["a", "a"]), value!(["a", "a", "a"])),
        Comparison { modified: a(), ..Comparison::default() }
    );
    assert_eq!(
        compare(value!(["a"]), value!(["a", "a"])),
        Comparison { added: a(), removed: a(), ..Comparison::default() }
    );
    assert_eq!(
        compare(value!(["a", "a"]), value!(["a"])),
        Comparison { added: a(), removed: a(), ..Comparison::default() }
    );
}

#[test]
fn removing_everything_inside_leaves_null() {
    let sample = Sample::new(true);
    let of = Type::of(sample.schema());
    let object = value!({"spec": {"pair": {"x": "a", "y": 1}, "set": ["a", "b"], "atom": {"x": "a"}}});
    let set =
        fields(value!({"f:spec": {"f:pair": {"f:x": {}, "f:y": {}}, "f:set": {"v:\"a\"": {}}, "f:atom": {"f:x": {}}}}));
    assert_eq!(remove_items(&object, &set, of), value!({"spec": {"pair": null, "set": ["b"], "atom": null}}));
    let named = ensure_named_fields(&set, Some(of));
    assert_eq!(remove_items(&object, &named, of), Value::Null);
}

#[test]
fn ownership_follows_lists_that_became_atomic() {
    let (granular, atomic) = (Sample::new(true), Sample::new(false));
    let set = fields(
        value!({"f:spec": {"f:set": {".": {}, "v:\"a\"": {}}, "f:items": {"k:{\"key\":\"1\"}": {"f:value": {}}}, "f:text": {}}}),
    );
    assert_eq!(reconcile(&set, Type::of(granular.schema())), None);
    assert_eq!(
        reconcile(&set, Type::of(atomic.schema())),
        Some(fields(value!({"f:spec": {"f:set": {}, "f:items": {}, "f:text": {}}})))
    );
}

#[test]
fn structs_have_the_fields_that_go_prints() {
    let schema = schema::builtin().schema(&object::GroupVersionKind::new("", "v1", "Pod")).expect("in the table");
    let pod = value!({
        "metadata": {"name": "p", "labels": {}, "creationTimestamp": "0001-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "a", "env": [], "stdin": false, "unknown": 1}], "hostNetwork": true, "nodeName": ""}
    });
    let want = value!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "resources": {}}], "hostNetwork": true},
        "status": {}
    });
    assert_eq!(structured(&pod, schema), want);
    assert_eq!(structured(&Value::map(), schema), value!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
}

proptest! {
    #[test]
    fn nothing_changes_between_equals(object in any_object()) {
        let sample = Sample::new(true);
        let of = Type::of(sample.schema());
        prop_assert_eq!(validate(&object, of, Duplicates::Refused), Ok(()));
        prop_assert_eq!(compare(&object, &object, of).unwrap(), Comparison::default());
        prop_assert_eq!(merge(&object, &object, of).unwrap(), object);
    }

    /// What one way adds, the other way removes.
    #[test]
    fn comparing_is_symmetric(a in any_object(), b in any_object()) {
        let sample = Sample::new(true);
        let of = Type::of(sample.schema());
        let (there, back) = (compare(&a, &b, of).unwrap(), compare(&b, &a, of).unwrap());
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.removed, back.added);
        prop_assert_eq!(there.modified, back.modified);
    }

    /// A merged object has all that was applied, keeps what else was there, and applying again changes nothing.
    #[test]
    fn merging_applies(live in any_object(), applied in any_object()) {
        let sample = Sample::new(true);
        let of = Type::of(sample.schema());
        let merged = merge(&live, &applied, of).unwrap();
        prop_assert_eq!(validate(&merged, of, Duplicates::Refused), Ok(()));
        prop_assert_eq!(merge(&merged, &applied, of).unwrap(), merged.clone());
        let claimed = field_set(&applied, of);
        let has = ensure_named_fields(&field_set(&merged, of), Some(of));
        prop_assert!(claimed.leaves().difference(&has).is_empty());
        let changes = compare(&live, &merged, of).unwrap();
        prop_assert!(changes.modified.difference(&ensure_named_fields(&claimed, Some(of))).is_empty());
        let beyond = compare(&applied, &merged, of).unwrap();
        prop_assert!(beyond.removed.is_empty(), "removed {:?}", beyond.removed);
    }

    /// Removing what was claimed and applying it again is the same as not removing it, but for the order of lists.
    #[test]
    fn what_is_removed_can_be_applied_again(object in any_object()) {
        let sample = Sample::new(true);
        let of = Type::of(sample.schema());
        let claimed = ensure_named_fields(&field_set(&object, of), Some(of));
        let rest = remove_items(&object, &claimed, of);
        let again = merge(&rest, &object, of).unwrap();
        prop_assert_eq!(compare(&object, &again, of).unwrap(), Comparison::default());
    }
}
