//! Why a file cannot be opened. Once it is open, errors are `storage::Error`.

use std::path::{Path, PathBuf};

use redb::{DatabaseError, StorageError};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another process", .path.display())]
    Locked { path: PathBuf },
    #[error("{} is damaged or not a store: {message}", .path.display())]
    Corrupt { path: PathBuf, message: String },
    #[error("{} has format {found}, written by a newer version; this one knows formats up to {known}", .path.display())]
    NewerFormat { path: PathBuf, found: i64, known: i64 },
    #[error("{} exists already", .path.display())]
    Exists { path: PathBuf },
    #[error("cannot open {}: {message}", .path.display())]
    Io { path: PathBuf, message: String },
    #[error("cannot write {} on {}: {message}", .path.display(), files::file_system(.path))]
    Write { path: PathBuf, message: String },
}

impl OpenError {
    pub(crate) fn corrupt(path: &Path, message: impl std::fmt::Display) -> Self {
        OpenError::Corrupt { path: path.into(), message: message.to_string() }
    }

    pub(crate) fn io(path: &Path, message: impl std::fmt::Display) -> Self {
        OpenError::Io { path: path.into(), message: message.to_string() }
    }

    pub(crate) fn write(path: &Path, message: impl std::fmt::Display) -> Self {
        OpenError::Write { path: path.into(), message: message.to_string() }
    }

    pub(crate) fn of_database(path: &Path, error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::Locked { path: path.into() },
            DatabaseError::Storage(error) => OpenError::of_storage(path, error),
            other => OpenError::corrupt(path, other),
        }
    }

    /// Errors of tables and transactions, which wrap those of the storage below.
    pub(crate) fn of_redb(path: &Path, error: impl Into<redb::Error>) -> Self {
        match error.into() {
            redb::Error::Io(error) => OpenError::of_storage(path, StorageError::Io(error)),
            redb::Error::PreviousIo => OpenError::io(path, "an earlier read or write failed"),
            other => OpenError::corrupt(path, other),
        }
    }

    /// Whether the file itself is at fault, so that opening it again will not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, OpenError::Corrupt { .. })
    }

    /// The same error, of another file.
    pub(crate) fn at(mut self, other: &Path) -> Self {
        match &mut self {
            OpenError::Locked { path }
            | OpenError::Corrupt { path, .. }
            | OpenError::NewerFormat { path, .. }
            | OpenError::Exists { path }
            | OpenError::Write { path, .. }
            | OpenError::Io { path, .. } => *path = other.into(),
        }
        self
    }

    /// Errors of reading a file that is open.
    pub(crate) fn of_store(path: &Path, error: storage::Error) -> Self {
        match error {
            storage::Error::Corrupt { .. } => OpenError::corrupt(path, error),
            other => OpenError::io(path, other),
        }
    }

    fn of_storage(path: &Path, error: StorageError) -> Self {
        use std::io::ErrorKind::{InvalidData, UnexpectedEof};
        match error {
            // This is how redb reports that the file is not one of its own, or ends too early.
            StorageError::Io(error) if matches!(error.kind(), InvalidData | UnexpectedEof) => {
                OpenError::corrupt(path, error)
            }
            StorageError::Io(error) => OpenError::io(path, error),
            other => OpenError::corrupt(path, other),
        }
    }
}
