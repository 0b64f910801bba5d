//! Disks of their own for members, which can be full.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Cluster;

/// A disk with room; it takes memory only for what is on it.
const ROOMY: &str = "size=2g";
/// A member may write between the look at what is used and the change.
const ATTEMPTS: usize = 20;

impl Cluster {
    /// As [`Cluster::start`], each member with a disk of its own, where this process may mount any.
    pub fn start_with_disks(binary: &Path, count: usize, arguments: &[&str]) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let mut disks = Vec::new();
        for n in 0..count {
            let path = directory.path().join(format!("m{n}"));
            std::fs::create_dir_all(&path).unwrap();
            if run("mount", &["-t", "tmpfs", "-o", ROOMY, "etcd"], &path).is_err() {
                break;
            }
            disks.push(Disk { path });
        }
        let mut cluster = Cluster::start_in(binary, count, arguments, directory);
        cluster.disks = disks;
        cluster
    }

    /// Leaves a member no more room than it has used, or gives it room again; false if it has no disk of its own.
    pub fn set_disk_full(&self, n: usize, is_full: bool) -> Result<bool, String> {
        let Some(disk) = self.disks.get(n) else { return Ok(false) };
        let mut outcome = Ok(String::new());
        for _ in 0..ATTEMPTS {
            let size = if is_full { format!("size={}k", disk.used_kilobytes()?) } else { ROOMY.to_string() };
            outcome = run("mount", &["-o", &format!("remount,{size}")], &disk.path);
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map(|_| true)
    }

    /// Whether a member's process has ended by itself.
    pub fn has_ended(&mut self, n: usize) -> bool {
        let process = self.members[n].process.as_mut();
        process.is_none_or(|process| process.try_wait().is_ok_and(|status| status.is_some()))
    }
}

/// A mounted file system in memory.
pub(super) struct Disk {
    path: PathBuf,
}

impl Disk {
    fn used_kilobytes(&self) -> Result<u64, String> {
        let table = run("df", &["-k", "--output=used"], &self.path)?;
        let used = table.lines().last().and_then(|line| line.trim().parse().ok());
        used.ok_or_else(|| format!("df says {table}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A member that is being killed may still use it.
        let _ = run("umount", &["--lazy"], &self.path);
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<String, String> {
    let output = Command::new(program).args(arguments).arg(path).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
