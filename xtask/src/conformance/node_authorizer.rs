//! kube-apiserver and ferrokube on one etcd with a generated cluster: both must let kubelets do the same.

use std::process::Command;

use super::lab::{Lab, TOKEN, succeed, target_folder};
use crate::components;

/// Nothing makes service accounts here.
const BOTH: &str = "--disable-admission-plugins=ServiceAccount";

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    crate::test::cargo_run(&["build", "--package", "ferrokube-difftest", "--bin", "node-authorizer"])?;
    let mut lab = Lab::new("node-authorizer")?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let theirs = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[BOTH])?;
    let ours = lab.ferrokube(&[
        BOTH,
        &format!("--etcd-servers={etcd}"),
        &format!("--token-auth-file={}", lab.tokens()?.display()),
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
    ])?;
    let mut compare = Command::new(target_folder().join("debug/node-authorizer"));
    compare.args([theirs.address(), ours.address(), TOKEN.to_string()]);
    let told = succeed("node-authorizer", &mut compare)?;
    lab.all_alive()?;
    Ok(told.lines().last().unwrap_or("").to_string())
}
