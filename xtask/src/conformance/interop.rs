//! A real kube-apiserver and ferrokube on one etcd: objects of every kind written by one are read, changed, watched and
//! listed by the other, both ways.

use std::process::Command;

use super::lab::{Lab, TOKEN, succeed, target_folder};
use crate::components;

/// Neither waits for service accounts, which nobody makes here.
const BOTH: &str = "--disable-admission-plugins=ServiceAccount";

/// Runs all of it; the message says what went both ways.
pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    crate::test::cargo_run(&["build", "--package", "difftest", "--bins"])?;
    let mut lab = Lab::new("interop")?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let theirs = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[BOTH])?;
    let ours = lab.ferrokube(&[
        BOTH,
        &format!("--etcd-servers={etcd}"),
        &format!("--token-auth-file={}", lab.tokens()?.display()),
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
    ])?;
    let mut compare = Command::new(target_folder().join("debug/interop"));
    compare.args([theirs.address(), ours.address(), TOKEN.to_string()]);
    let told = succeed("interop", &mut compare)?;
    lab.all_alive()?;
    Ok(told.lines().last().unwrap_or("").to_string())
}
