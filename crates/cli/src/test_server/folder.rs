//! The folder of a test server: keys, certificates and kubeconfigs. It is in memory where the system has such a place, and goes
//! away with the server. What a killed server left is removed by the next one of the same user.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

const PREFIX: &str = "ferrokube-test-";
/// Locked for as long as the server lives.
const LOCK: &str = "lock";
/// Others do not even see which files there are.
const DIRECTORY_MODE: u32 = 0o700;
/// Files here are never written to a disk.
const IN_MEMORY: &str = "/dev/shm";

pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    pub fn make() -> io::Result<Folder> {
        let shared = Path::new(IN_MEMORY);
        let make = |parent: &Path| {
            let for_owner = Permissions::from_mode(DIRECTORY_MODE);
            tempfile::Builder::new().prefix(PREFIX).permissions(for_owner).tempdir_in(parent)
        };
        let (folder, parent) = match make(shared) {
            Ok(folder) => (folder, shared.to_path_buf()),
            Err(_) => {
                let parent = std::env::temp_dir();
                (make(&parent)?, parent)
            }
        };
        remove_left_behind(&parent);
        // It gets its name when it is locked, so that nobody takes this folder for one that was left.
        let (path, unfinished) = (folder.path().join(LOCK), folder.path().join("lock.new"));
        let lock = files::open(&unfinished)?;
        lock.lock()?;
        std::fs::rename(&unfinished, &path)?;
        Ok(Folder { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file that only its owner can read.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.path().join(name);
        files::replace(&path, text.as_bytes()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }
}

/// Removes folders of servers that are gone. What cannot be read or removed is another user's, or is being removed already.
fn remove_left_behind(parent: &Path) {
    let us = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && std::fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir() && about.uid() == us);
        if is_ours && File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_and_those_that_were_left_go_too() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str, with_lock: bool| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            if with_lock {
                std::fs::write(path.join(LOCK), "").unwrap();
            }
            path
        };
        let (left, alive) = (folder("ferrokube-test-left", true), folder("ferrokube-test-alive", true));
        let (beginning, other) = (folder("ferrokube-test-beginning", false), folder("other", true));
        let lock = File::open(alive.join(LOCK)).unwrap();
        lock.lock().unwrap();
        remove_left_behind(parent.path());
        assert_eq!([&left, &alive, &beginning, &other].map(|path| path.exists()), [false, true, true, true]);
        let made = Folder::make().unwrap();
        let path = made.folder.path().to_path_buf();
        assert!(path.join(LOCK).exists());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, DIRECTORY_MODE);
        drop(made);
        assert!(!path.exists());
    }
}
