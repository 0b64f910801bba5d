//! What Go's `regexp` answered for generated patterns and texts: `GOREGEX_FACTS=<file> cargo test -p ferrokube-goregex` plays any file of
//! that form (one JSON object a line: `p` the pattern, `e` the error or `t` texts with the ranges of all matches); without it those in `testdata` are played.

#![allow(clippy::disallowed_methods, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use goregex::Regex;
use serde_json::Value;

#[test]
fn answers_are_gos() {
    let path = std::env::var("GOREGEX_FACTS")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/facts.jsonl").to_string());
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let fact: Value = serde_json::from_str(line).unwrap();
        count += 1;
        wrong.extend(check(&fact));
    }
    println!("{count} patterns, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(40)].join("\n"));
}

/// A description of how our answer differs, if it does.
fn check(fact: &Value) -> Option<String> {
    let pattern = fact["p"].as_str().unwrap();
    let regex = match (Regex::new(pattern), fact["e"].as_str()) {
        (Ok(regex), None) => regex,
        (Err(error), Some(want)) if error.to_string() == want => return None,
        (Err(error), want) => return Some(format!("{pattern:?}: {error}, want {want:?}")),
        (Ok(_), Some(want)) => return Some(format!("{pattern:?}: accepted, want {want}")),
    };
    for case in fact["t"].as_array().unwrap() {
        let text = case[0].as_str().unwrap();
        let want: Vec<(usize, usize)> = serde_json::from_value(case[1].clone()).unwrap();
        let found: Vec<(usize, usize)> = regex.find_all(text).map(|range| (range.start, range.end)).collect();
        if found != want {
            return Some(format!("{pattern:?} on {text:?}: {found:?}, want {want:?}"));
        }
        if regex.is_match(text) == want.is_empty() {
            return Some(format!("{pattern:?} on {text:?}: is_match differs from find_all"));
        }
    }
    None
}
