//! An informer of client-go and a watcher of kube-rs have what their user may see, through 10,000 changes of roles and objects.

use std::process::Command;

use super::lab::{Lab, succeed};
use crate::components;

const CHANGES: &str = "10000";

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["authorized"])?;
    let mut lab = Lab::new("authorized")?;
    let server = lab.ferrokube(&[])?;
    let mut informer = Command::new(&tools["authorized"]);
    informer.env("KUBECONFIG", &server.kubeconfig).args(["-changes", CHANGES]);
    succeed("authorized", &mut informer)?;
    let mut watcher = Command::new("cargo");
    watcher.args(["test", "--release", "--package", "ferrokube-clients", "--test", "lists"]);
    watcher.env("FERROKUBE_CHANGES", CHANGES);
    succeed("the watcher of kube-rs", &mut watcher)?;
    Ok(format!("an informer and a watcher were right through {CHANGES} changes each"))
}
