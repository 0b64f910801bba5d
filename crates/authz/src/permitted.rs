//! [`Permitted`]: a call that was authorized.

use std::ops::Deref;

use object::Status;
use request::Access;

use crate::{Authorizer, Decision};

/// A call that its user may make. Only [`authorize`] makes one; it can be read but not changed, so what is carried out is
/// what was authorized.
#[derive(Debug)]
pub struct Permitted<T> {
    call: T,
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

/// A call that was not allowed, and the 403 that says so.
#[derive(Debug)]
pub struct Refused<T> {
    pub call: T,
    pub status: Status,
    /// The authorizer's reason, "" if it gave none.
    pub reason: String,
}

/// Asks the authorizer about a call.
pub async fn authorize<T: Ask>(authorizer: &dyn Authorizer, call: T) -> Result<Permitted<T>, Box<Refused<T>>> {
    let access = call.access();
    match authorizer.decide(&access).await {
        Decision::Allow(reason) => Ok(Permitted { call, reason }),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => {
            let status = access.refusal(&reason);
            Err(Box::new(Refused { status, reason: reason.to_string(), call }))
        }
    }
}

/// Asks the authorizer about something besides the call: nothing, or the 403.
pub async fn check(authorizer: &dyn Authorizer, access: &Access<'_>) -> Result<(), Status> {
    match authorizer.decide(access).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(access.refusal(&reason)),
    }
}
