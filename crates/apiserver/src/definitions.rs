//! Starts what serves custom resources, and then the aggregator, which registers them.

use std::sync::Arc;

use aggregator::Aggregator;
use cache::Budget;
use crd::{ConversionMeters, Definitions, Followers, Setup};
use outbound::{WebhookOptions, Webhooks};
use storage::Store;
use tokio::task::JoinSet;

use crate::Config;
use crate::admission::Host;

/// How many bytes of other encodings of custom resources are kept in memory.
const RENDITION_BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// Puts the stored definitions into the catalog and follows them from then on.
pub async fn start(
    config: &Config,
    aggregator: &Arc<Aggregator>,
    store: &Arc<dyn Store>,
    webhooks: WebhookOptions,
    (followers, meters, host): (&Followers, Arc<ConversionMeters>, &Host),
    tasks: &mut JoinSet<()>,
) {
    let api = aggregator.api();
    let registrar = aggregator.clone();
    let budget = Budget::new(RENDITION_BUDGET_BYTES);
    tasks.spawn(budget.drop_unused());
    let setup = Setup {
        api: api.clone(),
        versions: Arc::new(move |name, versions| registrar.set_definition(name, versions)),
        store: store.clone(),
        prefix: config.store.prefix(),
        budget,
        webhooks: Arc::new(Webhooks::new(webhooks)),
        meters,
        expressions: host.expressions.clone(),
    };
    if let Some(definitions) = Definitions::start(setup, tasks).await {
        followers.connect(&definitions);
        // The cell is empty until here: a server is started once.
        let _ = api.definitions.set(definitions);
    }
    aggregator.start(tasks).await;
}
