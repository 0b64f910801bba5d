//! The conformance tests of google/cel-spec: `CEL_SPEC=<file> cargo test -p ferrokube-cel --release spec` plays what
//! conformance/cel/spec prints. Without the variable there is nothing to play.
//!
//! `testdata/spec-exceptions.txt` lists cases that need a version of a library which Kubernetes does not have (`library`), and
//! those in which cel-go, and so Kubernetes, differs from the specification (`differs`).

#![allow(clippy::disallowed_methods, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

#[path = "facts/tagged.rs"]
#[allow(dead_code)] // The facts use the rest.
mod tagged;

use std::collections::BTreeMap;

use cel::{Arena, Declarations, Environment, Expression, Limits, Type};
use serde_json::Value as Json;
use tagged::{normal, parse, tag, untag};

/// The part of all cases that must agree.
const WANTED: f64 = 0.99;

#[test]
fn spec() {
    let Ok(file) = std::env::var("CEL_SPEC") else { return };
    let text = std::fs::read_to_string(file).unwrap();
    let exceptions: BTreeMap<&str, &str> = include_str!("../testdata/spec-exceptions.txt")
        .lines()
        .filter_map(|line| line.split_once(' ').map(|(why, name)| (name, why)))
        .filter(|(_, why)| *why != "#")
        .collect();
    let (mut all, mut agree) = (0, 0);
    let mut wrong = Vec::new();
    for line in text.lines() {
        let case = exact(&parse(line).unwrap());
        let name = case["name"].as_str().unwrap();
        let exception = exceptions.get(name).copied();
        all += usize::from(exception != Some("library"));
        match (play(&case), exception) {
            (Ok(()), None) => agree += 1,
            (Ok(()), Some(_)) => wrong.push(format!("{name}: agrees, but is listed as an exception")),
            (Err(_), Some(_)) => {}
            (Err(why), None) => wrong.push(format!("{name}: {}: {why}", case["expr"])),
        }
    }
    println!("cel-spec: {agree} of {all} agree, {} exceptions\n{}", exceptions.len(), wrong.join("\n"));
    assert!(agree as f64 >= WANTED * all as f64 && wrong.is_empty(), "{} differ", wrong.len());
}

/// Doubles are written as text in the file, because JSON readers round them.
fn exact(json: &Json) -> Json {
    match json {
        Json::Object(fields) => {
            let field = |(name, value): (&String, &Json)| {
                let number = value.as_str().filter(|_| name == "double").and_then(|text| text.parse::<f64>().ok());
                let number = number.filter(|d| d.is_finite() && (*d != 0.0 || d.is_sign_positive()));
                (name.clone(), number.map_or_else(|| exact(value), Json::from))
            };
            Json::Object(fields.iter().map(field).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(exact).collect()),
        other => other.clone(),
    }
}

fn play(case: &Json) -> Result<(), String> {
    let mut declarations = Declarations::new();
    for (name, ty) in case["types"].as_object().unwrap() {
        declarations = declarations.variable_of(name, named_type(ty.as_str().unwrap()));
    }
    // Cases that declare nothing may still bind.
    for name in case["values"].as_object().unwrap().keys() {
        if case["types"].get(name).is_none() {
            declarations = declarations.variable_of(name, Type::Dyn);
        }
    }
    let wants_error = case.get("error").is_some();
    let compiled = Expression::compile(case["expr"].as_str().unwrap(), &Environment::specification(), &declarations);
    let compiled = match compiled {
        Ok(compiled) => compiled,
        // What the specification finds out when it evaluates may be found out before.
        Err(_) if wants_error => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if let Some(want) = case.get("type").and_then(Json::as_str) {
        let (got, want) = (compiled.ty.declared_name(), named_type(want).declared_name());
        if got != want {
            return Err(format!("type {got}, want {want}"));
        }
    }
    if case.get("check_only").is_some() {
        return Ok(());
    }
    let program = match compiled.program {
        Ok(program) => program,
        Err(_) if wants_error => return Ok(()),
        Err(error) => return Err(error),
    };
    let arena = Arena::new();
    let names: Vec<&str> = declarations.names().collect();
    let get = |at: usize| case["values"].get(names[at]).map(|value| Ok(untag(value, &arena)));
    let evaluated = program.evaluate(&get, &arena, Limits::default());
    match (evaluated.outcome, case.get("value")) {
        (Err(_), None) => Ok(()),
        (Ok(val), Some(want)) => {
            let got = normal(&tag(val, &arena)).to_string();
            let want = normal(want).to_string();
            if got == want { Ok(()) } else { Err(format!("{got}, want {want}")) }
        }
        (Ok(val), None) => Err(format!("{}, want an error", tag(val, &arena))),
        (Err(error), Some(want)) => Err(format!("{error}, want {want}")),
    }
}

fn named_type(name: &str) -> Type {
    let inner = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(items) = inner("list(") {
        return Type::list(named_type(items));
    }
    if let Some(both) = inner("map(") {
        let (key, value) = both.split_once(", ").unwrap();
        return Type::map(named_type(key), named_type(value));
    }
    if let Some(item) = inner("optional(") {
        return Type::optional(named_type(item));
    }
    if let Some(item) = inner("type(") {
        return Type::Type(Some(named_type(item).into()));
    }
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "dyn" => Type::Dyn,
        "null_type" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        other => panic!("unknown type {other}"),
    }
}
