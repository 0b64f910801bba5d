use codec::Notes;
use object::{GroupVersionKind, Status, Value, value};
use proptest::prelude::*;
use schema::builtin;

use super::*;

fn schema(group: &str, version: &str, kind: &str) -> Schema<'static> {
    builtin().schema(&GroupVersionKind::new(group, version, kind)).expect("in the table")
}

fn json(text: &str) -> Value {
    codec::json::decode(text.as_bytes(), None, &mut Notes::ignore()).expect("test data is JSON")
}

/// A pod's spec with everything that is merged in some way.
fn pod() -> Value {
    json(
        r#"{"metadata":{"name":"p","finalizers":["a.io/x"]},
            "spec":{"containers":[{"name":"a","image":"i","env":[{"name":"X","value":"1"}],"ports":[{"containerPort":80}]},
                                  {"name":"b","image":"j"}],
                    "volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k"}],"nodeSelector":{"n":"1"}}}"#,
    )
}

/// Patches the pod and returns what became of a part of it.
fn patch(patch: &str, part: &[&str]) -> std::result::Result<String, Status> {
    let patched = strategic_patch(&pod(), &mut json(patch), schema("", "v1", "Pod"))?;
    Ok(go::json(patched.at(part)))
}

fn check(text: &str, part: &[&str], want: &str) {
    match patch(text, part) {
        Ok(got) => assert_eq!(got, go::json(&json(want)), "{text}"),
        Err(status) => panic!("{text}: {status}"),
    }
}

fn refused(text: &str, code: u16, message: &str) {
    let status = patch(text, &[]).expect_err(text);
    assert_eq!((status.code, status.message.as_str()), (code, message), "{text}");
}

const A: &str =
    r#"{"name":"a","image":"i","env":[{"name":"X","value":"1"}],"ports":[{"containerPort":80}],"resources":{}}"#;
const B: &str = r#"{"name":"b","image":"j","resources":{}}"#;

#[test]
fn maps_merge_and_nulls_delete() {
    check(r#"{"spec":{"nodeSelector":{"n":null,"m":"2"}}}"#, &["spec", "nodeSelector"], r#"{"m":"2"}"#);
    check(r#"{"spec":{"nodeSelector":null}}"#, &["spec", "nodeSelector"], "null");
    check(r#"{"metadata":{"labels":{"a":null,"b":"c"}}}"#, &["metadata", "labels"], r#"{"b":"c"}"#);
    check(r#"{"spec":{"nodeSelector":"x"}}"#, &["spec", "nodeSelector"], r#""x""#);
    check("null", &["spec", "nodeSelector"], r#"{"n":"1"}"#);
}

#[test]
fn maps_take_directives() {
    check(r#"{"spec":{"nodeSelector":{"$patch":"replace","m":"2"}}}"#, &["spec", "nodeSelector"], r#"{"m":"2"}"#);
    check(r#"{"spec":{"nodeSelector":{"$patch":"delete"}}}"#, &["spec", "nodeSelector"], "{}");
    // Where there is nothing to replace, a map with a directive is nothing.
    check(r#"{"metadata":{"annotations":{"$patch":"replace","q":"r"}}}"#, &["metadata", "annotations"], "null");
    refused(r#"{"spec":{"$patch":"bogus"}}"#, 500, "unknown patch type: bogus in map: map[$patch:bogus]");
    refused(r#"{"spec":{"$patch":1}}"#, 500, "unknown patch type: %!s(int64=1) in map: map[$patch:1]");
}

#[test]
fn lists_of_maps_merge_by_key() {
    let containers = &["spec", "containers"];
    check(
        r#"{"spec":{"containers":[{"name":"b","image":"k"}]}}"#,
        containers,
        &format!(r#"[{A},{{"name":"b","image":"k","resources":{{}}}}]"#),
    );
    // What is new comes in the order of the patch, before the rest.
    check(
        r#"{"spec":{"containers":[{"name":"z"},{"name":"b"}]}}"#,
        containers,
        &format!(r#"[{{"name":"z"}},{A},{B}]"#),
    );
    check(r#"{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}"#, containers, &format!("[{B}]"));
    check(r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}"#, containers, r#"[{"name":"z"}]"#);
    check(
        r#"{"spec":{"containers":[{"name":"a","env":[{"name":"Y"},{"name":"X","value":null}]}]}}"#,
        &["spec", "containers"],
        &format!(
            r#"[{{"name":"a","image":"i","env":[{{"name":"Y"}},{{"name":"X"}}],"ports":[{{"containerPort":80}}],"resources":{{}}}},{B}]"#
        ),
    );
    // A new item is taken as it is, directives and all.
    check(
        r#"{"spec":{"containers":[{"name":"n","env":[{"name":"Y","$patch":"delete"}],"resources":null}]}}"#,
        containers,
        &format!(r#"[{{"name":"n","env":[{{"name":"Y","$patch":"delete"}}],"resources":null}},{A},{B}]"#),
    );
}

#[test]
fn lists_that_are_not_merged_are_replaced() {
    check(r#"{"spec":{"tolerations":[{"key":"l"}]}}"#, &["spec", "tolerations"], r#"[{"key":"l"}]"#);
    check(r#"{"spec":{"tolerations":[]}}"#, &["spec", "tolerations"], "[]");
}

#[test]
fn lists_of_scalars_merge_by_value() {
    let finalizers = &["metadata", "finalizers"];
    check(r#"{"metadata":{"finalizers":["b.io/y"]}}"#, finalizers, r#"["b.io/y","a.io/x"]"#);
    check(r#"{"metadata":{"finalizers":["a.io/x","b.io/y"]}}"#, finalizers, r#"["a.io/x","b.io/y"]"#);
    check(r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.io/x"]}}"#, finalizers, "[]");
    check(
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.io/x"],"finalizers":["b.io/y"]}}"#,
        finalizers,
        r#"["b.io/y"]"#,
    );
    check(r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":"a.io/x"}}"#, finalizers, r#"["a.io/x"]"#);
    check(r#"{"metadata":{"$deleteFromPrimitiveList/nothing":["x"]}}"#, finalizers, r#"["a.io/x"]"#);
    check(
        r#"{"metadata":{"$setElementOrder/finalizers":["b.io/y","a.io/x"],"finalizers":["b.io/y"]}}"#,
        finalizers,
        r#"["b.io/y","a.io/x"]"#,
    );
}

#[test]
fn the_order_of_a_list_can_be_set() {
    let containers = &["spec", "containers"];
    let order = |names: &str| format!(r#""$setElementOrder/containers":[{names}]"#);
    check(&format!(r#"{{"spec":{{{}}}}}"#, order(r#"{"name":"b"},{"name":"a"}"#)), containers, &format!("[{B},{A}]"));
    check(&format!(r#"{{"spec":{{{}}}}}"#, order(r#"{"name":"b"}"#)), containers, &format!("[{A},{B}]"));
    check(
        &format!(
            r#"{{"spec":{{{},"containers":[{{"name":"z"}}]}}}}"#,
            order(r#"{"name":"b"},{"name":"z"},{"name":"a"}"#)
        ),
        containers,
        &format!(r#"[{B},{{"name":"z"}},{A}]"#),
    );
    refused(
        r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a"},{"name":"b"}]}}"#,
        500,
        "The order in patch list:\n[map[name:a] map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:b] map[name:a]]\n",
    );
    // An item with another directive only counts where there is order left to hold it against.
    refused(
        r#"{"spec":{"$setElementOrder/volumes":[{"name":"v"}],"volumes":[{"name":"v"},{"name":"w","$patch":"replace"}]}}"#,
        500,
        "The order in patch list:\n[map[name:v] map[$patch:replace name:w]]\n doesn't match $setElementOrder list:\n[map[name:v]]\n",
    );
}

#[test]
fn keys_can_be_retained() {
    check(
        r#"{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]}}"#,
        &["spec", "volumes"],
        r#"[{"name":"v","hostPath":{"path":"/x"}}]"#,
    );
    refused(r#"{"spec":{"$retainKeys":["a"],"hostname":"h"}}"#, 400, "invalid patch format of retainKeys");
    refused(r#"{"spec":{"$retainKeys":"a"}}"#, 400, "invalid patch format of retainKeys");
    refused(r#"{"spec":{"$retainKeys":[{}],"hostname":"h"}}"#, 400, "invalid patch format of retainKeys");
}

#[test]
fn refusals_are_worded_as_upstream_words_them() {
    let live = "[map[env:[map[name:X value:1]] image:i name:a ports:[map[containerPort:80]] resources:map[]] map[image:j name:b resources:map[]]]";
    for (patch, code, message) in [
        ("[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("3", 400, "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (
            r#"{"spec":{"containers":[{"image":"x"}]}}"#,
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"delete"}]}}"#,
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","$patch":"merge"}]}}"#,
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","$patch":"x"}]}}"#,
            500,
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (r#"{"spec":{"containers":[null]}}"#, 500, &format!("list element types are not identical: [{live} [<nil>]]")),
        (r#"{"spec":{"containers":["a"]}}"#, 500, &format!("list element types are not identical: [{live} [a]]")),
        (r#"{"metadata":{"finalizers":[1]}}"#, 500, "list element types are not identical: [[a.io/x] [1]]"),
        (r#"{"spec":{"$setElementOrder/containers":"x"}}"#, 500, "expected a []interface {}, but received a string"),
        (r#"{"spec":{"$setElementOrder/containers":["x"]}}"#, 500, "value for key 0 is not a map"),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"x":1}]}}"#,
            500,
            "map: map[x:1] does not contain declared merge key: name",
        ),
        (r#"{"spec":{"$setElementOrder":[{"x":1}]}}"#, 400, "invalid patch format of setElementOrder list"),
        (
            r#"{"spec":{"$setElementOrder/bogus":[{"x":1}]}}"#,
            500,
            r#"unable to find api field in struct PodSpec for the json field "bogus""#,
        ),
        (r#"{"metadata":{"$deleteFromPrimitiveList":["x"]}}"#, 400, "invalid patch format of primitive list"),
    ] {
        refused(patch, code, message);
    }
}

#[test]
fn a_map_can_be_declared_to_be_replaced() {
    let budget = |version: &str| {
        let live = json(r#"{"spec":{"selector":{"matchLabels":{"a":"b"}}}}"#);
        let mut patch = json(r#"{"spec":{"selector":{"matchLabels":{"c":"d"}}}}"#);
        let patched = strategic_patch(&live, &mut patch, schema("policy", version, "PodDisruptionBudget")).unwrap();
        patched.at(&["spec", "selector", "matchLabels"]).clone()
    };
    assert_eq!(budget("v1"), value!({"c": "d"}));
}

#[test]
fn a_patch_keeps_the_traces_of_being_applied() {
    let mut patch =
        json(r#"{"spec":{"$setElementOrder/volumes":[{"name":"v"}],"volumes":[{"name":"v"}],"hostname":1}}"#);
    strategic_patch(&pod(), &mut patch, schema("", "v1", "Pod")).unwrap();
    assert_eq!(go::plain(&patch), "map[spec:map[hostname:1]]");
}

/// Patches that make sense in places and none in others.
fn any_patch() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "replace", "delete", "merge", "X"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        let key = prop::sample::select(vec![
            "spec", "metadata", "containers", "env", "name", "finalizers", "volumes", "tolerations", "$patch", "$retainKeys",
            "$setElementOrder/containers", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers", "nodeSelector",
            "$setElementOrder/env", "ports", "containerPort", "image", "bogus", "$setElementOrder", "$deleteFromPrimitiveList",
        ]);
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            3 => prop::collection::vec((key, inner), 0..5).prop_map(|entries| Value::Map(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever comes in, the answer is an object or a refusal.
    #[test]
    fn hostile_patches_are_survived(mut patch in any_patch()) {
        if let Ok(patched) = strategic_patch(&pod(), &mut patch, schema("", "v1", "Pod")) {
            prop_assert!(patched.as_map().is_some());
        }
    }

    /// Applying the same patch of plain values again changes nothing more.
    #[test]
    fn plain_patches_are_idempotent(names in prop::collection::vec("[a-d]", 0..4), image in "[a-z]") {
        let containers: Vec<Value> =
            names.iter().map(|name| value!({"name": (name.as_str()), "image": (image.as_str())})).collect();
        let patch = value!({"spec": {"containers": containers}});
        let schema = schema("", "v1", "Pod");
        let once = strategic_patch(&pod(), &mut patch.clone(), schema).unwrap();
        let twice = strategic_patch(&once, &mut patch.clone(), schema).unwrap();
        prop_assert_eq!(structured(&once, schema), structured(&twice, schema));
    }
}
