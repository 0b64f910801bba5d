//! Putting a store in the place of another one, which is kept under another name.
//!
//! The new store is complete before anything of the old one is moved. Every step leaves the old store, the new one, or files that no
//! server starts on; a server never finds nothing where there was a store.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use storage::Revision;

use crate::disk::sync_directory;
use crate::error::OpenError;
use crate::maintenance::{Report, check, exists};
use crate::repair::{examine, lock};
use crate::wal;

/// The last revision of the store at this path, if there is one; None as well if it cannot be read, and fails if it is in use.
pub fn last_revision(path: &Path) -> Result<Option<Revision>, OpenError> {
    if !exists(path) {
        return Ok(None);
    }
    match check(path) {
        Ok(report) => Ok(Some(report.revision)),
        Err(error @ OpenError::Locked { .. }) => Err(error),
        Err(_) => Ok(examine(path).ok().map(|salvage| salvage.revision())),
    }
}

/// Makes a store with `fill`, under another name, and puts it where `path` is. A store that is there is put aside: its files get a
/// name with `suffix` that no file has.
pub fn replace(
    path: &Path,
    suffix: &str,
    fill: impl FnOnce(&Path) -> Result<Report, OpenError>,
) -> Result<Report, OpenError> {
    // A server that has the store open would go on writing to files that were moved.
    let locked = path.exists().then(|| lock(path)).transpose()?;
    let fresh = files::with_suffix(path, ".replacement");
    remove(&fresh)?;
    let report = fill(&fresh)?;
    let placed = put(path, &fresh, suffix);
    let removed = remove(&fresh);
    drop(locked);
    placed.and(removed).map(|()| report)
}

fn put(path: &Path, fresh: &Path, suffix: &str) -> Result<(), OpenError> {
    let failed = |error: std::io::Error| OpenError::io(path, error);
    if path.exists() {
        let aside = free_name(path, suffix)?;
        std::fs::hard_link(path, &aside).map_err(failed)?;
        // Without its log a store starts only if it was closed in order, and has everything then.
        move_log(path, &aside)?;
        std::fs::rename(fresh, path).map_err(failed)?;
    } else {
        // A link fails if a server made a store meanwhile. The new store does not start beside another one's log.
        std::fs::hard_link(fresh, path).map_err(failed)?;
        if wal::exists(path) {
            move_log(path, &free_name(path, suffix)?)?;
        }
    }
    sync_directory(path)
}

fn move_log(from: &Path, to: &Path) -> Result<(), OpenError> {
    for (from, to) in wal::files(from).iter().zip(wal::files(to)) {
        match std::fs::rename(from, to) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(OpenError::io(from, error)),
            _ => {}
        }
    }
    sync_directory(from)
}

fn free_name(path: &Path, suffix: &str) -> Result<PathBuf, OpenError> {
    let name = files::unused_name(path, suffix, exists);
    name.ok_or_else(|| OpenError::Exists { path: files::with_suffix(path, &format!(".{suffix}")) })
}

fn remove(path: &Path) -> Result<(), OpenError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(OpenError::io(path, error)),
        _ => Ok(()),
    }
}
