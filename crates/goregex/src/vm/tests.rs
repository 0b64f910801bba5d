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

/// Pieces of which patterns are made at random.
const PIECES: [&str; 40] = [
    "a",
    "b",
    "é",
    "k",
    ".",
    "^",
    "$",
    "|",
    "(",
    ")",
    "[",
    "]",
    "[^a]",
    "[a-c]",
    "*",
    "+",
    "?",
    "*?",
    "{2}",
    "{0,3}",
    "{1000}",
    "{1001}",
    "\\d",
    "\\W",
    "\\b",
    "\\B",
    "\\pL",
    "\\p{^Lu}",
    "\\x{10FFFF}",
    "\\777",
    "\\Q",
    "\\E",
    "(?i)",
    "(?s)",
    "(?:",
    "(?P<n>",
    "(?m:",
    "[[:alpha:]]",
    "\\",
    "\n",
];

/// Any pattern on any text: nothing panics, and both engines find the same. `FERROKUBE_FUZZ_SECONDS` sets the time.
#[test]
#[allow(clippy::disallowed_methods)]
fn both_engines_agree_on_random_patterns() {
    let seconds = std::env::var("FERROKUBE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % end as u64) as usize
    };
    let mut compared = 0;
    while std::time::Instant::now() < end {
        let pattern: String = (0..1 + below(8)).map(|_| PIECES[below(PIECES.len())]).collect();
        let text: String = (0..below(8)).map(|_| ["a", "b", "é", "K", "\n", " ", "9", "abc"][below(8)]).collect();
        let Ok((node, _)) = parse(&pattern) else { continue };
        let regex = crate::Regex::new(&pattern).unwrap();
        assert_eq!(Program::new(&node).find_at(&text, 0), regex.find_at(&text, 0), "{pattern:?} on {text:?}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} patterns");
}

/// Patterns that explode elsewhere: they are refused, or compiled and matched within bounds.
#[test]
fn hostile_patterns_are_bounded() {
    let text = "a".repeat(2000);
    for (pattern, want) in [
        ("(a*)*b".to_string(), Some(false)),
        (format!("{}{}", "a?".repeat(500), "a".repeat(500)), Some(true)),
        ("\\pL{1000}".to_string(), Some(true)),
        ("(?:(?:\\pL|\\pN){30}){30}".to_string(), Some(true)),
        ("((a{1000}){1000}){1000}".to_string(), None),
        (format!("{}a{}", "(".repeat(5000), ")".repeat(5000)), None),
        ("x*".repeat(50_000), Some(true)),
        ("[\\pL\\pN]".repeat(1000), Some(true)),
    ] {
        let shown: String = pattern.chars().take(30).collect();
        let matched = crate::Regex::new(&pattern).ok().map(|regex| regex.is_match(&text));
        assert_eq!(matched, want, "{shown}");
    }
}
