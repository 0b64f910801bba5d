//! Why the past cannot be read or recorded.

use std::path::{Path, PathBuf};

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the past cannot be read or recorded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The asked moment is older than what is kept, or in a time in which nothing was recorded.
    #[error("the history does not reach back to revision {0}")]
    NotKept(i64),
    /// A file does not hold what was written to it.
    #[error("the history file {} is damaged: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage in words.
        what: String,
    },
    /// The operating system refused something.
    #[error("cannot use the history file {}: {what}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        what: String,
    },
    /// The store behind the history failed.
    #[error(transparent)]
    Store(#[from] storage::Error),
    /// The recorder has not recorded the newest changes in time.
    #[error("the history has not recorded revision {0} yet")]
    Behind(i64),
}

impl Error {
    pub(crate) fn damaged(path: &Path, what: impl std::fmt::Display) -> Error {
        Error::Damaged { path: path.into(), what: what.to_string() }
    }

    pub(crate) fn io(path: &Path, what: impl std::fmt::Display) -> Error {
        Error::Io { path: path.into(), what: what.to_string() }
    }
}
