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
    assert!(evaluated.cost <= Limits::PER_CALL || evaluated.outcome.is_err(), "{text} cost {}", evaluated.cost);
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

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.next(of.len())]
    }

    /// A place between two characters.
    fn boundary(&mut self, text: &str) -> usize {
        let mut at = self.next(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.next(if depth == 0 { 7 } else { 9 }) {
            0 => Value::Null,
            1 => (self.next(2) == 0).into(),
            2 => [0, 1, -1, i64::MAX, i64::MIN][self.next(5)].into(),
            3 => [0.5, -0.0, 1e308, 9.3e18][self.next(4)].into(),
            4 => ["", "a", "é😀", "1.2.3", "10.0.0.0/8"][self.next(5)].into(),
            5 => "a".repeat(self.next(300)).into(),
            6 => Value::List((0..self.next(200)).map(|i| Value::from(i as i64)).collect()),
            7 => Value::List((0..self.next(4)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Map((0..self.next(4)).map(|i| (["a", "b", "c", "d"][i], self.value(depth - 1))).collect()),
        }
    }
}

/// Runs a test with random numbers for its part of the time.
fn for_some_time(mut test: impl FnMut(&mut Random) + Send + 'static) {
    #[allow(clippy::disallowed_methods)] // The one setting of these tests.
    let seconds: f64 = std::env::var("FERROKUBE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    on_small_stack(move || {
        let end = Instant::now() + Duration::from_secs_f64(seconds / 2.0);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        while Instant::now() < end {
            test(&mut random);
        }
    });
}

#[test]
fn any_text_is_answered() {
    let object = value!({"a": [1, "b", 2.5, null, {"b": true}], "b": {"c": "é", "d": []}});
    for_some_time(move |random| {
        let length = 1 + random.next(12);
        let text: String = (0..length).map(|_| *random.pick(WORDS)).collect();
        run(&text, &object);
        // Closed brackets make more of them expressions.
        let open = text.matches('(').count().saturating_sub(text.matches(')').count());
        run(&format!("{text}x{}", ")".repeat(open)), &object);
    });
}

/// The expressions of the facts.
fn expressions() -> Vec<String> {
    let text = facts::current().unwrap().cel().unwrap();
    let expr = |line: &str| {
        let fact: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(fact["expr"].as_str()?.replace("self", "x").replace("oldSelf", "object"))
    };
    text.lines().filter_map(expr).collect()
}

#[test]
fn changed_expressions_with_any_value_are_answered() {
    let known = expressions();
    for_some_time(move |random| {
        let (first, second) = (random.pick(&known).clone(), random.pick(&known).clone());
        let (cut, other) = (random.boundary(&first), random.boundary(&second));
        let text = match random.next(5) {
            0 => first,
            1 => format!("{}{}", &first[..cut], &second[other..]),
            2 => format!("{}{}{}", &first[..cut], random.pick(WORDS), &first[cut..]),
            3 => format!("[{first}, {second}].map(y, [y, x]).filter(y, y == x)"),
            _ => format!("x.all(y, ({first}) == ({second}))"),
        };
        run(&text, &random.value(2));
    });
}
