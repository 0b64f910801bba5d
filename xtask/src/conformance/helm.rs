//! Helm installs, upgrades, rolls back and uninstalls a chart.

use std::process::Command;

use super::lab::{Lab, succeed};
use crate::components;

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["helm", "helm-tour", "kubectl"])?;
    let mut lab = Lab::new("helm")?;
    let server = lab.ferrokube(&[])?;
    let mut tour = Command::new(&tools["helm-tour"]);
    tour.env("KUBECONFIG", &server.kubeconfig).arg("-helm").arg(&tools["helm"]);
    succeed("helm-tour", &mut tour)?;
    Ok("a chart was installed, upgraded, rolled back and uninstalled".into())
}
