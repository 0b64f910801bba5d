//! Messages as upstream writes them, and malformed ones.

use object::{Value, value};
use schema::{Schema, builtin};

use super::*;
use crate::json;

fn schema(kind: &str) -> Schema<'static> {
    let kind = builtin().kind("", "v1", kind).unwrap();
    Schema::new(builtin().types(), &kind.node)
}

fn list_meta() -> Schema<'static> {
    schema("PodList").child("metadata").unwrap()
}

fn config_map(revision: &str) -> Value {
    let mut value = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}});
    value.set(&["metadata", "labels", "x"], "y");
    value.set(&["data", "key"], "value");
    if !revision.is_empty() {
        value.set(&["metadata", "resourceVersion"], revision);
    }
    value
}

fn encoded(value: &Value, kind: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode(value, schema(kind), &mut out).unwrap();
    out
}

#[test]
fn the_revision_is_put_where_it_belongs() {
    for revision in ["1", "12345678901234567890", &"9".repeat(300)] {
        let stored = encoded(&config_map(""), "ConfigMap");
        let mut out = Vec::new();
        Layout::of(&stored).unwrap().write(&stored, revision, &mut out);
        assert_eq!(out, encoded(&config_map(revision), "ConfigMap"));

        let replaced = encoded(&config_map("7"), "ConfigMap");
        let mut out = Vec::new();
        Layout::of(&replaced).unwrap().write(&replaced, revision, &mut out);
        assert_eq!(out, encoded(&config_map(revision), "ConfigMap"));
        let mut out = Vec::new();
        Layout::of(&replaced).unwrap().write_as(&replaced, "v1", "ConfigMap", revision, &mut out);
        assert_eq!(out, encoded(&config_map(revision), "ConfigMap"));
    }
}

#[test]
fn lists_are_written_around_their_items() {
    let metadata = value!({"resourceVersion": "9", "remainingItemCount": 3});
    let items = vec![config_map("1"), config_map("22")];
    let list = value!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": (metadata.clone()), "items": (items)});
    let want = encoded(&list, "ConfigMapList");

    let stored = encoded(&config_map(""), "ConfigMap");
    let layout = Layout::of(&stored).unwrap();
    let mut out = Vec::new();
    let length = layout.item_len("1") + layout.item_len("22");
    write_list_head("v1", "ConfigMapList", (&metadata, list_meta()), length, &mut out).unwrap();
    layout.write_item(&stored, "1", &mut out);
    layout.write_item(&stored, "22", &mut out);
    out.extend_from_slice(LIST_TAIL);
    assert_eq!(out, want);
}

#[test]
fn watch_events_are_frames() {
    let object = encoded(&config_map("1"), "ConfigMap");
    let mut frame = Vec::new();
    write_watch_event("ADDED", &object, &mut frame);
    let (length, message) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
    let mut want = b"\x0a\x05ADDED\x12".to_vec();
    wire::write_varint(object.len() as u64 + 2, &mut want);
    wire::write_bytes(1, &object, &mut want);
    assert_eq!(message, want);
}

#[test]
fn fields_merge_and_unknown_ones_are_skipped() {
    // A name, an unknown group with a varint inside, an unknown fixed32, another metadata with a namespace.
    let message = b"\x0a\x03\x0a\x01a\x9b\x06\x08\x01\x9c\x06\xa5\x06\x01\x02\x03\x04\x0a\x03\x1a\x01n";
    let value = decode_message(message, schema("ConfigMap")).unwrap();
    assert_eq!(value, value!({"metadata": {"name": "a", "namespace": "n"}}));
}

#[test]
fn only_what_is_asked_for_is_decoded() {
    let pod = value!({
        "metadata": {"name": "a", "labels": {"app": "x"}, "annotations": {"note": "long"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}], "hostNetwork": true},
        "status": {"podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"}
    });
    let bytes = encoded(&pod, "Pod");
    let check = |paths: &[&str], expected: Value| {
        assert_eq!(decode_paths(&bytes, schema("Pod"), paths).unwrap(), expected, "{paths:?}");
    };
    check(&["metadata.labels"], value!({"metadata": {"labels": {"app": "x"}}}));
    check(&["spec.nodeName", "spec.host"], value!({"spec": {"nodeName": "n"}}));
    check(&["status.podIPs"], value!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}}));
    let status = value!({"podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"});
    check(&["status", "spec.hostNet"], value!({"status": status}));
}

#[test]
fn packed_numbers_are_read_too() {
    // PodSpec.securityContext.supplementalGroups: 4, packed and not.
    let context = schema("Pod").child("spec").unwrap().child("securityContext").unwrap();
    let value = decode_message(b"\x20\x05\x22\x03\x06\x87\x01", context).unwrap();
    assert_eq!(value, value!({"supplementalGroups": [5, 6, 135]}));
}

#[test]
fn broken_messages_are_refused() {
    for (bytes, want) in [
        (&b""[..], "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x12\x05\x0a", "unexpected EOF"),
        (b"k8s\0\x12\x02\x0a\x05", "unexpected EOF"),
        (b"k8s\0\x12\x02\x08\x05", "proto: wrong wireType = 0 for field Metadata"),
        (b"k8s\0\x12\x04\x0a\x02\x08\x05", "proto: wrong wireType = 0 for field Name"),
        (b"k8s\0\x12\x01\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"k8s\0\x12\x01\x02", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (b"k8s\0\x12\x02\x9f\x06", "proto: illegal wireType 7"),
        (b"k8s\0\x12\x02\x9b\x06", "unexpected EOF"),
        (
            b"k8s\0\x12\x0b\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "proto: negative length found during unmarshaling",
        ),
        (b"k8s\0\x12\x0b\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow"),
        (b"k8s\0\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
    ] {
        let error = decode(bytes, schema("ConfigMap")).unwrap_err();
        assert_eq!(error.to_string(), want, "{bytes:?}");
    }
}

#[test]
fn text_that_is_no_utf8_is_replaced() {
    let value = decode_message(b"\x0a\x04\x0a\x02\xc3\x28", schema("ConfigMap")).unwrap();
    assert_eq!(value.str_at(&["metadata", "name"]), "\u{fffd}(");
}

#[test]
fn json_lists_are_written_around_their_items() {
    let metadata = value!({"resourceVersion": "9"});
    let mut stored = Vec::new();
    json::encode(&config_map(""), Some(schema("ConfigMap")), &mut stored);
    let layout = json::Layout::of(&stored).unwrap();
    let mut out = Vec::new();
    json::write_list_head("v1", "ConfigMapList", (&metadata, list_meta()), &mut out);
    layout.write_item(&stored, "1", &mut out);
    out.extend_from_slice(json::LIST_COMMA);
    layout.write_item(&stored, "22", &mut out);
    out.extend_from_slice(json::LIST_TAIL);

    let bare = |revision: &str| {
        let mut item = config_map(revision);
        item.remove(&["kind"]);
        item.remove(&["apiVersion"]);
        item
    };
    let items = vec![bare("1"), bare("22")];
    let list = value!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": (metadata), "items": (items)});
    let mut want = Vec::new();
    json::encode(&list, Some(schema("ConfigMapList")), &mut want);
    want.push(b'\n');
    assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(want).unwrap());
}
