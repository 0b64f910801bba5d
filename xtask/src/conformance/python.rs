//! The Python client: objects, patches, watches, dynamic access.

use std::path::Path;
use std::process::Command;

use super::lab::{Lab, succeed};

/// The release that goes with the Kubernetes version we serve.
const CLIENT: &str = "kubernetes>=37,<38";

pub fn run() -> Result<String, String> {
    let mut lab = Lab::new("python")?;
    let environment = lab.folder.join("venv");
    succeed("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    succeed("pip install", Command::new(&python).args(["-m", "pip", "install", "--quiet", CLIENT]))?;
    let server = lab.ferrokube(&[])?;
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/python/tour.py");
    succeed("tour.py", Command::new(&python).arg(tour).env("KUBECONFIG", &server.kubeconfig))?;
    Ok("the tour of the Python client went well".into())
}
