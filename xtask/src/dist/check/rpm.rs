//! The package for Red Hat's systems, by `rpm` in an empty root: its digests, its files, and that the program starts. Its scripts need a
//! whole system and are not run.

use std::fs;
use std::process::Command;
use std::time::Instant;

use super::super::platform::Platform;
use super::super::{Release, rpm};
use super::namespaces;
use crate::conformance::{Lab, free_port, standard_output, succeed};

pub fn run(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-rpm")?;
    let package = release.folder.join(rpm::name(platform).ok_or("no such package is made for this machine")?);
    succeed("rpm --checksig", Command::new("rpm").arg("--checksig").arg(&package))?;
    let listed = standard_output("rpm", Command::new("rpm").args(["-q", "-p", "--list"]).arg(&package))?;
    let settings = standard_output("rpm", Command::new("rpm").args(["-q", "-p", "--configfiles"]).arg(&package))?;
    for (list, path) in [
        (&listed, "/usr/bin/ferrokube"),
        (&listed, "/usr/lib/systemd/system/ferrokube.service"),
        (&listed, "/usr/share/man/man1/ferrokube.1.gz"),
        (&settings, "/etc/ferrokube/ferrokube.env"),
    ] {
        if !list.lines().any(|line| line == path) {
            return Err(format!("{path} is not in {list}"));
        }
    }
    let root = lab.folder.join("root");
    fs::create_dir_all(&root).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut install = Command::new("rpm");
    install.arg("--root").arg(&root).args(["--install", "--nodeps", "--noscripts"]).arg(&package);
    succeed("rpm --install", &mut install)?;
    let (data, port) = (lab.folder.join("data"), free_port()?);
    let mut command = Command::new(root.join("usr/bin/ferrokube"));
    command.arg("--data-dir").arg(&data).arg(format!("--secure-port={port}"));
    let server = lab.start(&mut command, &data, port)?;
    let took = namespaces(&server, began)?;
    lab.stop("ferrokube")?;
    Ok(format!("{} files, {took}", listed.lines().count()))
}
