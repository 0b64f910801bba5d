//! Why a patch or an apply is refused, and the Status that clients get for it.

use object::{GroupResource, Status};

use crate::apply::Conflict;
use crate::apply::conflict;

/// Why a patch or an apply is refused; texts are upstream's.
#[derive(Debug, PartialEq)]
pub enum Error {
    /// The patch is not formed as its type demands.
    Malformed(String),
    /// The patch has more operations than are carried out.
    TooLarge(String),
    /// The patch does not apply to this object. Upstream does not say why.
    NotApplicable,
    /// Other managers own fields that the apply would change.
    Conflicts(Vec<Conflict>),
    /// Any other failure: upstream passes on its text.
    Failed(String),
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match error {
            Error::Malformed(why) => Status::bad_request(why),
            Error::TooLarge(why) => Status::request_too_large(why),
            Error::NotApplicable => Status::generic(422, "", &GroupResource::default(), "", ""),
            Error::Conflicts(conflicts) => conflict::status(&conflicts),
            Error::Failed(why) => Status::unknown(500, why),
        }
    }
}

impl From<String> for Error {
    fn from(why: String) -> Error {
        Error::Failed(why)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(why) | Error::TooLarge(why) | Error::Failed(why) => f.write_str(why),
            Error::NotApplicable => f.write_str("the patch does not apply to the object"),
            Error::Conflicts(conflicts) => f.write_str(&conflict::message(conflicts)),
        }
    }
}
