//! [`Surroundings`]: what plugins may ask of the server around them.

use async_trait::async_trait;
use object::{GroupVersionKind, GroupVersionResource, Status};
use request::User;

/// What is to be decided about somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub user: User,
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// The server as plugins see it, besides its objects.
#[async_trait]
pub trait Surroundings: Send + Sync + 'static {
    /// Whether somebody may do something; the reason if not, which may be "".
    async fn allows(&self, question: &Question) -> Result<(), String>;

    /// The resource that serves a kind, and whether it is namespaced; None if none does.
    fn mapping(&self, kind: &GroupVersionKind) -> Option<(GroupVersionResource, bool)>;

    /// Creates a namespace; one that is there already is fine.
    async fn make_namespace(&self, name: &str) -> Result<(), Status>;
}
