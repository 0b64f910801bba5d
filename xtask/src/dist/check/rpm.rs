//! The package for Red Hat's systems, by `rpm` in a clean root: its digests and files; installed with its scripts, started by its unit's command,
//! upgraded with data, erased. The root is Debian's, which has what the scripts call; its packages are unknown to rpm, so that dependencies are
//! only listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::super::contents::{Contents, Pages};
use super::super::platform::Platform;
use super::super::{Release, VERSION, rpm};
use super::deb::{SETTINGS, clean_root, expect};
use super::unit::{Unit, inside};
use super::{namespaces, unit};
use crate::conformance::{Kubectl, Lab, free_port, standard_output, succeed};

pub fn run(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-rpm")?;
    let package = release.folder.join(rpm::name(platform).ok_or("no such package is made for this machine")?);
    let files = check_lists(&package)?;
    let root = lab.folder.join("root");
    succeed("cp", Command::new("cp").arg("-a").arg(clean_root()?).arg(&root))?;
    let began = Instant::now();
    rpm(&root, &["--install"], Some(&package))?;
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

    let later = lab.folder.join("later.rpm");
    fs::write(&later, later_package(release, platform)?).map_err(|error| error.to_string())?;
    rpm(&root, &["--upgrade"], Some(&later))?;
    expect(fs::read_to_string(root.join(SETTINGS)).is_ok_and(|text| text == settings), "an upgrade keeps settings")?;
    expect(root.join("usr/bin/ferrokube").exists(), "an upgrade leaves the program")?;
    let server = unit::start(&mut lab, &root, &unit, port)?;
    Kubectl::of(&server)?.run("get namespace kept")?;
    lab.stop("ferrokube")?;

    rpm(&root, &["--erase", "ferrokube"], None)?;
    expect(data.join("store.redb").is_file(), "erasing the package keeps data")?;
    expect(root.join(format!("{SETTINGS}.rpmsave")).is_file(), "erasing the package keeps changed settings")?;
    expect(!root.join("usr/bin/ferrokube").exists(), "erasing the package removes the program")?;
    Ok(format!("{files} files, {took}; upgraded with data, erased"))
}

/// Whether the package is whole and says what it has, and how many files that is.
fn check_lists(package: &Path) -> Result<usize, String> {
    succeed("rpm --checksig", Command::new("rpm").arg("--checksig").arg(package))?;
    let query = |what: &str| standard_output("rpm", Command::new("rpm").args(["-q", "-p", what]).arg(package));
    let (listed, settings, requires) = (query("--list")?, query("--configfiles")?, query("--requires")?);
    for (list, line) in [
        (&listed, "/usr/bin/ferrokube"),
        (&listed, "/usr/lib/systemd/system/ferrokube.service"),
        (&listed, "/usr/share/man/man1/ferrokube.1.gz"),
        (&settings, "/etc/ferrokube/ferrokube.env"),
        (&requires, "shadow-utils"),
    ] {
        if !list.lines().any(|known| known.trim() == line) {
            return Err(format!("{line} is not in {list}"));
        }
    }
    Ok(listed.lines().count())
}

/// The same package with a higher version.
fn later_package(release: &Release, platform: &Platform) -> Result<Vec<u8>, String> {
    let program = fs::read(release.program(platform)).map_err(|error| error.to_string())?;
    let pages = Pages::of(release)?;
    let architecture = platform.rpm.ok_or("no such package is made for this machine")?;
    rpm::package(&format!("{VERSION}+later"), release.seconds, architecture, &Contents { program, pages: &pages })
}

fn rpm(root: &Path, arguments: &[&str], package: Option<&PathBuf>) -> Result<String, String> {
    let mut command = Command::new("rpm");
    command.arg("--root").arg(root).args(["--dbpath", "/var/lib/rpm", "--nodeps"]).args(arguments).args(package);
    succeed("rpm", &mut command)
}
