//! Requests that one request is made of.

use futures::future::BoxFuture;

use crate::{Body, Call, Reply};

/// Carries out requests that a request of a user is made of, each as if its user had sent it alone: with an audit record of its own, and
/// authorized.
pub trait CarryOut: Send + Sync {
    /// The call says who the user is; the caller has taken it from its own call.
    fn carry_out(&self, call: Box<Call>, body: Body) -> BoxFuture<'static, Reply>;
}
