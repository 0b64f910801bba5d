//! What a real server said to bodies it could not decode, word for word.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod common;

use codec::{Notes, json, yaml};
use object::{GroupVersion, Value};
use schema::builtin;

#[test]
fn refused_bodies_are_refused_in_the_same_words() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for step in steps() {
        let message = step.at(&["expect", "body"]).str_at(&["message"]);
        let Some((kind, want)) = refusal(message) else { continue };
        let Some((body, api_version)) = body_of(&step) else { continue };
        let Some(schema) = builtin().schema(&GroupVersion::parse(&api_version).unwrap().with_kind(kind)) else {
            continue;
        };
        let mut notes = Notes::collect();
        let decoded = match step.str_at(&["contentType"]).contains("yaml") {
            true => yaml::decode(&body, Some(schema), &mut notes),
            false => json::decode(&body, Some(schema), &mut notes),
        };
        let got = match decoded {
            Err(error) => error.to_string(),
            Ok(_) => notes.strict_error().unwrap_or_default(),
        };
        compared += 1;
        if got != want {
            wrong.push(format!("{}\n want {want}\n got  {got}", step.str_at(&["path"])));
        }
    }
    println!("{compared} refusals");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documents_without_a_kind_are_refused_in_the_same_words() {
    for step in steps() {
        let message = step.at(&["expect", "body"]).str_at(&["message"]);
        let Some((_, want)) = message.split_once("): couldn't get version/kind; ") else { continue };
        // Behind it the server shows the beginning of the body.
        let want = format!("couldn't get version/kind; {}", want.rsplit_once(" (").unwrap().0);
        let body = step.str_at(&["raw"]);
        assert_eq!(json::type_meta(body.as_bytes()).unwrap_err().to_string(), want, "{body}");
    }
}

/// The kind and the decoder's words in a message of the server.
fn refusal(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once(" cannot be handled as a ")?;
    let (kind, want) = rest.split_once(": ")?;
    let decoders = want.starts_with("no kind ") || message.starts_with("error ");
    (!decoders).then_some((kind, want))
}

/// The body that was sent and the version it claims. Custom resources are not in the table and are left to others.
fn body_of(step: &Value) -> Option<(Vec<u8>, String)> {
    match (step.field("body"), step.field("raw")) {
        (Value::String(text), _) | (_, Value::String(text)) => {
            let meta = json::type_meta(text.as_bytes()).ok()?;
            Some((text.as_bytes().to_vec(), meta.api_version.to_string()))
        }
        (body @ Value::Map(_), _) => {
            let mut text = Vec::new();
            json::encode(body, None, &mut text);
            Some((text, body.str_at(&["apiVersion"]).to_string()))
        }
        _ => None,
    }
}

fn steps() -> Vec<Value> {
    let cases = facts::current().unwrap().cases().unwrap();
    let steps = cases.iter().flat_map(|case| case["steps"].as_array().unwrap());
    steps.map(|step| json::decode(step.to_string().as_bytes(), None, &mut Notes::ignore()).unwrap()).collect()
}
