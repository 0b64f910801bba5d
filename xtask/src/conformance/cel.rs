//! cel-spec's own tests, read from the published Go module, against crate `cel`.

use std::path::Path;
use std::process::Command;

use super::lab::{standard_output, succeed, target_folder};

pub fn run() -> Result<String, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/cel");
    let go = |args: &[&str]| standard_output("go", Command::new("go").args(args).current_dir(&module));
    go(&["mod", "download", "cel.dev/expr"])?;
    let folder = go(&["list", "-m", "-f", "{{.Dir}}", "cel.dev/expr"])?;
    let cases = go(&["run", "./spec", folder.trim()])?;
    let file = target_folder().join("cel-spec.jsonl");
    std::fs::write(&file, cases).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--package=cel", "--release", "--test=spec", "--", "--nocapture"]).env("CEL_SPEC", &file);
    let said = succeed("the test of cel-spec", &mut test)?;
    said.lines().find(|line| line.starts_with("cel-spec:")).map(str::to_string).ok_or("nothing was played".to_string())
}
