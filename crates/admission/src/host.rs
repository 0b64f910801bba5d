//! [`Host`]: what plugins may ask of the server they run in.

use async_trait::async_trait;
pub use cel::library::authorizer::Answer;
use request::Access;

/// The server as plugins see it, besides its objects and its catalog, which are in the request's context.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Whether a user may do something; the authorizer's reason if not, which may be "".
    async fn allows(&self, access: &Access<'_>) -> Result<(), String>;

    /// The same for expressions, which see the authorizer's reason and error too.
    async fn decision(&self, access: &Access<'_>) -> Answer {
        match self.allows(access).await {
            Ok(()) => Answer { allowed: true, ..Answer::default() },
            Err(reason) => Answer { reason, ..Answer::default() },
        }
    }
}
