//! A real kube-apiserver and ferrokube on one etcd: objects of every kind written by one are read, changed, watched and
//! listed by the other, both ways. What they write is encrypted, with another provider for each sort of resource.

use std::process::Command;

use super::lab::{Lab, TOKEN, succeed, target_folder, wait_for};
use crate::components;

/// Neither waits for service accounts, which are not created here.
const BOTH: &str = "--disable-admission-plugins=ServiceAccount";

/// Every provider, by name, by group and for all the rest.
const ENCRYPTION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers: [{aescbc: {keys: [{name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}}]
- resources: [configmaps, '*.batch']
  providers: [{aesgcm: {keys: [{name: two, secret: MTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}}]
- resources: ['*.apps']
  providers: [{secretbox: {keys: [{name: three, secret: MjEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}}]
- resources: ['*.rbac.authorization.k8s.io']
  providers: [{identity: {}}]
- resources: ['*.*']
  providers: [{kms: {apiVersion: v2, name: plugin, endpoint: 'unix://SOCKET'}}]
";

/// Runs all of it; the message says what went both ways.
pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    crate::test::cargo_run(&["build", "--package", "ferrokube-difftest", "--bins"])?;
    let mut lab = Lab::new("interop")?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let socket = lab.log("kms").with_extension("sock");
    let mut plugin = Command::new(target_folder().join("debug/kms-plugin"));
    lab.spawn("kms-plugin", plugin.arg(&socket))?;
    wait_for("the key management plugin", || Ok(socket.exists()))?;
    let config = lab.log("encryption").with_extension("yaml");
    std::fs::write(&config, ENCRYPTION.replace("SOCKET", &socket.to_string_lossy()))
        .map_err(|error| error.to_string())?;
    let encryption = format!("--encryption-provider-config={}", config.display());
    let theirs = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[BOTH, &encryption])?;
    let ours = lab.ferrokube(&[
        BOTH,
        &encryption,
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
