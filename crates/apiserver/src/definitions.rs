//! Starts what serves custom resources.

use std::sync::Arc;

use cache::Budget;
use crd::{Definitions, Followers, Setup};
use outbound::{Resolve, WebhookOptions, Webhooks};
use rest::Api;
use storage::Store;
use tokio::task::JoinSet;

use crate::Config;

/// How many bytes of other encodings of custom resources are kept in memory.
const RENDITION_BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// Puts the stored definitions into the catalog and follows them from then on.
pub async fn start(
    config: &Config,
    api: &Arc<Api>,
    store: &Arc<dyn Store>,
    services: Arc<dyn Resolve>,
    followers: &Followers,
    tasks: &mut JoinSet<()>,
) {
    let setup = Setup {
        api: api.clone(),
        store: store.clone(),
        prefix: config.store.prefix(),
        budget: Budget::new(RENDITION_BUDGET_BYTES),
        webhooks: Arc::new(Webhooks::new(WebhookOptions::direct(services))),
    };
    if let Some(definitions) = Definitions::start(setup, tasks).await {
        followers.connect(&definitions);
        // The cell is empty until here: a server is started once.
        let _ = api.definitions.set(definitions);
    }
}
