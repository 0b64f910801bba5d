//! Every function with arguments of every type: none panics. `FERROKUBE_FUZZ_SECONDS` sets the time.

use std::time::{Duration, Instant};

use super::{Call, libraries};
use crate::arena::Arena;
use crate::time::Time;
use crate::val::{List, Map, Val};

const TEXTS: [&str; 36] = [
    "",
    "a",
    "é",
    "日本語",
    "%s",
    "%.99999999999f",
    "%d %x %o %b %e",
    "%",
    "%.3",
    "%é",
    "(a*)*b",
    "[",
    "\\",
    "http://[::1]:80/a?b=c#d",
    "http://h/%zz",
    "//",
    "?",
    "::ffff:1.2.3.4",
    "fe80::1%eth0",
    "1.2.3.4",
    "10.0.0.0/8",
    "::/0",
    "1.2.3.4/33",
    "/",
    "1.2.3",
    "v01.2",
    "1.2.3-rc.1+b",
    "-",
    "1Ki",
    "1e999",
    "0.0000000001",
    "dns1123Label",
    "2026-01-01T00:00:00Z",
    "Europe/Berlin",
    "1h",
    "\u{10ffff}\0",
];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn int(&mut self) -> i64 {
        [0, 1, -1, 2, 3, 7, 100, 1000, i64::MAX, i64::MIN, 1_000_001][self.below(11)]
    }

    fn val<'a>(&mut self, depth: u32, arena: &'a Arena) -> Val<'a> {
        match self.below(if depth == 0 { 10 } else { 14 }) {
            0 => Val::Null,
            1 => Val::Bool(self.below(2) == 0),
            2 => Val::Int(self.int()),
            3 => Val::Uint(self.int() as u64),
            4 => Val::Double([0.0, -0.0, 1.5, -1e300, f64::NAN, f64::INFINITY, 5e-324][self.below(7)]),
            5 => Val::Duration(self.int()),
            6 => Val::Timestamp(Time::parse("2026-02-28T23:59:59.999999999+14:00").unwrap()),
            7 => Val::Bytes(b"\xff\x00a"),
            8 | 9 => Val::String(TEXTS[self.below(TEXTS.len())]),
            10 => Val::Map(Map::new(vec![(Val::String("k"), self.val(depth - 1, arena))], arena)),
            11 => Val::Optional(Some(arena.copy(self.val(depth - 1, arena)))),
            _ => {
                let items: Vec<Val<'a>> = (0..self.below(4)).map(|_| self.val(depth - 1, arena)).collect();
                Val::List(List::Slice(arena.slice(&items)))
            }
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn no_argument_makes_a_function_panic() {
    let seconds = std::env::var("FERROKUBE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let end = Instant::now() + Duration::from_secs(seconds);
    let overloads: Vec<_> = libraries().iter().flat_map(|library| library.overloads).collect();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut calls = 0;
    while Instant::now() < end {
        let arena = Arena::new();
        // Results become arguments, so that values of library types are met too.
        let mut made: Vec<Val<'_>> = Vec::new();
        for _ in 0..200 {
            let overload = overloads[random.below(overloads.len())];
            let args: Vec<Val<'_>> = overload
                .args
                .iter()
                .map(|_| match random.below(3) {
                    0 if !made.is_empty() => made[random.below(made.len())],
                    _ => random.val(2, &arena),
                })
                .collect();
            let outcome = match overload.call {
                Call::Plain(function) | Call::Any(function) => function(&args, &arena),
                Call::Regex(function) => match args.get(1) {
                    Some(Val::String(pattern)) => {
                        arena.regex(pattern).and_then(|regex| function(&regex, &args, &arena))
                    }
                    _ => continue,
                },
                Call::Builtin => continue,
            };
            calls += 1;
            // Values that grew are not fed back, so that a round stays small.
            made.extend(outcome.ok().filter(|val| val.size() < 1000));
        }
    }
    assert!(calls > 1000, "only {calls} calls");
}
