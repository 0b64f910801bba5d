//! YAML as upstream reads and prints it: a YAML 1.1 reader whose result is turned into JSON, and JSON turned into YAML.
//!
//! `docs/decisions/002-yaml.md` tells why this reader is our own.

mod emit;
mod format;
mod input;
mod load;
mod parser;
mod plain;
mod resolve;
mod scanner;

#[cfg(test)]
mod tests;

use object::Value;
use schema::Schema;

use crate::{DecodeError, Notes, json};

/// Decodes the first document of a stream: YAML to JSON, and JSON as [`json::decode`] does it. Keys that come twice are
/// noted in the YAML reader's own words, in front of everything the JSON decoder notes.
pub fn decode(bytes: &[u8], schema: Option<Schema<'_>>, notes: &mut Notes) -> Result<Value, DecodeError> {
    if let Some(value) = plain::read(bytes) {
        return if schema.is_none() { Ok(value) } else { json::decode(&sorted(&value), schema, notes) };
    }
    let converted = to_json(bytes, false)?;
    if notes.wanted()
        && let Err(error) = to_json(bytes, true)
    {
        notes.other(error.to_string());
    }
    json::decode(&converted, schema, notes)
}

/// Converts the first document of a stream to JSON with sorted keys; an empty stream is `null`. When `strict`, keys that
/// come twice are an error, otherwise the last one wins.
pub fn to_json(bytes: &[u8], strict: bool) -> Result<Vec<u8>, DecodeError> {
    if let Some(value) = plain::read(bytes) {
        return Ok(sorted(&value));
    }
    let mut out = Vec::with_capacity(bytes.len());
    convert(bytes, strict, &mut out).map_err(|error| DecodeError::Syntax(error.message()))?;
    Ok(out)
}

/// The documents of a YAML stream that are not empty.
pub fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents.retain(|document| !document.trim().is_empty());
    documents
}

/// Appends a document, as the JSON of the same value reads when turned into YAML.
pub fn encode(value: &Value, schema: Option<Schema<'_>>, out: &mut Vec<u8>) {
    match schema {
        Some(schema) => emit::emit(&json::printed(value, schema), out),
        None => emit::emit(value, out),
    }
}

/// The JSON of a value that was read without a schema, which sorts its keys.
fn sorted(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    json::encode(value, None, &mut out);
    out
}

fn convert(bytes: &[u8], strict: bool, out: &mut Vec<u8>) -> Result<(), LoadError> {
    match parser::parse(bytes)? {
        Some((document, root)) => load::write_json(&load::load(&document, root, strict)?, out),
        None => {
            out.extend_from_slice(b"null");
            Ok(())
        }
    }
}

/// What is wrong with a document, and where.
#[derive(Debug)]
struct Problem {
    message: String,
    line: Option<usize>,
}

impl Problem {
    fn plain(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), line: None }
    }
}

/// Why a document could not be turned into JSON.
#[derive(Debug)]
enum LoadError {
    Problem(Problem),
    /// Keys that are set twice, one line for each.
    Repeated(Vec<String>),
    /// It cannot be said in JSON.
    Other(String),
}

impl LoadError {
    fn message(self) -> String {
        match self {
            LoadError::Problem(Problem { message, line: None }) => format!("yaml: {message}"),
            LoadError::Problem(Problem { message, line: Some(line) }) => format!("yaml: line {line}: {message}"),
            LoadError::Repeated(lines) => format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")),
            LoadError::Other(message) => message,
        }
    }
}

impl From<Problem> for LoadError {
    fn from(problem: Problem) -> LoadError {
        LoadError::Problem(problem)
    }
}
