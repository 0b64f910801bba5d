//! The crates `discovery` and `server` do not depend on each other: here one becomes the other's paths.

use authz::Permitted;
use discovery::Discovery;
use rest::{Body, Call, Reply};
use server::Paths;

/// The server knows discovery only as this.
pub struct DiscoveryPaths(pub Discovery);

#[async_trait::async_trait]
impl Paths for DiscoveryPaths {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        self.0.answer(call).await
    }

    fn listed(&self) -> Vec<String> {
        self.0.listed()
    }
}
