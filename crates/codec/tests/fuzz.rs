//! Recorded objects with a few bytes changed, into every decoder: whatever comes out, nothing may panic, hang or disagree
//! with itself.
//!
//! Deterministic and bounded in time: `FERROKUBE_FUZZ_SECONDS` for each decoder, a couple by default, and
//! `FERROKUBE_FUZZ_SEED` to start elsewhere.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use codec::{Notes, StoredEncoding, cbor, json, proto, yaml};
use common::Golden;
use object::Value;
use schema::Schema;

#[allow(clippy::disallowed_methods)]
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Pieces that decoders trip over.
const PIECES: [&[u8]; 20] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"-",
    b"1e999",
    b"\n",
    b"\n- ",
    b": ",
    b"&a ",
    b"*a",
    b"\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"<<: ",
    b"|\n",
];

/// One to four changes.
fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len()))),
            3 => bytes.truncate(at),
            4 => {
                let from = random.below(bytes.len());
                let copied = bytes[from..(from + random.below(40)).min(bytes.len())].to_vec();
                bytes.splice(at..at, copied);
            }
            5 => bytes.insert(at, random.below(256) as u8),
            _ => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
        }
    }
    bytes
}

/// Feeds mutated inputs to `run` until the time is up.
fn fuzz(inputs: &[(Vec<u8>, Schema<'static>)], run: impl Fn(&[u8], Schema<'static>)) {
    if inputs.is_empty() {
        return;
    }
    let mut random = Random(setting("FERROKUBE_FUZZ_SEED", 0x9e37_79b9_7f4a_7c15).max(1));
    let end = Instant::now() + Duration::from_secs(setting("FERROKUBE_FUZZ_SECONDS", 2));
    let mut runs = 0u64;
    while Instant::now() < end {
        let (bytes, schema) = &inputs[random.below(inputs.len())];
        let bytes = mutated(bytes, &mut random);
        let started = Instant::now();
        run(&bytes, *schema);
        assert!(started.elapsed() < Duration::from_secs(20), "took too long: {bytes:?}");
        runs += 1;
    }
    println!("{runs} inputs");
    assert!(runs > 0);
}

fn inputs(bytes: impl Fn(&Golden) -> Vec<u8>) -> Vec<(Vec<u8>, Schema<'static>)> {
    common::goldens().iter().map(|golden| (bytes(golden), golden.schema())).collect()
}

/// What was decoded can be written in every format, and reads back as itself from the one it is read most in.
fn write_everywhere(value: &Value, schema: Option<Schema<'static>>) {
    let mut text = Vec::new();
    json::encode(value, schema, &mut text);
    let again = match json::decode(&text, schema, &mut Notes::ignore()) {
        Ok(again) => again,
        // Protobuf can say a year of five digits; written as text, as upstream does, it cannot be read again.
        Err(error) if error.to_string().contains("parsing time") => return,
        Err(error) => panic!("{error}: {}", common::text(&text)),
    };
    let is_exact = |encoding: StoredEncoding| schema.is_some_and(|schema| encoding.is_exact(value, schema));
    assert!(again == *value || !is_exact(StoredEncoding::Json), "{value:?} is not exact in JSON: {again:?}");
    let mut twice = Vec::new();
    json::encode(&again, schema, &mut twice);
    assert_eq!(common::text(&text), common::text(&twice));
    let mut indented = Vec::new();
    json::indent(&text, &mut indented);
    let mut lines = Vec::new();
    yaml::encode(value, schema, &mut lines);
    let mut document = Vec::new();
    // A float from protobuf may be no number; only then is there no CBOR.
    if cbor::encode(value, schema, &mut document).is_ok() {
        cbor::decode(&document, schema, &mut Notes::ignore()).unwrap();
    }
    if let Some(schema) = schema {
        let mut message = Vec::new();
        proto::encode(value, schema, &mut message).unwrap();
        let again = proto::decode(&message, schema).unwrap();
        assert!(
            again == *value || !is_exact(StoredEncoding::Protobuf),
            "{value:?} is not exact in protobuf: {again:?}"
        );
    }
    let _ = json::Layout::of(&text).map(|layout| layout.write(&text, "1", &mut Vec::new()));
}

#[test]
fn json_decoder() {
    let inputs = inputs(|golden| {
        let mut compact = Vec::new();
        let value = json::decode(&golden.compact_json(), None, &mut Notes::ignore()).unwrap();
        json::encode(&value, None, &mut compact);
        compact
    });
    fuzz(&inputs, |bytes, schema| {
        let typed = json::decode(bytes, Some(schema), &mut Notes::collect());
        let untyped = json::decode(bytes, None, &mut Notes::collect());
        let kind = json::type_meta(bytes);
        if let Ok(value) = &typed {
            assert!(untyped.is_ok());
            write_everywhere(value, Some(schema));
        }
        if let Ok(value) = &untyped {
            write_everywhere(value, None);
        }
        // The reader that skips and the one that explains agree with the decoders on what JSON is.
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        let ours = !matches!(untyped, Err(codec::DecodeError::Syntax(_)));
        assert!(ours || !theirs, "{:?}", common::text(bytes));
        assert!(ours == !matches!(kind, Err(codec::DecodeError::Syntax(_))), "{:?}", common::text(bytes));
        if let Err(error) = untyped {
            assert_ne!(error.to_string(), "invalid JSON");
        }
        let _ = json::Layout::of(bytes);
        let _ = json::Layout::of_sorted(bytes);
        json::indent(bytes, &mut Vec::new());
    });
}

#[test]
fn yaml_decoder() {
    let inputs = inputs(|golden| golden.yaml.clone());
    fuzz(&inputs, |bytes, schema| {
        if let Ok(converted) = yaml::to_json(bytes, false) {
            json::decode(&converted, None, &mut Notes::ignore()).unwrap();
        }
        if let Ok(value) = yaml::decode(bytes, Some(schema), &mut Notes::collect()) {
            write_everywhere(&value, Some(schema));
        }
    });
}

#[test]
fn protobuf_decoder() {
    let inputs = inputs(|golden| golden.proto.clone());
    fuzz(&inputs, |bytes, schema| {
        if let Ok(value) = proto::decode(bytes, schema) {
            write_everywhere(&value, Some(schema));
        }
        if let Some(layout) = proto::Layout::of(bytes) {
            let mut out = Vec::new();
            layout.write(bytes, "12345", &mut out);
            let mut item = Vec::new();
            layout.write_item(bytes, "12345", &mut item);
            assert_eq!(item.len(), layout.item_len("12345"));
        }
    });
}

#[test]
fn cbor_decoder() {
    let inputs = inputs(|golden| {
        let value = json::decode(&golden.compact_json(), Some(golden.schema()), &mut Notes::ignore()).unwrap();
        let mut document = Vec::new();
        cbor::encode(&value, Some(golden.schema()), &mut document).unwrap();
        document
    });
    fuzz(&inputs, |bytes, schema| {
        if let Ok(value) = cbor::decode(bytes, None, &mut Notes::ignore()) {
            write_everywhere(&value, None);
        }
        if let Ok(value) = cbor::decode(bytes, Some(schema), &mut Notes::collect()) {
            write_everywhere(&value, Some(schema));
        }
    });
}
