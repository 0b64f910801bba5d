//! The wheel and the npm packages as somebody installs them who wants a server: an empty folder, the package, and `kubectl get namespaces`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::super::Release;
use super::super::languages::{npm_names, wheel_name};
use super::super::platform::Platform;
use super::namespaces;
use crate::conformance::{Lab, free_port, succeed};

pub fn wheel(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-wheel")?;
    let began = Instant::now();
    let venv = lab.folder.join("venv");
    succeed("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    succeed(
        "pip install",
        pip.args(["install", "--quiet", "--no-index"]).arg(release.folder.join(wheel_name(platform))),
    )?;
    serve(&mut lab, &venv.join("bin/ferrokube"), began)
}

pub fn npm(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-npm")?;
    let folder = lab.folder.join("project");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    fs::write(folder.join("package.json"), "{\"private\": true}").map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund", "--silent", "--omit=peer"]);
    succeed("npm install", npm.args(npm_names(platform).map(|name| release.folder.join(name))).current_dir(&folder))?;
    serve(&mut lab, &folder.join("node_modules/.bin/ferrokube"), began)
}

/// Starts what was installed without any other flag than a port, and asks it.
fn serve(lab: &mut Lab, program: &Path, began: Instant) -> Result<String, String> {
    let (data, port) = (lab.folder.join(".ferrokube"), free_port()?);
    let mut command = Command::new(program);
    command.arg(format!("--secure-port={port}")).current_dir(&lab.folder).env_remove("FERROKUBE_BINARY");
    let server = lab.start(&mut command, &data, port)?;
    let took = namespaces(&server, began)?;
    lab.stop("ferrokube")?;
    Ok(took)
}
