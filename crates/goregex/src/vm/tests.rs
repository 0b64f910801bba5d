//! The recorded answers of Go, played on the virtual machine alone.

use std::ops::Range;

use serde_json::Value;

use super::Program;
use crate::parse::parse;

#[test]
fn answers_are_gos() {
    let text = include_str!("../../testdata/facts.jsonl");
    let mut played = 0;
    for line in text.lines() {
        let fact: Value = serde_json::from_str(line).unwrap();
        let pattern = fact["p"].as_str().unwrap();
        let Ok((node, _)) = parse(pattern) else { continue };
        let program = Program::new(&node);
        for case in fact["t"].as_array().unwrap() {
            let text = case[0].as_str().unwrap();
            let want: Vec<(usize, usize)> = serde_json::from_value(case[1].clone()).unwrap();
            let first = want.first().map(|(start, end)| *start..*end);
            let found: Option<Range<usize>> = program.find_at(text, 0);
            assert_eq!(found, first, "{pattern:?} on {text:?}");
            assert_eq!(program.is_match(text), first.is_some(), "{pattern:?} on {text:?}");
            played += 1;
        }
    }
    assert!(played > 1000, "only {played} cases");
}
