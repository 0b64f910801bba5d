//! Every kind of Kubernetes v1.37, in every format, to the byte.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod common;

use codec::{Notes, cbor, json, proto, yaml};
use common::{goldens, text};

#[test]
fn json_becomes_the_recorded_protobuf() {
    for golden in goldens() {
        let mut notes = Notes::collect();
        let value = json::decode(&golden.compact_json(), Some(golden.schema()), &mut notes).unwrap();
        assert_eq!(notes.messages(), [""; 0], "{}", golden.name);
        let mut bytes = Vec::new();
        proto::encode(&value, golden.schema(), &mut bytes).unwrap();
        assert!(bytes == golden.proto, "{}: protobuf differs", golden.name);
    }
}

#[test]
fn protobuf_becomes_the_recorded_json() {
    for golden in goldens() {
        let value = proto::decode(&golden.proto, golden.schema()).unwrap();
        let mut bytes = Vec::new();
        json::encode_pretty(&value, Some(golden.schema()), &mut bytes);
        assert_eq!(text(&bytes), text(&golden.json), "{}", golden.name);
        assert_eq!(
            json::decode(&golden.compact_json(), Some(golden.schema()), &mut Notes::ignore()),
            Ok(value),
            "{}: the two formats differ",
            golden.name
        );
    }
}

#[test]
fn yaml_reads_and_prints_as_recorded() {
    for golden in goldens() {
        let mut notes = Notes::collect();
        let value = yaml::decode(&golden.yaml, Some(golden.schema()), &mut notes).unwrap();
        assert_eq!(notes.messages(), [""; 0], "{}", golden.name);
        let same = json::decode(&golden.compact_json(), Some(golden.schema()), &mut Notes::ignore());
        assert_eq!(Ok(&value), same.as_ref(), "{}", golden.name);
        let mut bytes = Vec::new();
        yaml::encode(&value, Some(golden.schema()), &mut bytes);
        assert_eq!(text(&bytes), text(&golden.yaml), "{}", golden.name);
    }
}

#[test]
fn cbor_loses_nothing() {
    for golden in goldens() {
        let schema = Some(golden.schema());
        let value = json::decode(&golden.compact_json(), schema, &mut Notes::ignore()).unwrap();
        let mut bytes = Vec::new();
        cbor::encode(&value, schema, &mut bytes).unwrap();
        let decoded = cbor::decode(&bytes, schema, &mut Notes::ignore()).unwrap();
        assert_eq!(decoded, value, "{}", golden.name);
        let mut again = Vec::new();
        json::encode_pretty(&decoded, schema, &mut again);
        assert_eq!(text(&again), text(&golden.json), "{}", golden.name);
    }
}
