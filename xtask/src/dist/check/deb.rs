//! The Debian package in a clean root made by debootstrap: installed, started by its unit's command, upgraded with data, removed, purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::super::contents::{Contents, Pages};
use super::super::platform::Platform;
use super::super::{Release, VERSION, deb};
use super::unit::{Unit, inside};
use super::{namespaces, unit};
use crate::components;
use crate::conformance::{Kubectl, Lab, free_port, succeed};

/// Debian's release, and where its packages are.
const SUITE: [&str; 2] = ["bookworm", "http://deb.debian.org/debian"];
pub(super) const SETTINGS: &str = "etc/ferrokube/ferrokube.env";

pub fn run(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-deb")?;
    let root = lab.folder.join("root");
    succeed("cp", Command::new("cp").arg("-a").arg(clean_root()?).arg(&root))?;
    let package = release.folder.join(deb::name(platform).ok_or("no Debian package is made for this machine")?);
    let began = Instant::now();
    dpkg(&root, &["--install"], Some(&package))?;
    let port = free_port()?;
    let settings = format!("FERROKUBE_FLAGS=\"--secure-port={port}\"\n");
    fs::write(root.join(SETTINGS), &settings).map_err(|error| error.to_string())?;
    let unit = fs::read_to_string(inside(&root, "/usr/lib/systemd/system/ferrokube.service"));
    let unit = Unit::read(&unit.map_err(|error| error.to_string())?);
    let data = unit.data(&root)?;
    let server = unit::start(&mut lab, &root, &unit, port)?;
    let took = namespaces(&server, began)?;
    Kubectl::of(&server)?.run("create namespace kept")?;
    lab.stop("ferrokube")?;

    let later = lab.folder.join("later.deb");
    fs::write(&later, later_package(release, platform)?).map_err(|error| error.to_string())?;
    dpkg(&root, &["--install"], Some(&later))?;
    expect(fs::read_to_string(root.join(SETTINGS)).is_ok_and(|text| text == settings), "an upgrade keeps settings")?;
    let server = unit::start(&mut lab, &root, &unit, port)?;
    Kubectl::of(&server)?.run("get namespace kept")?;
    lab.stop("ferrokube")?;

    let is_whole = || data.join("store.redb").is_file();
    dpkg(&root, &["--remove", "ferrokube"], None)?;
    expect(is_whole() && root.join(SETTINGS).is_file(), "removing the package keeps data and settings")?;
    expect(!root.join("usr/bin/ferrokube").exists(), "removing the package removes the program")?;
    let said = dpkg(&root, &["--purge", "ferrokube"], None)?;
    expect(is_whole() && said.contains("its data was kept"), "purging the package keeps data and says so")?;
    expect(!root.join("etc/ferrokube").exists(), "purging the package removes settings")?;
    Ok(format!("{took}; upgraded with data, removed, purged"))
}

/// The same package with a higher version.
fn later_package(release: &Release, platform: &Platform) -> Result<Vec<u8>, String> {
    let program = fs::read(release.program(platform)).map_err(|error| error.to_string())?;
    let pages = Pages::of(release)?;
    let architecture = platform.deb.ok_or("no Debian package is made for this machine")?;
    deb::package(&format!("{VERSION}+later"), release.seconds, architecture, &Contents { program, pages: &pages })
}

/// A root with Debian's smallest set of packages, made once.
pub(super) fn clean_root() -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "only root can install a package into another root: sudo -E cargo xtask dist --check deb rpm".into()
        );
    }
    let root = components::cache()?.join("dist-roots").join(SUITE[0]);
    if root.join("etc/debian_version").is_file() {
        return Ok(root);
    }
    eprintln!("    debootstrap {}", root.display());
    let partial = root.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    let mut command = Command::new("debootstrap");
    succeed("debootstrap", command.args(["--variant=minbase", SUITE[0]]).arg(&partial).arg(SUITE[1]))?;
    fs::rename(&partial, &root).map_err(|error| error.to_string())?;
    Ok(root)
}

fn dpkg(root: &Path, arguments: &[&str], package: Option<&Path>) -> Result<String, String> {
    let mut command = Command::new("dpkg");
    command.arg("--root").arg(root).args(arguments).args(package).env("DEBIAN_FRONTEND", "noninteractive");
    succeed("dpkg", &mut command)
}

pub(super) fn expect(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("not so: {what}")) }
}
