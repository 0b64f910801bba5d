//! Why a read from the cache fails.

use storage::Revision;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The revision is older than everything that is kept.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired { requested: Revision, oldest: Revision },
    /// The revision has not been seen yet and did not arrive in time.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge { requested: Revision, current: Revision },
    #[error(transparent)]
    Store(#[from] storage::Error),
}
