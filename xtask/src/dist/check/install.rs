//! install.sh, from a local server into an empty home, without the caller's environment; and what it must refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::super::platform::Platform;
use super::super::{Release, seal};
use super::{files, namespaces};
use crate::conformance::{Lab, free_port, succeed};

pub fn run(release: &Release, platform: &Platform) -> Result<String, String> {
    let mut lab = Lab::new("dist-install")?;
    let home = lab.folder.join("home");
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let url = files::serve(&release.folder)?;
    let began = Instant::now();
    succeed("install.sh", &mut installer(&release.folder, &home, &url))?;
    let (data, port) = (home.join(".ferrokube"), free_port()?);
    let mut command = Command::new(home.join(".local/bin/ferrokube"));
    let server = lab.start(command.arg(format!("--secure-port={port}")).current_dir(&home), &data, port)?;
    let took = namespaces(&server, began)?;
    lab.stop("ferrokube")?;
    let refused = refusals(release, platform, &lab.folder)?;
    Ok(format!("{took}; {refused} changed releases were refused"))
}

/// Runs install.sh with nothing but a home.
pub fn installer(folder: &Path, home: &Path, url: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(folder.join("install.sh")).env_clear().current_dir(home);
    command.env("HOME", home).env("PATH", "/usr/local/bin:/usr/bin:/bin").env("FERROKUBE_URL", url);
    command
}

/// Each release with something changed in it must not be installed. Answers with how many there were.
pub fn refusals(release: &Release, platform: &Platform, lab: &Path) -> Result<usize, String> {
    let archive = format!("ferrokube-{}-{}.tar.gz", super::super::VERSION, platform.triple);
    let is_signed = release.folder.join(seal::SIGNATURE).is_file();
    let cases: &[(&str, &[(&str, &str)])] = &[
        (&archive, &[("the program", "is not what SHA256SUMS says")]),
        (seal::SUMS, &[("the sums", "signature")]),
        (seal::SIGNATURE, &[("the signature", "signature")]),
    ];
    let mut refused = 0;
    for (name, changes) in cases {
        if !is_signed && *name != archive {
            continue;
        }
        for (what, why) in *changes {
            let folder = lab.join("changed").join(name);
            let home = copy(&release.folder, &folder, &[&archive, seal::SUMS, seal::SIGNATURE, "install.sh"])?;
            let path = folder.join(name);
            let mut bytes = fs::read(&path).map_err(|error| error.to_string())?;
            // In a signature the last line is signed too, but only minisign looks at it.
            let at = if *name == seal::SIGNATURE {
                bytes.iter().position(|b| *b == b'\n').unwrap_or(0) + 40
            } else {
                bytes.len() / 2
            };
            bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
            fs::write(&path, bytes).map_err(|error| error.to_string())?;
            let said = succeed("install.sh", &mut installer(&folder, &home, &files::serve(&folder)?));
            match said {
                Err(said) if said.contains(why) => refused += 1,
                said => return Err(format!("{what} was changed, and install.sh said {said:?}")),
            }
            if home.join(".local").exists() {
                return Err(format!("{what} was changed, and something was installed"));
            }
        }
    }
    Ok(refused)
}

/// Copies these files of a release, as far as they are there, and makes an empty home beside them.
fn copy(from: &Path, to: &Path, names: &[&str]) -> Result<PathBuf, String> {
    let home = to.join("home");
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    for name in names.iter().filter(|name| from.join(name).is_file()) {
        fs::copy(from.join(name), to.join(name)).map_err(|error| error.to_string())?;
    }
    Ok(home)
}
