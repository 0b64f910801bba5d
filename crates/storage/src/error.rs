//! What can go wrong in a store: one small enum, the same for every engine.

use std::sync::Arc;

use crate::{Entry, Key, Revision};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The key was expected to be absent; this is what is there.
    #[error("key {} exists at revision {}", .0.key, .0.mod_revision)]
    KeyExists(Arc<Entry>),
    /// The key was expected at another revision; this is what is there.
    #[error("key {} is at revision {}, not at the expected one", .0.key, .0.mod_revision)]
    Conflict(Arc<Entry>),
    /// The key was expected to be there, and is not.
    #[error("key not found")]
    NotFound,
    /// History no longer reaches back to the requested revision.
    #[error("revision {requested} has been compacted, the oldest available is {compacted}")]
    Compacted { requested: Revision, compacted: Revision },
    /// The requested revision has not happened yet.
    #[error("revision {requested} is in the future, the current one is {current}")]
    FutureRevision { requested: Revision, current: Revision },
    #[error("request of {size} bytes is larger than the limit of {limit} bytes")]
    TooLarge { size: usize, limit: usize },
    /// The store cannot do this now. A write that fails so has not happened.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The store has no room for more, with the message of the engine. Reads and deletions work; the write has not happened.
    #[error("{0}")]
    Full(String),
    /// The write may or may not have happened. Reading tells which.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// A read, a watch or a health check took too long.
    #[error("storage timed out: {0}")]
    Timeout(String),
    /// What is stored cannot be understood: damaged, or encrypted with a key we do not have. An empty key means that the
    /// damage is not in one entry.
    #[error("stored data is corrupt{}: {message}", at_key(.key))]
    Corrupt { key: Key, message: String },
}

impl Error {
    /// The entry that made a precondition fail, if this is such an error.
    pub fn current(&self) -> Option<&Arc<Entry>> {
        match self {
            Error::KeyExists(entry) | Error::Conflict(entry) => Some(entry),
            _ => None,
        }
    }

    pub fn unavailable(cause: impl std::fmt::Display) -> Self {
        Error::Unavailable(cause.to_string())
    }

    pub fn corrupt(key: impl Into<Key>, cause: impl std::fmt::Display) -> Self {
        Error::Corrupt { key: key.into(), message: cause.to_string() }
    }
}

fn at_key(key: &Key) -> String {
    if key.is_empty() { String::new() } else { format!(" at {key}") }
}
