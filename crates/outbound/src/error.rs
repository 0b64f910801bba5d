//! [`Error`]: why a request has no response.

/// Why a request has no response. Each displays what Go's `net/http` says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings of a client cannot be used: certificates, keys, files.
    #[error("{0}")]
    Settings(String),
    /// No connection came about.
    #[error("{0}")]
    Connect(String),
    /// The dialer does not connect to this address, or cannot look it up to decide.
    #[error("{0}")]
    NotAllowed(String),
    /// The connection was lost, or what came over it was no HTTP response.
    #[error("{0}")]
    Exchange(String),
    /// The response's body was lost on its way.
    #[error("{0}")]
    Body(String),
    #[error("context deadline exceeded")]
    Deadline,
    /// The response's body is larger than the caller accepts.
    #[error("the response is larger than {limit} bytes")]
    TooLarge { limit: usize },
}

/// Why a dialer could not connect.
impl From<String> for Error {
    fn from(why: String) -> Error {
        Error::Connect(why)
    }
}
