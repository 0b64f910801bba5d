//! The objects that a server creates by itself, and those that it brings back when they are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rest::Api;

/// How often upstream looks after namespaces, flow schemas and priority levels.
const PERIOD: Duration = Duration::from_secs(60);

/// Creates what is missing when the server starts.
pub async fn create(api: &Arc<Api>, authentication: &BTreeMap<String, String>) {
    let failed = bootstrap::run(api, authentication).await;
    if failed > 0 {
        tracing::warn!(failed, "some of the system's own objects could not be created");
    }
}

/// Looks once in a while whether what the system cannot do without is still there.
pub async fn run(api: Arc<Api>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let failed = bootstrap::keep(&api).await;
        if failed > 0 {
            tracing::warn!(failed, "some of the system's own objects could not be brought back");
        }
    }
}
