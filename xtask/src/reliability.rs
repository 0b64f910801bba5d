//! `reliability`: the embedded store's crash, damage and simulation tests, and those of a whole server from a seed, with the numbers that
//! docs/reliability.md reports.

use std::process::Command;

/// Package, test, and how often what is done to the store.
const RUNS: &[(&str, &str, &str, &str)] = &[
    ("ferrokube-storage-embedded", "crash", "--kills", "1000"),
    ("ferrokube-storage-embedded", "damage", "--damages", "1000"),
    ("ferrokube-storage-embedded", "simulation", "--seeds", "10000"),
    ("ferrokube", "seeds", "--seeds", "10000"),
];

/// The argument is a seed, to repeat a run that failed.
pub fn run(arguments: &[String]) -> Result<String, String> {
    for (package, test, what, count) in RUNS {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--release", "-p", package, "--test", test, "--", what, count]);
        if let Some(seed) = arguments.first() {
            command.args(["--seed", seed]);
        }
        let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{test} failed; its output names the seed"));
        }
    }
    Ok("nothing acknowledged was lost silently, nothing wrong was served".into())
}
