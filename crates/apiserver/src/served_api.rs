//! [`ServedApi`]: one API as it is served. It has its resources with their caches, admission, authorization, the definitions of
//! custom resources, and the loops that look after its objects. What the process has once, whatever it serves, is put around it in
//! `start/opened.rs`: the listener, the store, authentication, flow control, the audit log and metrics.

mod catalog;
mod running;

use std::net::SocketAddr;
use std::sync::Arc;

use ::admission::{Plugin, Sees};
use actions::TokenSettings;
use aggregator::Aggregator;
use authn::Authenticator;
use authz::Authorizer;
use crd::{ConversionMeters, FollowedDefinitions};
use object::{Clock, Randomness};
use outbound::WebhookOptions;
use registry::{LiveCatalog, OwnClient};
use rest::{Api, Limits, Recent, RunWrite, ServedObjects, WatchMeters};
use server::{Metrics, Version};
use standalone::Identity;
use storage::Store;

pub use self::running::{ApiSurroundings, RunningApi};
use crate::admission::Host;
use crate::authentication::Authentication;
use crate::authorization::Authorization;
use crate::escalation::EscalationCheck;
use crate::metered::{Metered, Timings};
use crate::own_client::ApiClient;
use crate::own_console::{self, Console};
use crate::services::Services;
use crate::start::{StartError, StartSettings};
use crate::store::OpenedStore;
use crate::{Config, OwnDefinition, ProgramParts, aggregation};

/// One API as it is served.
pub struct ServedApi {
    pub api: Arc<Api>,
    pub aggregator: Arc<Aggregator>,
    pub authorization: Authorization,
    /// The store of its objects, measured.
    pub store: Arc<dyn Store>,
    timings: Arc<Timings>,
    host: Arc<Host>,
    kinds: kinds::KindOptions,
    custom: CustomResources,
}

/// The parts of an API that custom resources need.
struct CustomResources {
    /// None where definitions are not served.
    followed: Option<Arc<FollowedDefinitions>>,
    /// Definitions of the program, which are not stored.
    own: Vec<OwnDefinition>,
    webhooks: WebhookOptions,
    meters: Arc<ConversionMeters>,
}

/// How the objects of an API are reached by the parts that it is made of. Its catalog is empty until the API is put together.
pub struct ApiObjects {
    pub client: Arc<dyn OwnClient>,
    catalog: Arc<LiveCatalog>,
    recent: Arc<Recent>,
    services: Arc<Services>,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
    store: Arc<dyn Store>,
    timings: Arc<Timings>,
}

impl ApiObjects {
    /// `address` is where the server listens.
    pub fn new(
        settings: &StartSettings,
        parts: &ProgramParts,
        opened: &OpenedStore,
        address: SocketAddr,
    ) -> ApiObjects {
        let (clock, randomness) = (parts.clock.clone(), parts.randomness.clone());
        let StartSettings { config, features, .. } = settings;
        let (catalog, recent) = (Arc::<LiveCatalog>::default(), Arc::<Recent>::default());
        let timings = Arc::new(Timings::under(&config.store.prefix()));
        let engine = if config.store.etcd_servers.is_empty() { "embedded" } else { "etcd3" };
        let store = Metered::over(opened.store.clone(), timings.clone(), engine);
        let objects = ServedObjects::of(&catalog, &recent);
        let to_endpoints = config.aggregation.to_endpoints;
        let services = Arc::new(Services { objects: objects.clone(), address, to_endpoints });
        let client = Arc::new(ApiClient {
            objects,
            clock: clock.clone(),
            randomness: randomness.clone(),
            features: features.clone(),
            store: store.clone(),
            prefix: config.store.prefix(),
        });
        ApiObjects { client, catalog, recent, services, clock, randomness, store, timings }
    }
}

/// Parts of the process and of the program that an API uses.
pub struct ApiNeeds {
    /// Judges the tokens of TokenReviews.
    authenticator: Arc<Authenticator>,
    /// How tokens of service accounts are issued.
    tokens: TokenSettings,
    /// Asked before those of the configuration.
    authorizers: Vec<(String, Arc<dyn Authorizer>)>,
    /// Run after those of the configuration.
    plugins: Vec<(Arc<dyn Plugin>, Sees)>,
    definitions: Vec<OwnDefinition>,
    writes: Option<Arc<dyn RunWrite>>,
}

impl ApiNeeds {
    pub fn of(
        parts: &mut ProgramParts,
        authentication: &Authentication,
        tokens: TokenSettings,
        console: Option<&Console>,
    ) -> ApiNeeds {
        let mut authorizers = std::mem::take(&mut parts.authorizers);
        if let Some(console) = console {
            authorizers.insert(0, own_console::authorizer(console));
        }
        ApiNeeds {
            authenticator: authentication.authenticator.clone(),
            tokens,
            authorizers,
            plugins: std::mem::take(&mut parts.admission),
            definitions: std::mem::take(&mut parts.definitions),
            writes: parts.writes.take(),
        }
    }
}

impl ServedApi {
    /// Loads the built-in resources and puts the API together. It does nothing yet but follow the store.
    pub async fn open(
        settings: &StartSettings,
        objects: ApiObjects,
        opened: &OpenedStore,
        needs: ApiNeeds,
    ) -> Result<ServedApi, StartError> {
        let StartSettings { config, features, egress } = settings;
        let ApiObjects { client, catalog, recent, services, clock, randomness, store, timings } = objects;
        let kinds = catalog::kinds_options(config, client.clone())?;
        let mut builtin = catalog::open(config, features, store.clone(), &kinds).await?;
        crate::history::serve(&mut builtin, opened);
        let authorization = Authorization::open(&config.authorization, &builtin, features, egress, needs.authorizers)?;
        let authorizer = authorization.authorizer.clone();
        let actions = actions::all(authorizer.clone(), needs.authenticator, needs.tokens);
        let followed = FollowedDefinitions::of(&mut builtin);
        let dial = catalog::set_unstored(config, &mut builtin, &actions, opened.store.clone(), egress)?;
        let host = Host::new(authorizer.clone(), services.clone(), &Identity::lease_name_on(&config.hostname));
        let host = Arc::new(host);
        let mut admission = crate::admission::chain(config, &builtin, features, host.clone(), client, egress)
            .map_err(StartError::Setting)?;
        // With RBAC users grant no more than they have.
        if let Some(rbac) = authorization.rbac.clone() {
            let check = EscalationCheck { rbac, authorizer: authorizer.clone() };
            admission.push(Arc::new(check), EscalationCheck::SEES);
        }
        for (plugin, sees) in needs.plugins {
            admission.push(plugin, sees);
        }
        catalog.serve(builtin);
        let api = Arc::new(Api {
            history: opened.history.clone(),
            catalog,
            admission,
            authorizer,
            clock,
            randomness,
            features: features.clone(),
            limits: limits(config),
            describe_column: descriptions::column,
            meters: WatchMeters::default(),
            dial: Some(dial),
            streams: Arc::default(),
            recent,
            answers: Arc::default(),
            definitions: followed.clone().map(|followed| followed as _),
            writes: needs.writes,
        });
        let aggregator = aggregation::open(config, &api, services.clone(), egress);
        let webhooks = WebhookOptions::new(services, egress);
        let custom = CustomResources { followed, own: needs.definitions, webhooks, meters: Arc::default() };
        Ok(ServedApi { api, aggregator, authorization, store, timings, host, kinds, custom })
    }

    /// Lets the metrics show what the API does.
    pub fn contribute(&self, metrics: &Metrics, version: Version) {
        let ServedApi { api, timings, kinds, host, .. } = self;
        crate::metrics::contribute(metrics, api, version, timings.clone(), kinds, host);
        crate::metrics::contribute_conversions(metrics, &self.custom.meters);
        aggregation::contribute(metrics, &self.aggregator);
    }
}

fn limits(config: &Config) -> Limits {
    Limits {
        watch_min_timeout: config.serving.min_request_timeout,
        delete_collection_workers: config.serving.delete_collection_workers,
        redact_secrets_for: config.serving.redact_secrets_for.clone(),
        authorized_lists_for: config.serving.authorized_lists_for.clone(),
        watch_cache: config.store.watch_cache.clone(),
        ..Limits::default()
    }
}
