//! `cargo xtask bench`: ferrokube beside kube-apiserver and etcd, under the same load, in the same run.

use std::path::Path;
use std::process::Command;

use crate::components;
use crate::conformance::target_folder;

pub fn run(arguments: &[String]) -> Result<String, String> {
    crate::test::cargo_run(&["build", "--release", "--package", "apiserver", "--package", "bench"])?;
    let tools = components::ensure(&["etcd", "kube-apiserver"])?;
    let release = target_folder().join("release");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is not inside a workspace")?;
    let mut command = Command::new(release.join("bench"));
    command.arg("--ferrokube").arg(release.join("ferrokube"));
    command.arg("--kube-apiserver").arg(&tools["kube-apiserver"]).arg("--etcd").arg(&tools["etcd"]);
    command.arg("--out").arg(root.join("docs/benchmarks.md")).arg("--versions").arg(versions(&tools)?);
    let status = command.args(arguments).status().map_err(|error| format!("cannot run the benchmark: {error}"))?;
    if status.success() { Ok("docs/benchmarks.md is written".into()) } else { Err("the benchmark failed".into()) }
}

/// What was compared, and when.
fn versions(tools: &std::collections::BTreeMap<String, std::path::PathBuf>) -> Result<String, String> {
    let first = |program: &Path, flag: &str| {
        let output = Command::new(program).arg(flag).output().map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_string())
    };
    let kubernetes = first(&tools["kube-apiserver"], "--version")?;
    let etcd = first(&tools["etcd"], "--version")?;
    let commit = first_line("git", &["rev-parse", "--short", "HEAD"]);
    let date = first_line("date", &["-u", "+%Y-%m-%d"]);
    Ok(format!("{kubernetes} with {etcd}; ferrokube at {commit}; {date}."))
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}
