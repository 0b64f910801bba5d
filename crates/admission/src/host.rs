//! [`Host`]: what plugins may ask of the server they run in.

use async_trait::async_trait;
use object::Status;
use request::Access;

/// The server as plugins see it, besides its objects and its catalog, which are in the request's context.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Whether a user may do something; the authorizer's reason if not, which may be "".
    async fn allows(&self, access: &Access<'_>) -> Result<(), String>;

    /// The same with the authorizer's reason in both cases.
    async fn decision(&self, access: &Access<'_>) -> Result<String, String> {
        self.allows(access).await.map(|()| String::new())
    }

    /// Creates a namespace; one that exists already is fine.
    async fn make_namespace(&self, name: &str) -> Result<(), Status>;
}
