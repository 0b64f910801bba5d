//! `cargo xtask packages`: packs all crates as `cargo publish` would, and builds and runs the examples of `ferrokube` in a project
//! outside of the repository that has the dependencies which docs/embedding.md names, from what was packed alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::conformance::target_folder;
use crate::dist::workspace;

/// Where the dependencies of a project are listed.
const MANUAL: &str = "docs/embedding.md";

pub fn run(arguments: &[String]) -> Result<String, String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask packages".into());
    }
    let packages = published()?;
    let folder = pack(&packages)?;
    let unpacked = folder.join("unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked).map_err(|error| failed(&unpacked, &error))?;
    }
    for (name, version) in &packages {
        unpack(&folder.join(format!("{name}-{version}.crate")), &unpacked)?;
    }
    let project = std::env::temp_dir().join(format!("ferrokube-outside-{}", std::process::id()));
    let ran = make_project(&project, &unpacked, &packages).and_then(|examples| try_project(&project, &examples));
    let removed = fs::remove_dir_all(&project);
    let ran = ran?;
    removed.map_err(|error| failed(&project, &error))?;
    Ok(format!("{} packages; {} run outside of the repository", packages.len(), ran.join(", ")))
}

/// Names and versions of the packages that are published.
fn published() -> Result<Vec<(String, String)>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(workspace())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let published = packages.iter().filter(|package| package["publish"].is_null());
    Ok(published.map(|package| (text(&package["name"]), text(&package["version"]))).collect())
}

/// Makes the `.crate` files and says where they are.
fn pack(packages: &[(String, String)]) -> Result<PathBuf, String> {
    // Building each of them would take as long as the project below, which builds them all.
    let mut cargo = cargo(&["package", "--quiet", "--no-verify", "--allow-dirty"], workspace());
    cargo.args(packages.iter().flat_map(|(name, _)| ["--package", name.as_str()]));
    finish(cargo, "cargo package")?;
    Ok(target_folder().join("package"))
}

fn unpack(package: &Path, folder: &Path) -> Result<(), String> {
    let file = fs::File::open(package).map_err(|error| failed(package, &error))?;
    tar::Archive::new(GzDecoder::new(file)).unpack(folder).map_err(|error| failed(package, &error))
}

/// Writes a project with a program for each example of the packed `ferrokube`; their names.
fn make_project(project: &Path, unpacked: &Path, packages: &[(String, String)]) -> Result<Vec<String>, String> {
    let programs = project.join("src/bin");
    fs::create_dir_all(&programs).map_err(|error| failed(&programs, &error))?;
    let (_, version) = packages.iter().find(|(name, _)| name == "ferrokube").ok_or("there is no package ferrokube")?;
    let examples = unpacked.join(format!("ferrokube-{version}/examples"));
    let mut names = Vec::new();
    for entry in fs::read_dir(&examples).map_err(|error| failed(&examples, &error))? {
        let path = entry.map_err(|error| failed(&examples, &error))?.path();
        let (Some(name), Some(file)) = (path.file_stem(), path.file_name()) else { continue };
        fs::copy(&path, programs.join(file)).map_err(|error| failed(&path, &error))?;
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    let copy = |name: &str| {
        let (from, to) = (workspace().join(name), project.join(name));
        fs::copy(&from, to).map_err(|error| failed(&from, &error))
    };
    // The versions that the tests of the repository ran with, and what is compiled of them already.
    copy("Cargo.lock")?;
    copy("rust-toolchain.toml")?;
    let manifest = manifest(unpacked, packages)?;
    let path = project.join("Cargo.toml");
    fs::write(&path, manifest).map_err(|error| failed(&path, &error))?;
    Ok(names)
}

fn manifest(unpacked: &Path, packages: &[(String, String)]) -> Result<String, String> {
    let read = |name: &str| {
        let path = workspace().join(name);
        fs::read_to_string(&path).map_err(|error| failed(&path, &error))
    };
    let manual = read(MANUAL)?;
    let dependencies = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let dependencies = dependencies.ok_or_else(|| format!("{MANUAL} lists no dependencies"))?;
    let ours = read("Cargo.toml")?;
    // With the same profile, dependencies that were compiled for the tests are used again.
    let profile = ours.find("[profile.dev]").and_then(|begin| {
        let end = ours[begin..].find("[profile.release]")?;
        Some(&ours[begin..begin + end])
    });
    let mut text = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[workspace]\n\n\
         {dependencies}\n{}\n[patch.crates-io]\n",
        profile.unwrap_or_default()
    );
    for (name, version) in packages {
        let path = unpacked.join(format!("{name}-{version}"));
        text.push_str(&format!("{name} = {{ path = {:?} }}\n", path.display().to_string()));
    }
    Ok(text)
}

fn try_project(project: &Path, examples: &[String]) -> Result<Vec<String>, String> {
    let target = target_folder();
    let mut build = cargo(&["build", "--bins", "--target-dir"], project);
    build.arg(&target);
    finish(build, "the project outside of the repository")?;
    for name in examples {
        finish(Command::new(target.join("debug").join(name)), name)?;
    }
    Ok(examples.to_vec())
}

fn cargo(arguments: &[&str], folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(folder);
    cargo
}

fn finish(mut command: Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{what} cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed")) }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
