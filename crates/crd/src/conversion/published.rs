//! Definitions of published projects: their objects are converted by rules as the projects' own functions convert them, which
//! `conformance/conversion` recorded.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use cel::Pool;
use cel::conversion::{ANNOTATION, ConversionRules};
use object::{GroupVersion, Meta, Str, Value};
use registry::Shape;

use super::{proof, rules};
use crate::codec::Schemas;
use crate::definition::openapi_of;

struct PublishedDefinition {
    definition: Value,
    /// Lines with `from`, `to`, `object`, and `converted` or `error`.
    cases: Vec<Value>,
}

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn decoded(text: &[u8]) -> Value {
    codec::json::decode(text, None, &mut codec::Notes::ignore()).unwrap()
}

/// The definitions by name, with their rules.
fn published() -> BTreeMap<String, PublishedDefinition> {
    let mut text = String::new();
    let file = std::fs::File::open(testdata("conversions.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut all: BTreeMap<String, PublishedDefinition> = BTreeMap::new();
    for line in text.lines().map(|line| decoded(line.as_bytes())) {
        if let Some(name) = line.field("definition").as_str() {
            all.get_mut(name).unwrap().cases.push(line);
            continue;
        }
        let mut definition = line.field("definition").clone();
        let name = definition.name().to_string();
        let rules = std::fs::read_to_string(testdata("conversions").join(name.clone() + ".yaml")).unwrap();
        definition.set(&["metadata", "annotations", ANNOTATION], rules.as_str());
        all.insert(name, PublishedDefinition { definition, cases: Vec::new() });
    }
    all
}

/// The value without differences that no reader sees: Go prints zero values of fields that are no pointers, and objects without fields. Texts in
/// annotations that hold JSON are compared as JSON.
fn plain(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.iter_mut().for_each(|(_, value)| plain(value));
            map.retain(|_, value| !value.is_empty());
        }
        Value::List(list) => list.iter_mut().for_each(plain),
        Value::String(text) if text.starts_with('{') => {
            *value = decoded(text.as_bytes());
            plain(value);
        }
        _ => {}
    }
}

fn schemas(definition: &Value) -> Schemas {
    let versions = definition.list_at(&["spec", "versions"]).iter().map(|version| {
        let name = version.str_at(&["name"]);
        let (types, node) = schema::from_openapi(&openapi_of(definition, name), false);
        (Str::from(name), Shape::new(Arc::new(types), node))
    });
    Schemas { versions: versions.collect(), preserve_unknown: false }
}

#[test]
fn published_definitions_are_converted_as_their_webhooks_do() {
    let all = published();
    assert!(!all.is_empty());
    let mut wrong = Vec::new();
    for (name, published) in &all {
        let compiled = ConversionRules::read(&published.definition, &Pool::default()).unwrap();
        let compiled = compiled.unwrap_or_else(|errors| panic!("{name}: {}", errors.aggregate()));
        let schemas = schemas(&published.definition);
        let mut same = 0;
        for case in &published.cases {
            let object = case.field("object");
            let to = GroupVersion::new(published.definition.str_at(&["spec", "group"]), case.str_at(&["to"]));
            let ours = rules::convert(&compiled, &schemas, object, &to);
            let shape = |mut converted: Value| {
                converted.set(&["apiVersion"], to.to_string());
                converted.set(&["kind"], object.kind());
                schemas.prune(&mut converted, &to);
                plain(&mut converted);
                converted
            };
            let is_same = match (&ours, case.get("converted")) {
                (Ok(ours), Some(theirs)) => shape(ours.clone()) == shape(theirs.clone()),
                (ours, theirs) => ours.is_ok() == theirs.is_some(),
            };
            same += usize::from(is_same);
            if !is_same && wrong.len() < 5 {
                let theirs = case.get("converted").cloned().map(shape);
                let ours = ours.map(shape);
                wrong.push(format!(
                    "{name} {} to {to}\n{object:?}\n  theirs {theirs:?}\n  ours   {ours:?}",
                    case.str_at(&["from"])
                ));
            }
        }
        if same != published.cases.len() {
            wrong.push(format!("{name}: {same} of {} the same", published.cases.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The reason of each definition's condition: whether objects that are converted by such rules come back as they were.
#[test]
fn the_proof_says_what_published_conversions_lose() {
    let mut told = String::new();
    for (name, published) in published() {
        let condition = proof::prove(&published.definition).unwrap();
        told.push_str(&format!("{name} {} {}\n", condition.reason, condition.message.split(": ").next().unwrap()));
        assert_eq!(condition.status == "True", condition.reason == "RoundTrips");
    }
    assert_eq!(told, std::fs::read_to_string(testdata("conversion-proofs.txt")).unwrap());
}
