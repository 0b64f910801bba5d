//! A whole server in this process, on a store that fails, and with a time that jumps: for each seed a history of requests, every answer of
//! which is compared with what truly was in the store.
//!
//! One thread runs all tasks of a seed, time passes only when none of them can go on, and everything random follows from the seed: uids and
//! generated names, what clients do, and what goes wrong when. So a seed gives the same history each time, which the first ones prove.
//!
//! ```text
//! cargo test -p ferrokube --test seeds -- --seeds 10000
//! cargo test -p ferrokube --test seeds -- --seeds 1 --seed 7 --show
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)] // A failed assumption is a failed test, in helpers too.

mod client;
mod kinds;
mod model;
mod store;
mod watchers;
mod world;
mod writers;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::Model;
use world::Totals;

const SEEDS: u64 = 200;
/// So many of them are played twice.
const COMPARED: u64 = 5;
/// Lines of the history that a failure shows.
const SHOWN_LINES: usize = 60;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let given = arguments.iter().skip_while(|argument| *argument != name).nth(1);
        given.map_or(default, |number| number.parse().expect("a number"))
    };
    if arguments.first().is_some_and(|filter| !filter.starts_with('-') && !"seeds".contains(filter.as_str())) {
        return;
    }
    let (first, count) = (number("--seed", 0), number("--seeds", SEEDS));
    let shows = arguments.iter().any(|argument| argument == "--show");
    let (next, totals) = (AtomicU64::new(first), Mutex::new(Totals::default()));
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let (lines, one) = run(seed);
            if seed < first + COMPARED {
                compare(seed, &lines, &run(seed).0);
            }
            if shows {
                lines.iter().for_each(|line| println!("{line}"));
            }
            totals.lock().unwrap().add(one);
        }
    };
    std::thread::scope(|scope| {
        (0..lanes).for_each(|_| drop(scope.spawn(work)));
    });
    let totals = totals.into_inner().unwrap();
    println!("{count} seeds from {first}: {totals:?}");
    assert!(count < SEEDS || totals.failed > 0 && totals.events > 0, "too little went wrong: {totals:?}");
}

/// Plays a seed; ends the process if it fails.
fn run(seed: u64) -> (Vec<String>, Totals) {
    let model: Arc<Mutex<Model>> = Arc::default();
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(world::play(seed, model.clone()))
    }));
    let mut model = model.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let lines = std::mem::take(&mut model.lines);
    match played {
        Ok(totals) => (lines, totals),
        Err(_) => {
            lines.iter().rev().take(SHOWN_LINES).rev().for_each(|line| println!("{line}"));
            println!(
                "seed {seed} failed; again: cargo test -p ferrokube --test seeds -- --seeds 1 --seed {seed} --show"
            );
            std::process::exit(1);
        }
    }
}

/// The same seed gives the same history.
fn compare(seed: u64, one: &[String], other: &[String]) {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    let differs = differs.or((one.len() != other.len()).then(|| one.len().min(other.len())));
    if let Some(at) = differs {
        let shown = |lines: &[String]| lines[at.saturating_sub(12)..(at + 3).min(lines.len())].join("\n");
        println!("seed {seed} gave two histories:\n{}\n\n{}", shown(one), shown(other));
        std::process::exit(1);
    }
}
