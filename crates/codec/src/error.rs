//! [`DecodeError`]: why bytes are not an object; [`EncodeError`]: why a value has no such bytes.

use std::fmt;

/// Why bytes could not be decoded, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not a document of the format.
    Syntax(String),
    /// The document is well formed, but does not fit the schema.
    Type(String),
    /// Maps and lists nest more deeply than [`crate::MAX_DEPTH`].
    TooDeep(String),
}

impl DecodeError {
    /// The message, as a client sees it.
    pub fn message(&self) -> &str {
        match self {
            DecodeError::Syntax(message) | DecodeError::Type(message) | DecodeError::TooDeep(message) => message,
        }
    }

    /// The same error with words in front of its message.
    pub fn prefixed(self, prefix: &str) -> DecodeError {
        let with = |message: String| format!("{prefix}{message}");
        match self {
            DecodeError::Syntax(message) => DecodeError::Syntax(with(message)),
            DecodeError::Type(message) => DecodeError::Type(with(message)),
            DecodeError::TooDeep(message) => DecodeError::TooDeep(with(message)),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for DecodeError {}

/// Why a value could not be written. Values that were decoded, or made by rules that keep to the schema, never fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(String);

impl EncodeError {
    pub(crate) fn new(message: impl Into<String>) -> EncodeError {
        EncodeError(message.into())
    }
}
