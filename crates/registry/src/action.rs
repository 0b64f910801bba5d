//! [`Action`]: what a POST does where it does not store the object it brings: bindings, evictions, tokens, reviews.

use async_trait::async_trait;
use object::{Status, Value};

use crate::{Admit, Context};

/// A resource or subresource that is carried out instead of being stored.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Carries it out and returns the object to answer with, its apiVersion and kind set.
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status>;
}

/// What an action works with.
pub struct ActionCall<'a> {
    pub cx: Context<'a>,
    /// The object the action is about; "" for resources that are actions themselves.
    pub name: &'a str,
    /// What was sent, in the version of the request, with defaults, after mutating admission.
    pub body: Value,
    /// The request's options.
    pub options: &'a Value,
    pub admit: &'a dyn Admit,
}
