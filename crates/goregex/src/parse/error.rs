use std::fmt;

/// Why a pattern is no regular expression, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// The part of the pattern that is wrong.
    pub part: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    InvalidRange,
    InvalidEscape,
    InvalidNamedCapture,
    InvalidPerlSyntax,
    InvalidRepeat,
    InvalidRepeatCount,
    MissingBracket,
    MissingParenthesis,
    MissingRepeatArgument,
    TrailingBackslash,
    UnexpectedParenthesis,
    TooDeep,
    TooLarge,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, part: &str) -> Error {
        Error { kind, part: part.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.kind.text(), self.part)
    }
}

impl std::error::Error for Error {}

impl ErrorKind {
    fn text(self) -> &'static str {
        match self {
            ErrorKind::InvalidRange => "invalid character class range",
            ErrorKind::InvalidEscape => "invalid escape sequence",
            ErrorKind::InvalidNamedCapture => "invalid named capture",
            ErrorKind::InvalidPerlSyntax => "invalid or unsupported Perl syntax",
            ErrorKind::InvalidRepeat => "invalid nested repetition operator",
            ErrorKind::InvalidRepeatCount => "invalid repeat count",
            ErrorKind::MissingBracket => "missing closing ]",
            ErrorKind::MissingParenthesis => "missing closing )",
            ErrorKind::MissingRepeatArgument => "missing argument to repetition operator",
            ErrorKind::TrailingBackslash => "trailing backslash at end of expression",
            ErrorKind::UnexpectedParenthesis => "unexpected )",
            ErrorKind::TooDeep => "expression nests too deeply",
            ErrorKind::TooLarge => "expression too large",
        }
    }
}
