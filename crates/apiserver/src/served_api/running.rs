//! [`RunningApi`]: an API with the loops that look after its objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Budget;
use crd::Definitions;
use flow::Flow;
use outbound::Webhooks;
use server::Metrics;
use standalone::{Advertised, Identity, OwnService, StorageVersions};
use tokio::task::JoinSet;

use super::ServedApi;
use crate::start::StartError;
use crate::{Config, consistency, own_objects, repair};

/// How many bytes of other encodings of custom resources are kept in memory.
const RENDITION_BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// The parts of the process that the loops of an API know.
pub struct ApiSurroundings {
    pub advertised: Advertised,
    /// The authority that signs for a server used alone, which does what a controller manager would do.
    pub authority: Option<String>,
    /// Follows flow schemas and priority levels.
    pub flow: Option<Arc<Flow>>,
    pub identity: Identity,
    pub metrics: Arc<Metrics>,
    /// How requests are authenticated, as extension servers are told.
    pub published: BTreeMap<String, String>,
    pub storage_versions: Option<Arc<StorageVersions>>,
}

/// An API with its loops, which end when this is dropped.
pub struct RunningApi {
    loops: Vec<standalone::Loops>,
    own_service: Option<Arc<OwnService>>,
    tasks: JoinSet<()>,
}

impl ServedApi {
    /// Creates the API's own objects, serves custom resources, and begins what goes on beside requests.
    pub async fn run(self, config: &Config, around: ApiSurroundings) -> Result<RunningApi, StartError> {
        let api = self.api.clone();
        own_objects::create(&api, &around.published).await;
        let mut tasks = JoinSet::new();
        repair::run(self.kinds.allocation.clone(), &api, &config.hostname, &mut tasks);
        tasks.spawn(own_objects::run(api.clone()));
        consistency::run(&api, &around.metrics, &mut tasks);
        let (identity, versions) = (around.identity, around.storage_versions);
        let mut loops = vec![standalone::run_own(api.clone(), identity, around.flow, config.leadership, versions)];
        let own_service = self.own_service(config, around.advertised).await?;
        let aggregator = self.aggregator.clone();
        self.run_definitions(config, &mut tasks).await?;
        aggregator.run(&mut tasks).await;
        if let Some(authority) = around.authority {
            loops.push(standalone::run(aggregator, authority).await);
        }
        if let Some(own_service) = &own_service {
            own_service.run(&mut tasks).await;
        }
        Ok(RunningApi { loops, own_service, tasks })
    }

    /// The `kubernetes` Service and its range, which are there when this returns. None where there is nothing that it could lead
    /// to, or no Services.
    async fn own_service(
        &self,
        config: &Config,
        advertised: Advertised,
    ) -> Result<Option<Arc<OwnService>>, StartError> {
        if !config.listens || self.api.catalog.load().stored("", "services").is_none() {
            return Ok(None);
        }
        let reconciler = config.own_service.endpoint_reconciler().map_err(StartError::Setting)?;
        let (api, store) = (self.api.clone(), self.store.clone());
        let own_service = OwnService::new(api, advertised, reconciler, store, &config.store.prefix());
        own_service.prepare().await;
        Ok(Some(Arc::new(own_service)))
    }

    /// Puts the definitions of the program and the stored ones into the catalog, and follows these from then on.
    async fn run_definitions(self, config: &Config, tasks: &mut JoinSet<()>) -> Result<(), StartError> {
        let budget = Budget::new(RENDITION_BUDGET_BYTES);
        tasks.spawn(budget.drop_unused());
        let registrar = self.aggregator;
        let setup = crd::Setup {
            api: self.api,
            followed: self.custom.followed,
            versions: Arc::new(move |name, versions| registrar.set_definition(name, versions)),
            store: self.store,
            prefix: config.store.prefix(),
            budget,
            webhooks: Arc::new(Webhooks::new(self.custom.webhooks)),
            meters: self.custom.meters,
            expressions: self.host.expressions.clone(),
            own: self.custom.own,
        };
        Ok(Definitions::run(setup, tasks).await?)
    }
}

impl RunningApi {
    /// Sends no more clients here, while those that are here are still served.
    pub async fn withdraw(&self) {
        if let Some(own_service) = &self.own_service {
            own_service.stop().await;
        }
    }

    /// Ends the loops.
    pub async fn stop(&mut self) {
        for loops in self.loops.drain(..) {
            loops.stop().await;
        }
        self.tasks.shutdown().await;
    }
}
