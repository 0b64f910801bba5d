//! Builds the program of a platform so that the same commit gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::archive::sha256;
use super::options::Options;
use super::platform::Platform;
use super::{Release, tools, workspace};
use crate::conformance::{standard_output, succeed, target_folder};

/// Makes the program, or takes the one that was given, and says how.
pub fn program(release: &Release, platform: &Platform, options: &Options) -> Result<String, String> {
    let given = options.binaries.iter().find(|(known, _)| *known == platform);
    let (source, how) = match given {
        Some((_, file)) => (file.clone(), format!("{} was given", file.display())),
        None => build(platform, workspace(), &target_folder(), release)?,
    };
    let target = release.program(platform);
    let folder = target.parent().ok_or("a program without a folder")?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    fs::copy(&source, &target).map_err(|error| format!("{}: {error}", source.display()))?;
    if !options.reproduce {
        return Ok(how);
    }
    Ok(format!("{how}; {}", build_again(release, platform, &target)?))
}

/// Builds once, and says where the program is and how long that took.
fn build(platform: &Platform, sources: &Path, target: &Path, release: &Release) -> Result<(PathBuf, String), String> {
    let began = Instant::now();
    eprintln!("==> {}", platform.triple);
    let mut cargo = command(platform, sources, target)?;
    cargo.args(["--locked", "--package", "ferrokube-cli", "--bin", "ferrokube"]);
    cargo.env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("cargo failed".into());
    }
    let program = target.join(platform.triple).join("release").join("ferrokube");
    Ok((program, format!("built in {} s", began.elapsed().as_secs())))
}

/// Cargo, about to build for a platform as releases are built; the package is left to say.
pub fn command(platform: &Platform, sources: &Path, target: &Path) -> Result<Command, String> {
    let is_native = platform.os == "darwin";
    if is_native && std::env::consts::OS != "macos" {
        return Err("needs Apple's SDK, so that it is made on macOS, as release.yml does".into());
    }
    tools::standard_library(platform.triple)?;
    let mut cargo = Command::new("cargo");
    cargo.arg(if is_native { "build" } else { "zigbuild" });
    if !is_native {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = std::iter::once(tools::ensure()?);
        let path =
            std::env::join_paths(first.chain(std::env::split_paths(&path))).map_err(|error| error.to_string())?;
        cargo.env("PATH", path);
    }
    cargo.args(["--release", "--target", platform.triple]);
    cargo.arg("--target-dir").arg(target).current_dir(sources);
    let (rust, c) = without_paths(sources)?;
    cargo.env("RUSTFLAGS", rust).env(format!("CFLAGS_{}", platform.triple.replace('-', "_")), c);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(cargo)
}

/// Flags for rustc and the C compiler that keep this machine's folders out of the program.
fn without_paths(sources: &Path) -> Result<(String, String), String> {
    let home = cargo_home()?;
    let folders = [(sources, "/ferrokube"), (home.as_path(), "/cargo")];
    let rust = folders.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let c = folders.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    Ok((rust.join(" "), c.join(" ")))
}

#[allow(clippy::disallowed_methods)]
fn cargo_home() -> Result<PathBuf, String> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    given.or_else(home).ok_or_else(|| "there is neither CARGO_HOME nor HOME".to_string())
}

/// Builds the commit again, in a clone in another folder, and compares.
fn build_again(release: &Release, platform: &Platform, first: &Path) -> Result<String, String> {
    let folder = target_folder().join("dist").join("again");
    let _ = fs::remove_dir_all(&folder);
    let sources = folder.join("sources");
    let mut git = Command::new("git");
    succeed("git clone", git.args(["clone", "--quiet", "--no-checkout"]).arg(workspace()).arg(&sources))?;
    let mut git = Command::new("git");
    succeed("git checkout", git.arg("-C").arg(&sources).args(["checkout", "--quiet", &release.commit]))?;
    let (second, _) = build(platform, &sources, &sources.join("target"), release)?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let (first, second) = (sha256(&read(first)?), sha256(&read(&second)?));
    if first != second {
        return Err(format!(
            "the second build differs: {first} and {second}; the programs are in {}",
            folder.display()
        ));
    }
    let _ = fs::remove_dir_all(&folder);
    Ok(format!("reproduced: sha256 {first} twice"))
}

/// Which compiler made the programs.
pub fn compiler() -> Result<String, String> {
    Ok(standard_output("rustc", Command::new("rustc").arg("--version"))?.trim().to_string())
}
