//! Files and directories that only their owner can read, files that are replaced atomically, and sockets of the system.
//!
//! The store, its backups, private keys and kubeconfigs hold everything a cluster knows. Files get mode 0600 and
//! directories 0700 whatever the process's umask is; what an earlier version or another program left readable by others
//! is corrected when it is opened, with a line in the log.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// All permissions, with set-uid, set-gid and sticky.
const MODE_BITS: u32 = 0o7777;
const STICKY: u32 = 0o1000;
/// How many names [`unused_name`] tries.
const NUMBERED_MAX: usize = 1_000;
/// What group and others may do.
const OTHERS: u32 = 0o077;

/// Connects to a Unix socket with an abstract name. The stream does not block.
pub fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&abstract_address(name.as_bytes())?)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The address of a Unix socket with an abstract name, which only Linux has.
#[cfg(target_os = "linux")]
pub fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

/// The address of a Unix socket with an abstract name, which only Linux has.
#[cfg(not(target_os = "linux"))]
pub fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(ErrorKind::Unsupported.into())
}

/// Creates a directory and its missing parents with mode 0700. One that exists already is restricted to its owner, unless
/// it is a shared directory such as `/tmp`.
pub fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return restrict_directory(path);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        create_directory(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // Another process created it meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => restrict_directory(path),
        Err(error) => Err(error),
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)),
    }
}

/// Opens a file for reading and writing; creates it with mode 0600 if it does not exist, and restricts it to its owner if
/// it does.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).mode(FILE_MODE).open(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file = options.open(path)?;
            restrict(&file, path)?;
            Ok(file)
        }
        Err(error) => Err(error),
    }
}

/// Replaces a file's contents atomically and durably. The new file has mode 0600; a symbolic link with this name is
/// replaced, not followed.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = File::open(directory_of(path))?;
    // Servers that share a directory replace its files one after the other. Some network file systems have no such locks; there
    // the last one wins.
    if let Err(error) = directory.lock() {
        tracing::debug!(path = %path.display(), %error, "the directory cannot be locked");
    }
    let unfinished = with_suffix(path, ".new");
    // What an interrupted attempt left behind, or a link that leads elsewhere.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` fails on links, so nothing else is written to.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&unfinished)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(contents)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    directory.sync_all()
}

/// Takes the permissions of group and others away from an open file.
pub fn restrict(file: &File, path: &Path) -> io::Result<()> {
    let mode = file.metadata()?.mode() & MODE_BITS;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    warn_restricted(path, mode, FILE_MODE);
    Ok(())
}

/// As [`restrict`], for a file that need not exist and is not opened otherwise. Links are left alone.
pub fn restrict_existing(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => restrict(&File::open(path)?, path),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a new or renamed entry of the path's directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The file system that a path is on, by the place where it is mounted; for messages.
pub fn file_system(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let device = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.dev());
    let existing = absolute.ancestors().skip_while(|path| device(path).is_none());
    let mut mounted = None;
    let mut here = None;
    for place in existing {
        let found = device(place);
        if here.is_some() && found != here {
            break;
        }
        here = found;
        mounted = Some(place);
    }
    format!("the file system mounted at {}", mounted.unwrap_or(Path::new("/")).display())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path with something appended to its last component.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A name beside this path, with something appended, that is not used yet: `a.old`, `a.old-2`, and so on. None if very many are.
pub fn unused_name(path: &Path, suffix: &str, is_used: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let numbered = (2..NUMBERED_MAX).map(|number| with_suffix(path, &format!(".{suffix}-{number}")));
    std::iter::once(with_suffix(path, &format!(".{suffix}"))).chain(numbered).find(|name| !is_used(name))
}

fn restrict_directory(path: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.mode() & MODE_BITS;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 {
        tracing::warn!(directory = %path.display(), "the directory is shared with other users; its mode is not changed");
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)) {
        Ok(()) => warn_restricted(path, mode, DIRECTORY_MODE),
        // It belongs to another user, who decides about it. Files in it have modes of their own.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            tracing::warn!(directory = %path.display(), mode = format!("{mode:04o}"), "other users can read the directory");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn warn_restricted(path: &Path, before: u32, now: u32) {
    let (before, now) = (format!("{before:04o}"), format!("{now:04o}"));
    tracing::warn!(path = %path.display(), before, now, "other users could read this; its mode has been corrected");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & MODE_BITS
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn directories_are_for_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        create_directory(&path).unwrap();
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o700, 0o700));
        for (before, after) in [(0o755, 0o700), (0o750, 0o700), (0o2775, 0o700), (0o500, 0o500), (0o1777, 0o1777)] {
            set_mode(&path, before);
            create_directory(&path).unwrap();
            assert_eq!(mode(&path), after, "was {before:o}");
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(create_directory(&folder.path().join("file")).is_err());
        assert!(create_directory(&folder.path().join("file/below")).is_err());
    }

    #[test]
    fn files_are_for_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        open(&path).unwrap().write_all(b"kept").unwrap();
        assert_eq!(mode(&path), 0o600);
        for (before, after) in [(0o644, 0o600), (0o666, 0o600), (0o640, 0o600), (0o600, 0o600), (0o700, 0o700)] {
            set_mode(&path, before);
            open(&path).unwrap();
            assert_eq!(mode(&path), after, "was {before:o}");
            set_mode(&path, before);
            restrict_existing(&path).unwrap();
            assert_eq!(mode(&path), after, "was {before:o}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        restrict_existing(&folder.path().join("missing")).unwrap();
    }

    #[test]
    fn replacing_does_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("key"), folder.path().join("elsewhere"));
        for _ in 0..2 {
            std::fs::write(&elsewhere, "theirs").unwrap();
            std::os::unix::fs::symlink(&elsewhere, with_suffix(&path, ".new")).unwrap();
            replace(&path, b"ours").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"ours");
            assert_eq!(std::fs::read(&elsewhere).unwrap(), b"theirs");
            assert_eq!(mode(&path), 0o600);
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn many_replace_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| replace(path, format!("{writer}").as_bytes()).unwrap()));
            }
        });
        assert_eq!(std::fs::read(&path).unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
