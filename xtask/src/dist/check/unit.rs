//! Runs a unit's command as systemd would, in another root and without systemd: as its user, with its settings and its folder for data,
//! told when it is ready.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::conformance::{Lab, Server, succeed};

/// The settings of a unit's section `[Service]`.
#[derive(Debug)]
pub struct Unit {
    settings: BTreeMap<String, String>,
}

impl Unit {
    pub fn read(text: &str) -> Unit {
        let service = text.split("\n[").find(|section| section.trim_start_matches('[').starts_with("Service]"));
        let lines = service.unwrap_or("").lines().filter(|line| !line.starts_with('#'));
        let settings = lines.filter_map(|line| line.split_once('='));
        Unit { settings: settings.map(|(name, value)| (name.to_string(), value.to_string())).collect() }
    }

    pub fn get(&self, name: &str) -> Result<&str, String> {
        self.settings.get(name).map(String::as_str).ok_or_else(|| format!("the unit has no {name}"))
    }

    /// The program's path and its arguments; `$NAME` stands for several, as systemd has it.
    pub fn command(&self, environment: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
        let words = self.get("ExecStart")?.split_whitespace();
        let words = words.flat_map(|word| match word.strip_prefix('$') {
            Some(name) => {
                let value = environment.get(name).map_or("", String::as_str);
                value.split_whitespace().map(str::to_string).collect()
            }
            None => vec![word.to_string()],
        });
        Ok(words.collect())
    }

    /// What the file of settings sets.
    pub fn environment(&self, root: &Path) -> Result<BTreeMap<String, String>, String> {
        let path = inside(root, self.get("EnvironmentFile")?.trim_start_matches('-'));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        Ok(lines.map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string())).collect())
    }

    /// Where the data is, seen from outside.
    pub fn data(&self, root: &Path) -> Result<PathBuf, String> {
        Ok(root.join("var/lib").join(self.get("StateDirectory")?))
    }
}

/// A path of a root, seen from outside.
pub fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The program is found here, because a command without an environment looks for it in folders where distributions do not have it.
pub fn chroot() -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("chroot")).find(|program| program.is_file());
    Command::new(found.unwrap_or_else(|| "chroot".into()))
}

/// Starts the unit's command in a root, and waits until it has said that it is ready and answers.
pub fn start(lab: &mut Lab, root: &Path, unit: &Unit, port: u16) -> Result<Server, String> {
    let (user, data) = (unit.get("User")?, unit.data(root)?);
    fs::create_dir_all(&data).map_err(|error| error.to_string())?;
    let mode = u32::from_str_radix(unit.get("StateDirectoryMode")?, 8).map_err(|error| error.to_string())?;
    fs::set_permissions(&data, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())?;
    let seen_inside = data.strip_prefix(root).map_err(|error| error.to_string())?;
    let mut chown = chroot();
    chown.arg(root).args(["chown", &format!("{user}:{user}")]).arg(Path::new("/").join(seen_inside));
    succeed("chown", &mut chown)?;
    let name = format!("ferrokube-dist-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).map_err(|error| error.to_string())?;
    let socket = UnixDatagram::bind_addr(&address).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_secs(30))).map_err(|error| error.to_string())?;
    let mut command = chroot();
    command.arg(format!("--userspec={user}:{user}")).arg(root);
    command.args(["/bin/sh", "-c", &format!("umask {}; exec \"$@\"", unit.get("UMask")?), "sh"]);
    command.args(unit.command(&unit.environment(root)?)?).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("NOTIFY_SOCKET", format!("@{name}"));
    let server = lab.start(&mut command, &data, port)?;
    let mut state = [0; 64];
    let length = socket.recv(&mut state).map_err(|error| format!("it did not say that it is ready: {error}"))?;
    match &state[..length] {
        b"READY=1" => Ok(server),
        other => Err(format!("it said {}", String::from_utf8_lossy(other))),
    }
}
