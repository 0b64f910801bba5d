//! What the table costs a process. A test of its own, so that nothing else is measured with it.

#![allow(clippy::unwrap_used)] // A test may panic, and its helpers are tests too.

use std::time::Instant;

const MAX_KIB: usize = 10 * 1024;

#[test]
fn the_whole_table_takes_less_than_ten_mebibytes() {
    let Some(before) = resident_kib() else {
        eprintln!("skipped: this system does not tell how much memory a process has");
        return;
    };
    let start = Instant::now();
    let kinds = schema::builtin().kinds().count();
    let took = start.elapsed();
    let cost = resident_kib().unwrap().saturating_sub(before);
    eprintln!("{kinds} kinds in {took:?} and {cost} KiB");
    assert!(cost < MAX_KIB, "{cost} KiB");
}

/// Resident memory of this process, as Linux tells it.
fn resident_kib() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
