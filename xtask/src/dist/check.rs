//! `cargo xtask dist --check [name…]`: installs what was made as its users would, and tries it.

mod deb;
pub mod files;
mod from_nothing;
mod image;
pub mod install;
pub mod languages;
mod rpm;
pub mod unit;

use std::io::Read;
use std::time::Instant;

use flate2::read::GzDecoder;

use super::Release;
use super::platform::Platform;
use crate::conformance::{Kubectl, Server};

type Check = fn(&Release, &Platform) -> Result<String, String>;

/// What can be checked, and what it needs beside the release.
const CHECKS: &[(&str, Check)] = &[
    ("install", install::run),
    ("deb", deb::run),
    ("rpm", rpm::run),
    ("image", image::run),
    ("wheel", from_nothing::wheel),
    ("npm", from_nothing::npm),
];

/// The packages for test programs.
const SUITES: &[(&str, Check)] = &[
    ("go", languages::go),
    ("python", languages::python),
    ("node", languages::node),
    ("java", languages::java),
    ("envtest", languages::envtest),
];

pub fn run(release: &Release, names: &[String]) -> Result<String, String> {
    let platforms = release.platforms();
    let here = platforms.into_iter().find(|platform| platform.os == "linux" && platform.runs_here());
    let here = here.ok_or("there is nothing to check: `cargo xtask dist` makes it, for this machine too")?;
    carry_out(&[CHECKS, SUITES].concat(), release, here, names)
}

/// The checks of packages for test programs that have these names, or all.
fn some(release: &Release, here: &Platform, names: &[String]) -> Result<String, String> {
    carry_out(SUITES, release, here, names)
}

fn carry_out(checks: &[(&str, Check)], release: &Release, here: &Platform, names: &[String]) -> Result<String, String> {
    if let Some(unknown) = names.iter().find(|name| !checks.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = checks.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no check {unknown}; there are {}", known.join(", ")));
    }
    let mut report = Vec::new();
    let mut failed = false;
    for (name, check) in checks.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name)) {
        eprintln!("==> {name}");
        let began = Instant::now();
        match check(release, here) {
            Ok(said) => report.push(format!("{name}: ok in {} s, {said}", began.elapsed().as_secs())),
            Err(why) => {
                failed = true;
                report.push(format!("{name}: FAILED, {why}"));
            }
        }
    }
    let report = report.join("\n");
    if failed { Err(report) } else { Ok(report) }
}

/// Asks the server for its namespaces and says how long everything took until they were there.
fn namespaces(server: &Server, began: Instant) -> Result<String, String> {
    let said = Kubectl::of(server)?.run("get namespaces -o name")?;
    match said.contains("namespace/kube-system") {
        true => Ok(format!("{:.1} s from nothing to `kubectl get namespaces`", began.elapsed().as_secs_f64())),
        false => Err(format!("namespaces are {said:?}")),
    }
}

pub fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    Ok(plain)
}

/// Names and contents of the files in an archive.
pub fn untar(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut archive = tar::Archive::new(bytes);
    let mut files = Vec::new();
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
        if entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            files.push((path, bytes));
        }
    }
    Ok(files)
}
