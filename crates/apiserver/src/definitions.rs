//! Starts what serves custom resources, and then the aggregator, which registers them.

use std::sync::Arc;

use aggregator::Aggregator;
use cache::Budget;
use crd::{ConversionMeters, Definitions, Followers, OwnDefinition, OwnDefinitionError, Setup};
use outbound::{WebhookOptions, Webhooks};
use storage::Store;
use tokio::task::JoinSet;

use crate::Config;

/// How many bytes of other encodings of custom resources are kept in memory.
const RENDITION_BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// The parts of the server that custom resources need.
pub struct CustomNeeds {
    pub webhooks: WebhookOptions,
    pub meters: Arc<ConversionMeters>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

/// Puts the stored definitions into the catalog and follows them from then on.
pub async fn start(
    config: &Config,
    aggregator: &Arc<Aggregator>,
    store: &Arc<dyn Store>,
    custom: CustomNeeds,
    followers: &Followers,
    own: Vec<OwnDefinition>,
    tasks: &mut JoinSet<()>,
) -> Result<(), OwnDefinitionError> {
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
        webhooks: Arc::new(Webhooks::new(custom.webhooks)),
        meters: custom.meters,
        expressions: custom.expressions,
        own,
    };
    if let Some(definitions) = Definitions::start(setup, tasks).await? {
        followers.connect(&definitions);
        // The cell is empty until here: a server is started once.
        let definitions: Arc<dyn rest::DefinitionBarrier> = definitions;
        let _ = api.definitions.set(Arc::downgrade(&definitions));
    }
    aggregator.start(tasks).await;
    Ok(())
}
