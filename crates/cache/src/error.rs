//! Why a read from the cache fails.

use storage::Revision;

/// Why a cache cannot answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The revision is older than everything that is kept.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired {
        /// The revision that was asked for.
        requested: Revision,
        /// The oldest revision that is kept.
        oldest: Revision,
    },
    /// The revision has not been seen yet and did not arrive in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge {
        /// The revision that was asked for.
        requested: Revision,
        /// The newest revision that was seen.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] storage::Error),
}
