//! Why an evaluation has no value.

use std::fmt;

use crate::val::Val;

/// A value, or why there is none.
pub type Outcome<'a, T = Val<'a>> = Result<T, Error<'a>>;

/// Why an expression, or a part of it, has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<'a> {
    /// An error that `||`, `&&` and `?:` may absorb.
    Message(&'a str),
    /// The evaluation was stopped; nothing absorbs this.
    Cancelled(Cancelled),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The expression costs more than one evaluation may.
    CostLimit,
    /// The deadline has passed.
    Interrupted,
}

impl<'a> Error<'a> {
    pub const fn new(message: &'a str) -> Error<'a> {
        Error::Message(message)
    }

    /// The arguments have types no overload of the function takes.
    pub const NO_SUCH_OVERLOAD: Error<'static> = Error::new("no such overload");
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Message(message) => message,
            Error::Cancelled(Cancelled::CostLimit) => "operation cancelled: actual cost limit exceeded",
            Error::Cancelled(Cancelled::Interrupted) => "operation interrupted",
        })
    }
}
