//! Crate `cel` beside what the published Go modules say: cel-spec's own tests, the tables of Kubernetes' tests of CEL, and
//! random expressions that Kubernetes' CEL is asked about.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::{standard_output, succeed, target_folder};

/// Random expressions are the same each time.
const SEED: &str = "37";
const RANDOM_FACTS: &str = "10000";

pub fn run() -> Result<String, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/cel");
    let go = |args: &[&str]| {
        let mut command = Command::new("go");
        command.args(args).current_dir(&module);
        command
    };
    standard_output("go", &mut go(&["mod", "download", "cel.dev/expr"]))?;
    let folder = standard_output("go", &mut go(&["list", "-m", "-f", "{{.Dir}}", "cel.dev/expr"]))?;
    let spec = written("cel-spec.jsonl", &mut go(&["run", "./spec", folder.trim()]))?;
    let copies = target_folder().join("cel-tables");
    let copies = copies.to_str().ok_or("the target folder has no name in UTF-8")?;
    let inputs = written("cel-tables-inputs.jsonl", &mut go(&["run", "./tables", copies]))?;
    let inputs = File::open(&inputs).map_err(|error| format!("{}: {error}", inputs.display()))?;
    let tables = written("cel-tables.jsonl", go(&["run", "./facts", "record"]).stdin(inputs))?;
    let random = written("cel-random.jsonl", &mut go(&["run", "./facts", "generate", SEED, RANDOM_FACTS]))?;
    let mut said = Vec::new();
    for (name, test, variable, file) in [
        ("cel-spec", "spec", "CEL_SPEC", spec),
        ("Kubernetes' tables", "facts", "CEL_FACTS", tables),
        ("random expressions", "facts", "CEL_FACTS", random),
    ] {
        said.push(format!("{name}: {}", played(test, variable, &file)?));
    }
    Ok(said.join("; "))
}

/// A file in the target folder with what a command prints.
fn written(name: &str, command: &mut Command) -> Result<PathBuf, String> {
    let file = target_folder().join(name);
    let printed = standard_output("go", command)?;
    std::fs::write(&file, printed).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// The score that a test of the crate prints for a file.
fn played(test: &str, variable: &str, file: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--package=ferrokube-cel", "--release", "--test", test, "--", "--nocapture"])
        .env(variable, file);
    let said = succeed(test, &mut command)?;
    let score = said.lines().find_map(|line| line.strip_prefix("cel-spec: ").or(line.strip_prefix("facts: ")));
    score.map(str::to_string).ok_or_else(|| format!("nothing of {} was played", file.display()))
}
