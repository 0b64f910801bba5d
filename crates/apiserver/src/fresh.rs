//! A data directory that a start made is removed if the start fails: the next one may be given other flags.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store_path;

/// Removes the directory when the last part of the start that uses it ends, if it was made by this start and is not
/// [kept](Fresh::keep).
pub(crate) struct Fresh {
    made: Option<PathBuf>,
    is_kept: AtomicBool,
}

impl Fresh {
    /// Makes the directory, and its parents, if it does not exist.
    pub fn directory(path: &Path) -> std::io::Result<Arc<Fresh>> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
            files::create_directory(parent)?;
        }
        // Of several processes that start at the same time, one makes it.
        let is_ours = DirBuilder::new().mode(0o700).create(path).is_ok();
        files::create_directory(path)?;
        Ok(Arc::new(Fresh { made: is_ours.then(|| path.to_owned()), is_kept: AtomicBool::new(false) }))
    }

    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let Some(path) = self.made.take().filter(|_| !self.is_kept.load(Ordering::Acquire)) else { return };
        let store = store_path(&path);
        // Another process may have begun to use it meanwhile, or a part of this one that was told to stop still does.
        #[cfg(feature = "embedded")]
        let lock = store.exists().then(|| storage_embedded::lock(&store));
        #[cfg(feature = "embedded")]
        if matches!(lock, Some(Err(_))) {
            return;
        }
        #[cfg(not(feature = "embedded"))]
        if store.exists() {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!(directory = %path.display(), %error, "cannot remove the data directory of a start that failed");
        }
    }
}
