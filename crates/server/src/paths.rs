//! Paths that are not resources: discovery, OpenAPI, keys.

use rest::{Call, Reply};

/// Answers what it knows; None falls through to the 404 at the end of the chain.
#[async_trait::async_trait]
pub trait Paths: Send + Sync + 'static {
    async fn answer(&self, call: &Call) -> Option<Reply>;

    /// The paths to list under `/`.
    fn listed(&self) -> Vec<String>;
}
