//! What can go wrong in a store: one small enum, the same for every engine.

use std::sync::Arc;

use crate::{Entry, Key, Revision};

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store did not do what it was asked.
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
    Compacted {
        /// The revision that was asked for.
        requested: Revision,
        /// The oldest revision that there is.
        compacted: Revision,
    },
    /// The requested revision has not happened yet.
    #[error("revision {requested} is in the future, the current one is {current}")]
    FutureRevision {
        /// The revision that was asked for.
        requested: Revision,
        /// The newest revision that there is.
        current: Revision,
    },
    /// The value is larger than the engine takes.
    #[error("request of {size} bytes is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The bytes of the request.
        size: usize,
        /// The most that the engine takes.
        limit: usize,
    },
    /// The store cannot do this now. A write that fails so has not happened.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The store has no room for more, with the message of the engine. Reads and deletions work; the write has not happened.
    #[error("{0}")]
    Full(String),
    /// The write has not happened, because it was to be made in one step with another one that was refused.
    #[error("another change that is made in the same step was refused")]
    StepRefused,
    /// The write may or may not have happened. Reading tells which.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// A read, a watch or a health check took too long.
    #[error("storage timed out: {0}")]
    Timeout(String),
    /// What is stored cannot be understood: damaged, or encrypted with a key we do not have. An empty key means that the
    /// damage is not in one entry.
    #[error("stored data is corrupt{}: {message}", at_key(.key))]
    Corrupt {
        /// The key of the entry.
        key: Key,
        /// The damage, for people.
        message: String,
    },
}

impl Error {
    /// The entry that made a precondition fail, if this is such an error.
    pub fn current(&self) -> Option<&Arc<Entry>> {
        match self {
            Error::KeyExists(entry) | Error::Conflict(entry) => Some(entry),
            _ => None,
        }
    }

    /// The store cannot do this now, for this reason.
    pub fn unavailable(cause: impl std::fmt::Display) -> Self {
        Error::Unavailable(cause.to_string())
    }

    /// The value under a key cannot be understood, for this reason.
    pub fn corrupt(key: impl Into<Key>, cause: impl std::fmt::Display) -> Self {
        Error::Corrupt { key: key.into(), message: cause.to_string() }
    }
}

fn at_key(key: &Key) -> String {
    if key.is_empty() { String::new() } else { format!(" at {key}") }
}
