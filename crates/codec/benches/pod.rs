//! How fast an ordinary pod is read and written, next to `serde_json` reading and writing the same bytes.
//!
//! Plain loops and the best of many short ones: `cargo bench -p ferrokube-codec`, or `cargo bench -p ferrokube-codec -- json` for some of them.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use codec::{Notes, cbor, json, proto, yaml};
use schema::{Schema, builtin};

const POD: &str = include_str!("pod.json");
/// How long each line takes.
const TIME: Duration = Duration::from_millis(1500);
/// How many runs are timed together: few, so that some of them are left in peace on a busy machine.
const RUNS: u32 = 16;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let kind = builtin().kind("", "v1", "Pod").expect("pods are built in");
    let schema = Schema::new(builtin().types(), &kind.node);
    let text = POD.trim_end().as_bytes();
    let value = json::decode(text, Some(schema), &mut Notes::ignore()).expect("the pod is a pod");
    let loose = json::decode(text, None, &mut Notes::ignore()).expect("the pod is JSON");
    let theirs: serde_json::Value = serde_json::from_slice(text).expect("the pod is JSON");
    let mut message = Vec::new();
    proto::encode(&value, schema, &mut message).expect("pods have a protobuf form");
    let mut document = Vec::new();
    cbor::encode(&value, Some(schema), &mut document).expect("pods have a CBOR form");
    let mut lines = Vec::new();
    yaml::encode(&value, Some(schema), &mut lines);
    println!("a pod of {} bytes of JSON, {} of protobuf", text.len(), message.len());

    let bench = |name: &str, bytes: usize, run: &mut dyn FnMut()| {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            measure(name, bytes, run);
        }
    };
    let mut out = Vec::with_capacity(2 * text.len());
    bench("serde_json: decode into its own value", text.len(), &mut || {
        black_box(serde_json::from_slice::<serde_json::Value>(black_box(text)).is_ok());
    });
    bench("json: decode untyped", text.len(), &mut || {
        black_box(json::decode(black_box(text), None, &mut Notes::ignore()).is_ok());
    });
    bench("json: decode typed", text.len(), &mut || {
        black_box(json::decode(black_box(text), Some(schema), &mut Notes::ignore()).is_ok());
    });
    bench("json: decode typed, strict", text.len(), &mut || {
        black_box(json::decode(black_box(text), Some(schema), &mut Notes::collect()).is_ok());
    });
    bench("serde_json: encode its own value", text.len(), &mut || {
        out.clear();
        black_box(serde_json::to_writer(&mut out, black_box(&theirs)).is_ok());
    });
    bench("json: encode untyped", text.len(), &mut || {
        out.clear();
        json::encode(black_box(&loose), None, &mut out);
    });
    bench("json: encode typed", text.len(), &mut || {
        out.clear();
        json::encode(black_box(&value), Some(schema), &mut out);
    });
    let layout = json::Layout::of(text).expect("pods have metadata");
    bench("json: put the revision into bytes", text.len(), &mut || {
        out.clear();
        layout.write(black_box(text), "184467", &mut out);
    });
    bench("proto: decode", message.len(), &mut || {
        black_box(proto::decode(black_box(&message), schema).is_ok());
    });
    bench("proto: encode", message.len(), &mut || {
        out.clear();
        black_box(proto::encode(black_box(&value), schema, &mut out).is_ok());
    });
    bench("cbor: decode", document.len(), &mut || {
        black_box(cbor::decode(black_box(&document), Some(schema), &mut Notes::ignore()).is_ok());
    });
    bench("yaml: decode", lines.len(), &mut || {
        black_box(yaml::decode(black_box(&lines), Some(schema), &mut Notes::ignore()).is_ok());
    });
    bench("yaml: encode", lines.len(), &mut || {
        out.clear();
        yaml::encode(black_box(&value), Some(schema), &mut out);
    });
}

/// Prints the best time, which a busy machine disturbs least.
fn measure(name: &str, bytes: usize, run: &mut dyn FnMut()) {
    let end = Instant::now() + TIME;
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        (0..RUNS).for_each(|_| run());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(RUNS));
    }
    println!("{name:40} {:8.2} µs {:8.0} MB/s", best * 1e6, bytes as f64 / best / 1e6);
}
