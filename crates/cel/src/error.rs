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
    /// cel-go fails itself here, which Kubernetes reports as an internal error.
    Internal(Internal),
}

/// Where cel-go fails itself, with the type of the value in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Internal {
    /// The cost of a call is counted by the items of a value that is not a list; with the first method that it lacks.
    List(&'static str, &'static str),
    /// The cost of a call is counted by a value that is not an int.
    Int(&'static str),
    /// A value that cannot be the key of a map.
    Key(&'static str),
}

impl<'a> From<Internal> for Error<'a> {
    fn from(internal: Internal) -> Error<'a> {
        Error::Cancelled(Cancelled::Internal(internal))
    }
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
        match self {
            Error::Message(message) => f.write_str(message),
            Error::Cancelled(Cancelled::CostLimit) => f.write_str("operation cancelled: actual cost limit exceeded"),
            Error::Cancelled(Cancelled::Interrupted) => f.write_str("operation interrupted"),
            Error::Cancelled(Cancelled::Internal(internal)) => write!(f, "internal error: {internal}"),
        }
    }
}

impl fmt::Display for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Internal::List(name, method) => {
                write!(f, "interface conversion: {name} is not traits.Lister: missing method {method}")
            }
            Internal::Int(name) => write!(f, "interface conversion: ref.Val is {name}, not types.Int"),
            Internal::Key(name) => write!(f, "runtime error: hash of unhashable type {name}"),
        }
    }
}
