//! Items as upstream's library reads and writes them.

use object::{Value, value};
use schema::{Schema, builtin};

use super::*;
use crate::Notes;

fn read(bytes: &[u8]) -> Result<Value, String> {
    decode(bytes, None, &mut Notes::ignore()).map_err(|e| e.to_string())
}

#[test]
fn values_have_one_form() {
    for (value, bytes) in [
        (Value::Null, &b"\xf6"[..]),
        (Value::Bool(true), b"\xf5"),
        (Value::Int(23), b"\x17"),
        (Value::Int(24), b"\x18\x18"),
        (Value::Int(-1), b"\x20"),
        (Value::Int(65536), b"\x1a\x00\x01\x00\x00"),
        (Value::Int(i64::MIN), b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        (Value::Float(1.0), b"\xf9\x3c\x00"),
        (Value::Float(-0.0), b"\xf9\x80\x00"),
        (Value::Float(5.960464477539063e-8), b"\xf9\x00\x01"),
        (Value::Float(65504.0), b"\xf9\x7b\xff"),
        (Value::Float(100000.0), b"\xfa\x47\xc3\x50\x00"),
        (Value::Float(1.1), b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
        (Value::from("abc"), b"\x43abc"),
        (value!([1, "a"]), b"\x82\x01\x41a"),
        (value!({"bb": 1, "c": 2, "aa": 3}), b"\xa3\x41c\x02\x42aa\x03\x42bb\x01"),
    ] {
        let mut out = Vec::new();
        encode(&value, None, &mut out).unwrap();
        assert_eq!(out, [MAGIC, bytes].concat(), "{value:?}");
        assert_eq!(read(&out), Ok(value.clone()));
        assert_eq!(read(bytes), Ok(value));
    }
}

#[test]
fn other_forms_are_read() {
    for (bytes, want) in [
        (&b"\x63abc"[..], Value::from("abc")),
        (b"\x5f\x41a\x42bc\xff", Value::from("abc")),
        (b"\x9f\x01\x02\xff", value!([1, 2])),
        (b"\xbf\x41a\x01\xff", value!({"a": 1})),
        (b"\xd6\x43abc", Value::from("YWJj")),
        (b"\xd5\x42\xff\xfe", Value::from("__4")),
        (b"\xd7\x42\xff\xfe", Value::from("fffe")),
        (b"\xd8\x64\x01", Value::Int(1)),
        (b"\xc1\x00", Value::from("1970-01-01T00:00:00Z")),
        (b"\xc0\x542020-01-01T00:00:00Z", Value::from("2020-01-01T00:00:00Z")),
    ] {
        assert_eq!(read(bytes), Ok(want), "{bytes:?}");
    }
}

#[test]
fn broken_items_are_refused() {
    for (bytes, want) in [
        (&b""[..], "EOF"),
        (b"\x43ab", "unexpected EOF"),
        (b"\x82\x01", "unexpected EOF"),
        (b"\x01\x02", "cbor: 1 bytes of extraneous data starting at index 1"),
        (b"\xa2\x41a\x01\x41a\x02", "cbor: found duplicate map key \"a\" at map element index 1"),
        (b"\xa1\x01\x02", "cbor: cannot unmarshal positive integer into Go value of type string"),
        (b"\x62\xc3\x28", "cbor: invalid UTF-8 string"),
        (
            b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
            "cbor: cannot unmarshal positive integer into Go value of type int64 (18446744073709551615 overflows Go's int64)",
        ),
        (
            b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            "cbor: cannot unmarshal negative integer into Go value of type int64 (-18446744073709551616 overflows Go's int64)",
        ),
        (b"\xf9\x7e\x00", "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN"),
        (
            b"\xf7",
            "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
        ),
        (b"\xff", "cbor: unexpected \"break\" code"),
        (b"\x1c", "cbor: invalid additional information 28 for type positive integer"),
        (b"\xc2\x41\x01", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        (b"\x5f\x61a\xff", "cbor: wrong element type UTF-8 text string for indefinite-length byte string"),
        (
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            "cbor: array length 18446744073709551615 is too large, it would cause integer overflow",
        ),
        (b"\x9a\xff\xff\xff\xff", "unexpected EOF"),
    ] {
        assert_eq!(read(bytes), Err(want.into()), "{bytes:?}");
    }
    assert_eq!(read(&b"\x81".repeat(300)), Err("cbor: exceeded max nested level 128".into()));
}

#[test]
fn lists_and_events_are_written_around_their_items() {
    let kind = builtin().kind("", "v1", "ConfigMapList").unwrap();
    let schema = Schema::new(builtin().types(), &kind.node);
    let item = value!({"metadata": {"name": "a"}});
    let metadata = value!({"resourceVersion": "5"});
    let mut out = Vec::new();
    write_list_head("ConfigMapList", 1, &mut out);
    encode_item(&item, schema.child("items").and_then(|items| items.items()), &mut out).unwrap();
    write_list_tail("v1", (&metadata, schema.child("metadata")), &mut out).unwrap();
    let list = value!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [item], "metadata": metadata});
    let mut want = Vec::new();
    encode(&list, Some(schema), &mut want).unwrap();
    assert_eq!(out, want);

    let mut event = Vec::new();
    write_watch_event("ADDED", &want, &mut event);
    assert_eq!(read(&event), Ok(value!({"type": "ADDED", "object": list})));
}
