//! The history as lines of JSON, for porcupine (`conformance/porcupine`).

use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use storage::suite::linearizability::{Answer, Call, Operation};

/// Writes the operations that had an effect or told something.
pub fn write(path: &Path, operations: &[Operation]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let mut out = BufWriter::new(std::fs::File::create(path).map_err(failed)?);
    for operation in operations.iter().filter(|operation| operation.answer != Answer::NotDone) {
        writeln!(out, "{}", line(operation)).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

fn line(operation: &Operation) -> Value {
    let (call, value, expected) = match &operation.call {
        Call::Get => ("get", 0, None),
        Call::Create(value) => ("create", *value, None),
        Call::Update(value, expected) => ("update", *value, Some(*expected)),
        Call::Put(value) => ("put", *value, None),
        Call::Delete(expected) => ("delete", 0, *expected),
    };
    let (answer, seen) = match &operation.answer {
        Answer::Read(seen) => ("read", *seen),
        Answer::Refused(seen) => ("refused", *seen),
        Answer::Done(revision) => ("done", Some((0, *revision))),
        Answer::Happened => ("done", None),
        Answer::Conflicted => ("conflicted", None),
        Answer::Unknown | Answer::NotDone => ("unknown", None),
    };
    let (number, revision) = seen.unwrap_or_default();
    json!({
        "key": operation.key, "call": call, "value": value, "expected": expected, "answer": answer,
        "found": seen.is_some(), "seen": number, "revision": revision, "began": operation.began, "ended": operation.ended
    })
}
