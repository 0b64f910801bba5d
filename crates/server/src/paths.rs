//! Paths that are not resources: discovery, OpenAPI, keys.

use authz::Permitted;
use rest::{Body, Call, Reply};

/// Answers what it knows; None falls through to the 404 at the end of the chain.
#[async_trait::async_trait]
pub trait Paths: Send + Sync + 'static {
    /// May take the body, and with it an upgrade of the connection, if it answers.
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply>;

    /// The paths to list under `/`.
    fn listed(&self) -> Vec<String>;
}
