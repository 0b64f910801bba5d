//! [`Permitted`]: a call that was authorized.

use std::ops::Deref;

use object::Status;
use request::{Access, User};

use crate::{Authorizer, Decision, Verdict};

/// The reason in the audit log for a call that is permitted in part.
const IN_PART: &str = "only what the user may see";
/// The verb by which a role allows reads of Secrets without their values.
pub const LIST_REDACTED: &str = "list-redacted";

/// A call that its user may make. Only [`authorize`] makes one; it can be read but not changed, so what is carried out is
/// what was authorized.
#[derive(Debug)]
pub struct Permitted<T> {
    call: Box<T>,
    reason: String,
    extent: PermittedExtent,
}

/// How much of what it asks for a call is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermittedExtent {
    Everything,
    /// The objects that its user may see.
    InPart,
    /// Secrets without their values.
    Redacted,
}

impl<T> Permitted<T> {
    /// Whether the call is permitted for the objects that its user may see only, because the user may not see all of them.
    pub fn is_in_part(&self) -> bool {
        self.extent == PermittedExtent::InPart
    }

    /// Whether the call is permitted only if Secrets are shown without their values.
    pub fn is_redacted(&self) -> bool {
        self.extent == PermittedExtent::Redacted
    }

    /// Whether this server alone knows what of the call is permitted.
    pub fn is_limited(&self) -> bool {
        self.extent != PermittedExtent::Everything
    }

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

    /// Whether the call asks for what its user may see, instead of a refusal where that is not everything.
    fn asks_for_visible(&self) -> bool {
        false
    }

    /// Whether the call reads Secrets, so that it can be permitted without their values.
    fn reads_secrets(&self) -> bool {
        false
    }
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
        return Ok(Permitted { call, reason, extent: PermittedExtent::Everything });
    }
    if error.is_none() && call.reads_secrets() {
        let redacted = authorizer.decide(&Access { verb: LIST_REDACTED, ..access }).await;
        if redacted.is_allowed() {
            return Ok(Permitted { call, reason: redacted.reason, extent: PermittedExtent::Redacted });
        }
    }
    // Users who are not authenticated are told nothing, not even that a list is empty.
    if error.is_none() && access.user.is_member(User::AUTHENTICATED) && call.asks_for_visible() {
        return Ok(Permitted { call, reason: IN_PART.to_string(), extent: PermittedExtent::InPart });
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
