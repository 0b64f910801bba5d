//! A controller author's suite under envtest, unchanged: our binary lies beside etcd under the name envtest looks for.

use std::process::Command;

use super::lab::{Lab, ferrokube, succeed};
use crate::components;

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kubectl", "controller-suite"])?;
    let lab = Lab::new("envtest")?;
    let assets = lab.folder.join("assets");
    std::fs::create_dir_all(&assets).map_err(|error| error.to_string())?;
    for (name, binary) in [("kube-apiserver", &ferrokube()?), ("etcd", &tools["etcd"]), ("kubectl", &tools["kubectl"])]
    {
        std::os::unix::fs::symlink(binary, assets.join(name)).map_err(|error| error.to_string())?;
    }
    let mut suite = Command::new(&tools["controller-suite"]);
    suite.env("KUBEBUILDER_ASSETS", &assets).env_remove("KUBECONFIG").current_dir(&lab.folder);
    suite.arg("-test.v");
    let said = succeed("controller-suite", &mut suite)?;
    let passed = said.lines().filter(|line| line.trim_start().starts_with("--- PASS")).count();
    Ok(format!("{passed} tests of a controller-runtime suite passed"))
}
