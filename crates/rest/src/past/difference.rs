//! How two states of an object differ.

use std::collections::BTreeMap;

use object::{Value, value};

/// Fields that every write changes; differences in them say nothing.
const IGNORED: [&str; 2] = ["managedFields", "resourceVersion"];

/// The object without what every write changes.
pub fn without_noise(mut object: Value) -> Value {
    for field in IGNORED {
        object.remove(&["metadata", field]);
    }
    object
}

/// A JSON patch from one state to another. Null is the state in which there is no object.
pub fn patch(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(before, after, "", &mut operations);
    operations
}

fn compare(before: &Value, after: &Value, path: &str, out: &mut Vec<Value>) {
    if before == after {
        return;
    }
    if let (Some(old), Some(new)) = (before.as_map(), after.as_map()) {
        for (key, value) in old.iter() {
            let path = join(path, key);
            match new.get(key) {
                Some(other) => compare(value, other, &path, out),
                None => out.push(value!({"op": "remove", "path": path})),
            }
        }
        for (key, value) in new.iter().filter(|(key, _)| old.get(key).is_none()) {
            out.push(value!({"op": "add", "path": (join(path, key)), "value": (value.clone())}));
        }
        return;
    }
    match (before.as_list(), after.as_list()) {
        (Some(old), Some(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, &join(path, &at.to_string()), out);
            }
        }
        _ => out.push(value!({"op": "replace", "path": path, "value": (after.clone())})),
    }
}

/// A JSON pointer with one more segment.
fn join(path: &str, segment: &str) -> String {
    let segment = segment.replace('~', "~0").replace('/', "~1");
    [path, &segment].join("/")
}

/// The fields of an object that have no fields of their own, by path. Items that have different names are told apart by them, so that
/// an item stays the same when others are added; a list of anything else is one field.
pub fn fields(object: &Value) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    collect(object, String::new(), &mut found);
    found
}

fn collect<'v>(value: &'v Value, path: String, found: &mut BTreeMap<String, &'v Value>) {
    if let Some(map) = value.as_map().filter(|map| map.iter().next().is_some()) {
        for (key, value) in map.iter() {
            let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            let segment = if is_plain { [".", key].concat() } else { ["[", &object::quote(key), "]"].concat() };
            collect(value, [path.as_str(), &segment].concat(), found);
        }
        return;
    }
    match value.as_list().and_then(names) {
        Some(named) => {
            for (name, value) in named {
                collect(value, [path.as_str(), "[name=", &object::quote(name), "]"].concat(), found);
            }
        }
        None => drop(found.insert(path, value)),
    }
}

/// The items of a list by their names, if all have one and no two the same.
fn names(list: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let named: Option<BTreeMap<&str, &Value>> =
        list.iter().map(|item| Some((item.get("name")?.as_str()?, item))).collect();
    named.filter(|named| named.len() == list.len() && !list.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_lead_from_one_state_to_the_other() {
        let before = value!({"a": 1, "b": {"c/d": "x", "e": true}, "f": [1, 2], "g": [1]});
        let after = value!({"a": 2, "b": {"e": true, "~": "y"}, "f": [1, 3], "g": [1, 2]});
        let wanted = [
            value!({"op": "replace", "path": "/a", "value": 2}),
            value!({"op": "remove", "path": "/b/c~1d"}),
            value!({"op": "add", "path": "/b/~0", "value": "y"}),
            value!({"op": "replace", "path": "/f/1", "value": 3}),
            value!({"op": "replace", "path": "/g", "value": [1, 2]}),
        ];
        assert_eq!(patch(&before, &after), wanted);
        assert_eq!(patch(&before, &before), []);
        assert_eq!(patch(&Value::Null, &after), [value!({"op": "replace", "path": "", "value": (after.clone())})]);
    }

    #[test]
    fn fields_are_named_by_their_paths() {
        let object = value!({"spec": {"list": [{"name": "b", "x": 1}, {"name": "a"}], "plain": [{"x": 1}], "empty": {}}, "a.b": 1});
        let found: Vec<String> = fields(&object).into_keys().collect();
        let wanted = [
            r#".spec.empty"#,
            r#".spec.list[name="a"].name"#,
            r#".spec.list[name="b"].name"#,
            r#".spec.list[name="b"].x"#,
            r#".spec.plain"#,
            r#"["a.b"]"#,
        ];
        assert_eq!(found, wanted);
    }
}
