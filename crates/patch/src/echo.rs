//! Patched documents as upstream's messages show them.
//!
//! When the result of a JSON or merge patch cannot be decoded, the answer repeats it. Containers that the patch opened
//! have their keys sorted there; whatever it passed by is as the server had printed it.

use object::Value;
use schema::Schema;

use crate::typed::as_written;

/// The object as the server prints it, which is what JSON and merge patches are applied to: `/status` of a Deployment
/// can be removed although it is not set yet.
pub fn as_printed(object: &Value, schema: Schema<'_>) -> Value {
    as_written(object, schema)
}

/// A patched document as text. `opened` says where the patch has been: a merge patch itself, or
/// [`Patched::opened`](crate::Patched::opened).
pub fn patched_text(patched: &Value, schema: Option<Schema<'_>>, opened: &Value) -> String {
    text_of(patched, schema, Some(opened))
}

/// A part of a document as text; `opened` is None where no patch has been.
pub(crate) fn text_of(value: &Value, schema: Option<Schema<'_>>, opened: Option<&Value>) -> String {
    let mut out = Vec::new();
    write(value, schema, opened, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write(value: &Value, schema: Option<Schema<'_>>, opened: Option<&Value>, out: &mut Vec<u8>) {
    let Some(opened) = opened else { return codec::json::encode(value, schema, out) };
    match (value, opened) {
        (Value::Map(map), Value::Map(opened)) => {
            out.push(b'{');
            for (index, (key, child)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                codec::json::encode(&Value::from(key), None, out);
                out.push(b':');
                write(child, schema.and_then(|schema| schema.child(key)), opened.get(key), out);
            }
            out.push(b'}');
        }
        (Value::List(list), Value::Map(opened)) => {
            out.push(b'[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, schema.and_then(|schema| schema.items()), opened.get(&index.to_string()), out);
            }
            out.push(b']');
        }
        // What came from the patch is not in the order of any struct.
        _ => codec::json::encode(value, None, out),
    }
}

#[cfg(test)]
mod tests {
    use object::{GroupVersionKind, Raw, value};
    use schema::builtin;

    use super::*;
    use crate::{JsonPatch, Reading, merge_patch};

    fn config_map() -> (Value, Schema<'static>) {
        let schema = builtin().schema(&GroupVersionKind::new("", "v1", "ConfigMap")).expect("in the table");
        let object = value!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7", "annotations": {"x": "<a>"}}
        });
        (object, schema)
    }

    #[test]
    fn a_merge_patch_sorts_what_it_opens() {
        let (object, schema) = config_map();
        let patch = value!({"data": {"a": 1}});
        let patched = merge_patch(as_printed(&object, schema), patch.clone(), Reading::Checked).unwrap();
        assert_eq!(
            patched_text(&patched, Some(schema), &patch),
            concat!(
                r#"{"apiVersion":"v1","data":{"a":1},"kind":"ConfigMap","metadata":{"name":"c","namespace":"n","uid":"u","#,
                r#""resourceVersion":"7","annotations":{"x":"\u003ca\u003e"}}}"#
            )
        );
    }

    #[test]
    fn a_json_patch_sorts_the_way_to_what_it_changes() {
        let (object, schema) = config_map();
        let patch = r#"[{"op": "add", "path": "/metadata/labels", "value": {"z": 1}}]"#;
        let patch = JsonPatch::parse(patch, Reading::Checked).unwrap();
        let patched = patch.run(as_printed(&object, schema), Some(schema)).unwrap();
        assert_eq!(
            patched_text(&patched.document, Some(schema), &patched.opened),
            concat!(
                r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"annotations":{"x":"\u003ca\u003e"},"#,
                r#""labels":{"z":1},"name":"c","namespace":"n","resourceVersion":"7","uid":"u"}}"#
            )
        );
    }

    #[test]
    fn text_that_no_patch_leads_into_stays_as_it_was_written() {
        let schema =
            builtin().schema(&GroupVersionKind::new("apps", "v1", "ControllerRevision")).expect("in the table");
        let object = value!({"metadata": {"name": "r"}, "data": (Raw::new(r#"{"b": 1.0, "a": [2]}"#))});
        let text = |patched: &Value| {
            let mut out = Vec::new();
            codec::json::encode(patched.field("data"), None, &mut out);
            String::from_utf8(out).unwrap()
        };
        let merge = |patch| text(&merge_patch(as_printed(&object, schema), patch, Reading::Checked).unwrap());
        assert_eq!(merge(value!({"metadata": {"labels": {"a": "b"}}})), r#"{"b":1.0,"a":[2]}"#);
        assert_eq!(merge(value!({"data": {"c": 3}})), r#"{"a":[2],"b":1.0,"c":3}"#);
        assert_eq!(merge(value!({"data": "text"})), r#""text""#);
        let json = |patch: Value| {
            let patch = JsonPatch::parse(&crate::go::json(&patch), Reading::Checked).unwrap();
            let outcome = patch.run(as_printed(&object, schema), Some(schema));
            outcome.map_or_else(|error| object::Status::from(error).code.to_string(), |done| text(&done.document))
        };
        let label = value!({"op": "add", "path": "/metadata/labels", "value": {}});
        let equal = value!({"op": "test", "path": "/data", "value": {"a": [2], "b": (Raw::new("1.0"))}});
        assert_eq!(json(value!([label, equal])), r#"{"b":1.0,"a":[2]}"#);
        assert_eq!(json(value!([{"op": "remove", "path": "/data/a/0"}])), r#"{"a":[],"b":1.0}"#);
        assert_eq!(json(value!([{"op": "test", "path": "/data/a/0", "value": 3}])), "422");
        let strategic = crate::strategic_patch(&object, &mut value!({"revision": 2}), schema).unwrap();
        assert_eq!(text(&strategic), r#"{"a":[2],"b":1}"#);
    }

    #[test]
    fn what_is_printed_unset_can_be_patched() {
        let schema = builtin().schema(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("in the table");
        let printed = as_printed(&value!({"metadata": {"name": "d"}}), schema);
        assert_eq!(printed.field("status"), &value!({}));
        assert_eq!(printed.at(&["spec", "template", "spec"]), &value!({"containers": null}));
        let patch =
            value!([{"op": "remove", "path": "/status"}, {"op": "test", "path": "/spec/selector", "value": null}]);
        let patch = JsonPatch::parse(&crate::go::json(&patch), Reading::Checked).unwrap();
        assert!(patch.run(printed, Some(schema)).is_ok());
    }
}
