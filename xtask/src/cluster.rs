//! `cargo xtask cluster`: several servers on an etcd cluster, with faults, and a check of everything they answered.

use std::process::Command;

use crate::components;
use crate::conformance::target_folder;

/// The arguments go to the program, see `crates/cluster`. `--kube-apiserver` runs the same against kube-apiserver, `--mixed`
/// against servers of both kinds on one etcd while definitions, policies and roles change.
pub fn run(arguments: &[String]) -> Result<String, String> {
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let (upstream, mixed) = (given("--kube-apiserver"), given("--mixed"));
    crate::test::cargo_run(&["build", "--release", "--package", "ferrokube-cli", "--package", "ferrokube-cluster"])?;
    let release = target_folder().join("release");
    let wanted: &[&str] = match upstream || mixed {
        true => &["etcd", "porcupine", "kube-apiserver"],
        false => &["etcd", "porcupine"],
    };
    let tools = components::ensure(wanted)?;
    let history = target_folder().join("cluster-history.jsonl");
    let mut command = Command::new(release.join("cluster"));
    if mixed || !upstream {
        command.arg("--server").arg(release.join("ferrokube"));
    }
    if mixed || upstream {
        command.arg("--server").arg(&tools["kube-apiserver"]);
    }
    if mixed {
        command.arg("--extensions");
    }
    command.arg("--etcd").arg(&tools["etcd"]).arg("--history").arg(&history);
    command.args(arguments.iter().filter(|argument| !["--kube-apiserver", "--mixed"].contains(&argument.as_str())));
    // What an earlier run has left must not be taken for this run's.
    let _ = std::fs::remove_file(&history);
    let status = command.status().map_err(|error| format!("cannot run the cluster: {error}"))?;
    if !status.success() {
        return Err("the cluster failed".into());
    }
    if !history.exists() {
        return Ok("done".into());
    }
    let checked = Command::new(&tools["porcupine"]).arg(&history).status();
    match checked.map_err(|error| format!("cannot run porcupine: {error}"))?.success() {
        true => Ok("every answer is explained".into()),
        false => Err("porcupine finds no order that explains the history".into()),
    }
}
