//! [`Action`]: what a POST does where it does not store the object it brings: bindings, evictions, tokens, reviews.

use async_trait::async_trait;
use object::{Status, Value};

use crate::Context;

/// A resource or subresource that is carried out instead of being stored.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Checks what was sent and completes it, before validating admission sees it.
    async fn check(&self, _call: &mut ActionCall<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Whether it changes what is stored, so that it must be finished even if nobody waits for its answer any more.
    fn writes(&self) -> bool {
        false
    }

    /// Carries out what was admitted, and returns the object to answer with, its apiVersion and kind set.
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status>;
}

/// The request that an action carries out.
pub struct ActionCall<'a> {
    /// The request.
    pub cx: Context<'a>,
    /// The object the action is about; "" for resources that are actions themselves.
    pub name: &'a str,
    /// The object that was sent, in the version of the request, with defaults, after mutating admission.
    pub body: Value,
    /// What [`Action::check`] has found that it is about, and the rest needs.
    pub about: Value,
    /// The request's options.
    pub options: &'a Value,
}

/// Reviews of who may do what. Webhooks and policies never see them: one that refused them could lock all users out.
pub const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];
