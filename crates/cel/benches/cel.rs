//! The counterpart of conformance/cel/bench: compiles and evaluates the same expressions and prints the same lines.
//! `cargo bench -p ferrokube-cel`; docs/benchmarks-cel.md has both side by side.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use cel::{Arena, Declarations, Environment, Expression, Limits, Mode, Type};
use serde_json::{Value as Json, json};

const BUDGET: Duration = Duration::from_millis(150);
const KEPT: usize = 200;

/// Counts the bytes that are allocated at the moment.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let path = std::env::args().find(|argument| argument.ends_with(".json"));
    let path = path.unwrap_or_else(|| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/cel/bench/expressions.json").to_string()
    });
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let object = value(&file["object"]);
    let environment = Environment::base(Mode::Stored);
    let declarations = Declarations::new().variable_of("object", Type::Dyn);
    for text in file["expressions"].as_array().unwrap() {
        let text = text.as_str().unwrap();
        let compile = || Expression::compile(text, &environment, &declarations).unwrap();
        let compile_ns = measure(|| drop(compile()));
        let program = compile().program.unwrap();
        let mut cost = 0;
        let eval_ns = measure(|| {
            let arena = Arena::new();
            let get = |_: usize| Some(Ok(cel::json(&object)));
            let evaluated = program.evaluate(&get, &arena, Limits::default());
            evaluated.outcome.unwrap();
            cost = evaluated.cost;
        });
        let before = BYTES.load(Ordering::Relaxed);
        let kept: Vec<Expression> = (0..KEPT).map(|_| compile()).collect();
        let bytes = (BYTES.load(Ordering::Relaxed) - before) / KEPT as isize;
        drop(kept);
        println!(
            "{}",
            json!({"expr": text, "compile_ns": compile_ns, "eval_ns": eval_ns, "cost": cost, "bytes": bytes})
        );
    }
}

/// Nanoseconds of one call, the best of five rounds.
fn measure(mut call: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let (mut count, start) = (0_u32, Instant::now());
        while start.elapsed() < BUDGET / 5 {
            (0..8).for_each(|_| call());
            count += 8;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(count));
    }
    best
}

fn value(json: &Json) -> object::Value {
    match json {
        Json::Null => object::Value::Null,
        Json::Bool(b) => (*b).into(),
        Json::Number(n) => n.as_i64().unwrap().into(),
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => object::Value::List(items.iter().map(value).collect()),
        Json::Object(fields) => object::Value::Map(fields.iter().map(|(k, v)| (k.as_str(), value(v))).collect()),
    }
}
