//! `cargo xtask console`: whether the checked-in pages are what `console/` makes, and the pages in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The browser of the tests, if CHROMIUM names no other.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Checks the pages and tries them with this server. With `--screenshots` it makes the pictures in docs/console instead, with
/// `--figures` it measures what open pages cost.
pub fn run(server: &Path, arguments: &[String]) -> Result<String, String> {
    let script = match arguments {
        [] => "test",
        [one] if one == "--screenshots" => "screenshots",
        [one] if one == "--figures" => "figures",
        _ => return Err("usage: cargo xtask console [--screenshots | --figures]".into()),
    };
    let folder = folder();
    npm(&folder, server, &["ci", "--no-audit", "--no-fund"])?;
    npm(&folder, server, &["run", "check"])?;
    if !browser().exists() {
        return Ok(format!("the pages are what console/ makes; not tried, since {} is not there", browser().display()));
    }
    npm(&folder, server, &["run", script])?;
    Ok("the pages are what console/ makes, and pass their tests".into())
}

/// Whether there is what the check needs at least.
pub fn is_possible() -> bool {
    Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("console")
}

#[allow(clippy::disallowed_methods)]
fn browser() -> PathBuf {
    std::env::var_os("CHROMIUM").map_or(CHROMIUM.into(), PathBuf::from)
}

fn npm(folder: &Path, server: &Path, arguments: &[&str]) -> Result<(), String> {
    let started = Command::new("npm").args(arguments).current_dir(folder).env("FERROKUBE_BINARY", server).status();
    let status = started.map_err(|error| format!("cannot run npm: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("npm {} failed in console", arguments.join(" "))) }
}
