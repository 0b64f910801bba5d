//! [`Permit`]: proof that a request was authorized.

use object::{GroupResource, Status, quote};
use request::{RequestInfo, User};

use crate::{Attributes, Authorizer, Decision};

/// The right to carry out one request. Only [`authorize`] makes one, and carrying out the request uses it up.
#[derive(Debug)]
pub struct Permit {
    reason: String,
}

impl Permit {
    /// Why the request was allowed, for the audit log.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// Asks the authorizer about a request: a permit, or the 403 that clients see.
pub async fn authorize(authorizer: &dyn Authorizer, info: &RequestInfo, user: &User) -> Result<Permit, Status> {
    let attributes = Attributes::of(info, user);
    match authorizer.decide(&attributes).await {
        Decision::Allow(reason) => Ok(Permit { reason }),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refusal(&attributes, &reason)),
    }
}

/// The 403 for a request that was not allowed.
pub fn refusal(attributes: &Attributes, reason: &str) -> Status {
    let resource = GroupResource::new(attributes.group.as_str(), attributes.resource.as_str());
    let mut message = describe(attributes);
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    Status::forbidden(&resource, &attributes.name, message)
}

fn describe(attributes: &Attributes) -> String {
    let user = quote(&attributes.user.name);
    let verb = &attributes.verb;
    if !attributes.is_resource {
        return format!("User {user} cannot {verb} path {}", quote(&attributes.path));
    }
    let resource = match attributes.subresource.as_str() {
        "" => attributes.resource.clone(),
        subresource => format!("{}/{subresource}", attributes.resource),
    };
    let (resource, group) = (quote(&resource), quote(&attributes.group));
    match attributes.namespace.as_str() {
        "" => format!("User {user} cannot {verb} resource {resource} in API group {group} at the cluster scope"),
        namespace => format!(
            "User {user} cannot {verb} resource {resource} in API group {group} in the namespace {}",
            quote(namespace)
        ),
    }
}
