//! JSON merge patch: RFC 7386 with the habits of the library upstream uses.
//!
//! The habit clients can see: nulls inside a new value are dropped, but where a list replaces a map they stay.

use object::{Map, Value};

use crate::json_patch::open;
use crate::{Error, Reading};

/// Merges `patch` into `document`. A checked patch must be an object; a lenient one may be a list, which replaces the
/// document whole.
pub fn merge_patch(document: Value, patch: Value, reading: Reading) -> Result<Value, Error> {
    match (document, patch) {
        (Value::Map(mut document), Value::Map(patch)) => {
            merge_maps(&mut document, patch);
            Ok(Value::Map(document))
        }
        (_, Value::Null) => Err(Error::Malformed("Invalid JSON Patch".into())),
        (_, patch) if reading == Reading::Checked && !matches!(patch, Value::Map(_)) => {
            let message =
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {}";
            Err(Error::Malformed(message.replacen("{}", patch.type_name(), 1)))
        }
        (_, mut patch @ (Value::List(_) | Value::Map(_))) => {
            prune_nulls(&mut patch);
            Ok(patch)
        }
        _ => Err(Error::Malformed("Invalid JSON Patch".into())),
    }
}

fn merge_maps(document: &mut Map, patch: Map) {
    let mut changes = Vec::new();
    for (key, mut value) in patch {
        if value.is_null() {
            changes.push((key, None));
            continue;
        }
        let Some(current) = document.get_mut(&key) else {
            prune_nulls(&mut value);
            changes.push((key, Some(value)));
            continue;
        };
        open(current);
        match (current, value) {
            (Value::Map(current), Value::Map(patch)) => merge_maps(current, patch),
            // A value that takes a map's place is taken as it is.
            (current @ Value::Map(_), other) => *current = other,
            (slot, mut value) => {
                prune_nulls(&mut value);
                *slot = value;
            }
        }
    }
    document.update(changes);
}

/// Drops null members of maps at every depth; null items of lists stay.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, child| {
            prune_nulls(child);
            !child.is_null()
        }),
        Value::List(list) => list.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use object::value;
    use proptest::prelude::*;

    use super::*;
    use crate::go;

    fn check(document: Value, patch: Value, want: Value) {
        let got = merge_patch(document, patch.clone(), Reading::Checked);
        assert_eq!(got, Ok(want), "{}", go::json(&patch));
    }

    /// The test cases of RFC 7386 that have an object to patch, and upstream's habits.
    #[test]
    fn patches_merge() {
        for (document, patch, want) in [
            (value!({"a": "b"}), value!({"a": "c"}), value!({"a": "c"})),
            (value!({"a": "b"}), value!({"b": "c"}), value!({"a": "b", "b": "c"})),
            (value!({"a": "b"}), value!({"a": null}), value!({})),
            (value!({"a": "b", "b": "c"}), value!({"a": null}), value!({"b": "c"})),
            (value!({"a": ["b"]}), value!({"a": "c"}), value!({"a": "c"})),
            (value!({"a": "c"}), value!({"a": ["b"]}), value!({"a": ["b"]})),
            (value!({"a": {"b": "c"}}), value!({"a": {"b": "d", "c": null}}), value!({"a": {"b": "d"}})),
            (value!({"a": [{"b": "c"}]}), value!({"a": [1]}), value!({"a": [1]})),
            (value!({"e": null}), value!({"a": 1}), value!({"e": null, "a": 1})),
            (value!({}), value!({"a": {"bb": {"ccc": null}}}), value!({"a": {"bb": {}}})),
            (value!({"a": null}), value!({"a": {"b": null}}), value!({"a": {}})),
            (value!({}), value!({"a": [null, {"b": null}]}), value!({"a": [null, {}]})),
            (value!({"a": {"x": 1}}), value!({"a": [{"b": null}]}), value!({"a": [{"b": null}]})),
            (value!({"a": [1]}), value!({"a": {"b": null, "c": 1}}), value!({"a": {"c": 1}})),
        ] {
            check(document, patch, want);
        }
    }

    #[test]
    fn bodies_that_are_no_patch_are_named() {
        let refusals = [
            (
                value!([]),
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                value!(3),
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            (Value::Null, "Invalid JSON Patch"),
        ];
        for (patch, message) in refusals {
            let status = merge_patch(value!({}), patch, Reading::Checked).expect_err(message);
            assert_eq!(
                {
                    let status = object::Status::from(status);
                    (status.code, status.message)
                },
                (400, message.to_string())
            );
        }
        for patch in [value!(3), value!("x"), Value::Null] {
            let status = merge_patch(value!({}), patch, Reading::Lenient).expect_err("no object");
            assert_eq!(
                {
                    let status = object::Status::from(status);
                    (status.code, status.message)
                },
                (400, "Invalid JSON Patch".to_string())
            );
        }
        let list = merge_patch(value!({}), value!([{"a": null}]), Reading::Lenient);
        assert_eq!(list, Ok(value!([{}])));
    }

    /// The patch that makes `to` of `from`; neither has nulls, which a merge patch cannot say.
    fn diff(from: &Map, to: &Map) -> Map {
        let mut patch = Map::new();
        for key in from.keys().filter(|key| !to.contains_key(key)) {
            patch.insert(key, Value::Null);
        }
        for (key, wanted) in to.iter() {
            match (from.get(key), wanted) {
                (Some(current), wanted) if current == wanted => {}
                (Some(Value::Map(current)), Value::Map(wanted)) => {
                    patch.insert(key, Value::Map(diff(current, wanted)));
                }
                _ => {
                    patch.insert(key, wanted.clone());
                }
            }
        }
        patch
    }

    fn any_map() -> impl Strategy<Value = Map> {
        let leaf = prop_oneof![(0..3i64).prop_map(Value::from), Just(Value::from("a"))];
        let value = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
                prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| Value::Map(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-c]", value, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_difference_can_be_merged(from in any_map(), to in any_map()) {
            let patch = Value::Map(diff(&from, &to));
            let merged = merge_patch(Value::Map(from), patch.clone(), Reading::Checked);
            prop_assert_eq!(merged, Ok(Value::Map(to.clone())));
            prop_assert_eq!(merge_patch(Value::Map(to.clone()), patch, Reading::Checked), Ok(Value::Map(to)));
        }
    }
}
