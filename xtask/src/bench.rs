//! `cargo xtask bench`: ferrokube beside kube-apiserver on etcd and on SQLite, under the same load, in the same run; with
//! `--against <commit>` beside an earlier build of itself; with `fairness` how one user's load affects another user; with `history` what
//! a week of history takes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::components;
use crate::conformance::target_folder;

pub fn run(arguments: &[String]) -> Result<String, String> {
    if let Some(("history", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        let command = ["bench", "--package", "ferrokube-history", "--bench", "week", "--"];
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        crate::test::cargo_run(&[&command[..], &rest].concat())?;
        return Ok("nothing is written; docs/history.md has the figures of one run".into());
    }
    crate::test::cargo_run(&["build", "--release", "--package", "ferrokube-cli", "--package", "ferrokube-bench"])?;
    let release = target_folder().join("release");
    let mut command = Command::new(release.join("bench"));
    command.arg("--ferrokube").arg(release.join("ferrokube"));
    let done = match arguments.split_first() {
        Some((flag, rest)) if flag == "--against" => {
            let (commit, rest) = rest.split_first().ok_or("--against needs a commit")?;
            command.arg("--earlier").arg(build_at(commit)?).args(rest);
            command
                .arg("--versions")
                .arg(format!("{} against {commit}.", first_line("git", &["rev-parse", "--short", "HEAD"])));
            "compared"
        }
        first => {
            let mut tools = components::ensure(&["etcd", "kube-apiserver"])?;
            match components::ensure(&["kine"]) {
                Ok(kine) => tools.extend(kine),
                Err(why) => eprintln!("kine is left out: {why}"),
            }
            for (name, tool) in &tools {
                command.arg(format!("--{name}")).arg(tool);
            }
            command.arg("--versions").arg(versions(&tools)?);
            let (report, rest) = match first {
                Some((name, rest)) if name == "fairness" => {
                    command.arg("--fairness");
                    ("docs/fairness.md", rest)
                }
                _ => ("docs/benchmarks.md", arguments),
            };
            command.arg("--out").arg(root()?.join(report)).args(rest);
            "the report is written to docs"
        }
    };
    let status = command.status().map_err(|error| format!("cannot run the benchmark: {error}"))?;
    if status.success() { Ok(done.into()) } else { Err("the benchmark failed".into()) }
}

fn root() -> Result<&'static Path, String> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask is not inside a workspace".into())
}

/// The server as it was at a commit: built in a checkout of its own, and kept for the next comparison.
fn build_at(commit: &str) -> Result<PathBuf, String> {
    let revision = first_line("git", &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]);
    if revision.is_empty() {
        return Err(format!("{commit} is not a commit"));
    }
    let folder = target_folder().join("against");
    let binary = folder.join(&revision);
    if binary.is_file() {
        return Ok(binary);
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let checkout = folder.join("checkout");
    // What an interrupted comparison left.
    let _ = std::fs::remove_dir_all(&checkout);
    let mut git = Command::new("git");
    succeed(git.current_dir(root()?).args(["worktree", "add", "--force", "--detach"]).arg(&checkout).arg(&revision))?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&checkout).env("CARGO_TARGET_DIR", folder.join("build"));
    let built = succeed(cargo.args(["build", "--release", "--bin", "ferrokube"]));
    succeed(Command::new("git").current_dir(root()?).args(["worktree", "remove", "--force"]).arg(&checkout))?;
    built?;
    let copied = std::fs::copy(folder.join("build/release/ferrokube"), &binary);
    copied.map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok(binary)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {:?}: {error}", command.get_program()))?;
    if status.success() { Ok(()) } else { Err(format!("{:?} failed", command.get_program())) }
}

/// What was compared, and when.
fn versions(tools: &std::collections::BTreeMap<String, PathBuf>) -> Result<String, String> {
    let first = |program: &Path, flag: &str| {
        let output = Command::new(program).arg(flag).output().map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_string())
    };
    let kubernetes = first(&tools["kube-apiserver"], "--version")?;
    let etcd = first(&tools["etcd"], "--version")?;
    let commit = first_line("git", &["rev-parse", "--short", "HEAD"]);
    let date = first_line("date", &["-u", "+%Y-%m-%d"]);
    let kine = tools.get("kine").map(|kine| first(kine, "--version")).transpose()?;
    let kine = kine.map(|kine| format!(" and {kine}")).unwrap_or_default();
    Ok(format!("{kubernetes} with {etcd}{kine}; ferrokube at {commit}; {date}."))
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}
