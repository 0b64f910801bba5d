//! `cargo xtask cluster`: several servers on an etcd cluster, with faults, and a check of everything they answered.

use std::process::Command;

use crate::components;
use crate::conformance::target_folder;

/// The arguments go to the program, see `crates/cluster`; `--kube-apiserver` runs the same against kube-apiserver.
pub fn run(arguments: &[String]) -> Result<String, String> {
    crate::test::cargo_run(&["build", "--release", "--package", "apiserver", "--package", "cluster"])?;
    let release = target_folder().join("release");
    let upstream = arguments.iter().any(|argument| argument == "--kube-apiserver");
    let tools = components::ensure(if upstream { &["etcd", "kube-apiserver"] } else { &["etcd"] })?;
    let server = if upstream { tools["kube-apiserver"].clone() } else { release.join("ferrokube") };
    let mut command = Command::new(release.join("cluster"));
    command.arg("--server").arg(server).arg("--etcd").arg(&tools["etcd"]);
    command.args(arguments.iter().filter(|argument| *argument != "--kube-apiserver"));
    let status = command.status().map_err(|error| format!("cannot run the cluster: {error}"))?;
    if status.success() { Ok("every answer is explained".into()) } else { Err("the cluster failed".into()) }
}
