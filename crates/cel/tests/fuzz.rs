//! Any text to the parser, and any expression that parses with any value to the checker and the evaluator: nothing panics,
//! and nothing exhausts the stack of a small thread.

#![allow(clippy::unwrap_used, clippy::panic)] // A failed assumption is a failed test.

use std::time::{Duration, Instant};

use cel::{Arena, Declarations, Environment, Expression, Limits, Mode, Type};
use object::{Value, value};

/// The stack of a worker thread.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Compiles an expression and evaluates it if it compiles.
fn run(text: &str, object: &Value) {
    let declarations = Declarations::new().variable_of("object", Type::Dyn).variable_of("x", Type::Dyn);
    let Ok(expression) = Expression::compile(text, &Environment::base(Mode::Stored), &declarations) else { return };
    let Ok(program) = expression.program else { return };
    let arena = Arena::new();
    let evaluated = program.evaluate(&|_: usize| Some(Ok(cel::json(object))), &arena, Limits::default());
    assert!(evaluated.cost <= 4 * Limits::PER_CALL, "{text} cost {}", evaluated.cost);
}

fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test).unwrap().join().unwrap();
}

#[test]
fn nesting_to_the_limit_fits_a_small_stack() {
    let nested = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    for count in [50, 80, 120, 124, 240, 249, 250, 260] {
        for (open, middle, close) in [
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{'a': ", "1", "}"),
            ("dyn(", "x", ")"),
            ("x[", "0", "]"),
            ("1 + (", "1", ")"),
            ("1 == (", "1", ")"),
            ("!(", "true", ")"),
            ("-(", "1", ")"),
            ("true && (", "true", ")"),
            ("false || (true && (", "true", "))"),
            ("true ? (", "1", ") : 2"),
            ("[1].map(y, ", "y", ")"),
            ("[1].all(y, ", "true", ")"),
            ("[1].exists_one(i, v, ", "true", ")"),
            ("{'a': 1}.transformMap(k, v, ", "v", ")"),
            ("optional.of(1).optMap(y, ", "y", ")"),
            ("[1].sortBy(y, ", "y", ")"),
            ("", "x", ".a"),
            ("", "x", ".?a"),
            ("", "x", "[0]"),
            ("", "1", " + 1"),
            ("", "'a'", ".size()"),
        ] {
            let text = nested(open, middle, close, count);
            on_small_stack(move || run(&text, &value!({"a": [1]})));
        }
    }
}

/// Parts that expressions are made of.
const WORDS: &[&str] = &[
    "x",
    "object",
    "1",
    "0",
    "-1",
    "9223372036854775807",
    "1u",
    "1.5",
    "'a'",
    "b'a'",
    "''",
    "true",
    "false",
    "null",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    ".?",
    "[?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "&&",
    "||",
    "!",
    "has(",
    "size(",
    "dyn(",
    "type(",
    "int(",
    "string(",
    "duration('1h')",
    "timestamp('2024-01-01T00:00:00Z')",
    ".all(y, ",
    ".map(y, ",
    ".filter(y, ",
    ".exists(y, ",
    ".exists_one(y, ",
    ".transformMap(k, v, ",
    ".transformList(i, v, ",
    ".sortBy(y, ",
    ".optMap(y, ",
    "optional.of(",
    ".orValue(",
    ".size()",
    ".matches('a+')",
    ".split(',')",
    ".join(',')",
    ".replace('a', 'b')",
    ".format([1])",
    "lists.range(3)",
    ".flatten()",
    ".distinct()",
    ".sum()",
    ".max()",
    "quantity('1Gi')",
    "ip('::1')",
    "cidr('10.0.0.0/8')",
    "url('http://a')",
    "semver('1.2.3')",
    "sets.contains(",
    ".find('a')",
    ".a",
    ".b",
    "y",
    "k",
    "v",
    "é",
    "`",
    "'",
    "\"",
    "\\",
    "\n",
    "//",
    "r'\\'",
    "'''",
    "0x",
    "$",
];

#[test]
fn any_text_is_answered() {
    #[allow(clippy::disallowed_methods)] // The one setting of this test.
    let seconds = std::env::var("FERROKUBE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    on_small_stack(move || {
        let end = Instant::now() + Duration::from_secs(seconds);
        let object = value!({"a": [1, "b", 2.5, null, {"b": true}], "b": {"c": "é", "d": []}});
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % bound as u64) as usize
        };
        while Instant::now() < end {
            let length = 1 + next(12);
            let text: String = (0..length).map(|_| WORDS[next(WORDS.len())]).collect();
            run(&text, &object);
            // Closed brackets make more of them expressions.
            let open = text.matches('(').count().saturating_sub(text.matches(')').count());
            run(&format!("{text}x{}", ")".repeat(open)), &object);
        }
    });
}
