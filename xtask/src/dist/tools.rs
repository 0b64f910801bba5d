//! The tools that build for other platforms: zig as C compiler and linker, and cargo-zigbuild, which tells cargo about it. Both are
//! packages for pip, of fixed versions, kept in a cache outside of the tree.

use std::path::PathBuf;
use std::process::Command;

use crate::components;
use crate::conformance::{standard_output, succeed};

/// Programs depend on the compiler that made their C parts, so that releases are made with these versions.
const PACKAGES: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// What PATH has to begin with.
pub fn ensure() -> Result<PathBuf, String> {
    let folder = components::cache()?.join("dist-tools").join(PACKAGES.join("-"));
    let programs = folder.join("bin");
    if programs.join("cargo-zigbuild").is_file() {
        return Ok(programs);
    }
    eprintln!("    {} into {}", PACKAGES.join(", "), folder.display());
    succeed("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let mut pip = Command::new(programs.join("pip"));
    succeed("pip", pip.args(["install", "--quiet", "--only-binary", ":all:"]).args(PACKAGES))?;
    Ok(programs)
}

/// Makes sure that the standard library of a target is there.
pub fn standard_library(triple: &str) -> Result<(), String> {
    let installed =
        standard_output("rustc", Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    if PathBuf::from(installed.trim()).is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    succeed("rustup", rustup.args(["target", "add", triple])).map(drop).map_err(|why| {
        let why = why.lines().last().unwrap_or("").to_string();
        format!("its standard library is not here, and cannot be fetched: {why}")
    })
}
