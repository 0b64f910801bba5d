//! The history in backups: a folder beside the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use object::value;

use super::BEFORE_RESTORE;
use crate::outcome::{Failure, Output};

/// How often a copy is tried while files come and go, or until everything is recorded.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The folder beside a backup.
fn beside(backup: &Path) -> PathBuf {
    files::with_suffix(backup, ".history")
}

/// Refuses a backup whose folder could not be made.
pub fn check_target(target: &Path) -> Result<(), String> {
    let folder = beside(target);
    if target == Path::new("-") {
        return Err("--with-history makes a folder beside the file, so it needs a file".into());
    }
    if folder.exists() { Err(format!("{} exists", folder.display())) } else { Ok(()) }
}

/// Copies the history up to the revision of a backup; says what it copied.
pub fn keep(data_dir: &Path, target: &Path, revision: i64) -> Result<String, Failure> {
    let (source, folder) = (apiserver::history_path(data_dir), beside(target));
    if !source.is_dir() {
        return Err(format!("there is no history in {}", source.display()).into());
    }
    let status = copy(&source, &folder, revision)?;
    Ok(format!("{} written: {} changes, {} bytes", folder.display(), status.changes, status.bytes))
}

/// Copies a history, also while it is recorded.
fn copy(from: &Path, to: &Path, until: i64) -> Result<history::Status, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let failed = |why: &dyn std::fmt::Display| format!("the history was not copied to {}: {why}", to.display());
    runtime.block_on(async {
        for _ in 0..TRIES {
            if let Some(status) = history::copy(from, to, until).map_err(|error| failed(&error))? {
                return Ok(status);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(failed(&format!("it is not recorded up to revision {until}")))
    })
}

/// Puts the history of a backup in place of the one that is there, and lets it go on where the restored store does. Says what it did; None
/// if the backup has none.
pub fn bring_back(source: &Path, data_dir: &Path, backed_up: i64, restored: i64) -> Result<Option<String>, String> {
    let (kept, folder) = (beside(source), apiserver::history_path(data_dir));
    if !kept.is_dir() {
        return Ok(None);
    }
    let fresh = files::with_suffix(&folder, ".replacement");
    let failed = |error: &dyn std::fmt::Display| format!("the history in {} was not restored: {error}", kept.display());
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(|error| failed(&error))?;
    }
    let status = copy(&kept, &fresh, backed_up).map_err(|error| failed(&error))?;
    history::continue_at(&fresh, restored).map_err(|error| failed(&error))?;
    if folder.exists() {
        let aside = files::unused_name(&folder, BEFORE_RESTORE, Path::exists);
        let aside = aside.ok_or_else(|| failed(&"too many folders were put aside"))?;
        std::fs::rename(&folder, &aside).map_err(|error| failed(&error))?;
    }
    let renamed = std::fs::rename(&fresh, &folder).and_then(|()| files::sync_directory(&folder));
    renamed.map_err(|error| failed(&error))?;
    Ok(Some(format!("{} restored: {} changes", folder.display(), status.changes)))
}

/// Reads the history, if there is one.
pub fn check(output: Output, folder: &Path) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Ok(());
    }
    let (changes, wrong) = history::check(folder).map_err(|error| error.to_string())?;
    let shown = folder.display().to_string();
    if wrong.is_empty() {
        let result = value!({"history": (shown.as_str()), "whole": true, "changes": (changes.to_string())});
        output.say(&format!("{shown} is whole: {changes} changes in chunks"), &result);
        return Ok(());
    }
    for error in &wrong {
        let why = error.to_string();
        output.say(&why, &value!({"history": (shown.as_str()), "whole": false, "damage": (why.as_str())}));
    }
    let why = "files of the history are damaged; the server does not need them and serves the rest";
    Err(format!("{} {why}", wrong.len()).into())
}
