//! [`Permitted`]: a call that was authorized.

use std::ops::Deref;

use object::Status;
use request::Access;

use crate::{Authorizer, Decision, Verdict};

/// A call that its user may make. Only [`authorize`] makes one; it can be read but not changed, so what is carried out is
/// what was authorized.
#[derive(Debug)]
pub struct Permitted<T> {
    call: Box<T>,
    reason: String,
}

impl<T> Permitted<T> {
    /// Why the call was allowed, for the audit log.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl<T> Deref for Permitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.call
    }
}

/// What an authorizer can be asked about.
pub trait Ask {
    fn access(&self) -> Access<'_>;
}

/// A call that was not allowed.
#[derive(Debug)]
pub struct Refused<T> {
    pub call: Box<T>,
    pub refusal: Refusal,
}

impl<T> Refused<T> {
    /// The Status that says so where the error has no form of its own.
    pub fn status(self) -> Status {
        match self.refusal {
            Refusal::Forbidden { status, .. } => status,
            Refusal::Failed { error } => Status::internal(error),
        }
    }
}

#[derive(Debug)]
pub enum Refusal {
    /// The 403, and the authorizer's reason, "" if it gave none.
    Forbidden { status: Status, reason: String },
    /// No authorizer allowed the call and at least one could not decide.
    Failed { error: String },
}

/// Asks the authorizer about a call, which is large and moved often and therefore in a box.
pub async fn authorize<T: Ask>(authorizer: &dyn Authorizer, call: Box<T>) -> Result<Permitted<T>, Box<Refused<T>>> {
    let access = call.access();
    let Decision { verdict, reason, error } = authorizer.decide(&access).await;
    if verdict == Verdict::Allow {
        return Ok(Permitted { call, reason });
    }
    let refusal = match error {
        Some(error) => Refusal::Failed { error },
        None => Refusal::Forbidden { status: access.refusal(&reason), reason },
    };
    Err(Box::new(Refused { refusal, call }))
}

/// Asks the authorizer about something besides the call: nothing, or the 403.
pub async fn check(authorizer: &dyn Authorizer, access: &Access<'_>) -> Result<(), Status> {
    authorizer.decide(access).await.allowed().map(drop).map_err(|reason| access.refusal(&reason))
}
