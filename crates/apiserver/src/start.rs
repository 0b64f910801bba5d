//! From a configuration to a serving server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actions::Actions;
use aggregator::Aggregator;
use authz::Authorizer;
use cache::Budget;
use discovery::Discovery;
use futures::future::BoxFuture;
use kinds::core::service::Allocation;
use outbound::{Egress, WebhookOptions};
use registry::{Catalog, Features, LiveCatalog, OwnClient, Report, Setup};
use rest::{Api, Limits, WatchMeters};
use server::tls::Handshake;
use server::{Health, Hook, Impersonation, Lifecycle, Listener, Paths, Seats, Server, ShutdownTimeouts, Sparing};
use standalone::{Advertised, Identity, OwnService};
use storage::Store;
use tokio::task::JoinSet;

use crate::accounts::{Accounts, SigningKeySource};
use crate::admission::Host;
use crate::authentication::{Authentication, Trust};
use crate::authorization::Authorization;
use crate::components::Components;
use crate::definitions::{self, CustomNeeds};
use crate::dial::Dialer;
use crate::discovery_paths::DiscoveryPaths;
use crate::escalation::EscalationCheck;
use crate::extensions::Built;
use crate::fresh::Fresh;
use crate::metered::{Metered, Timings};
use crate::openid::OpenId;
use crate::own_client::ApiClient;
use crate::own_console::{self, Console, OwnConsole};
use crate::peering::Peering;
use crate::pki::{FrontProxy, Hosts, PkiError};
use crate::served::Served;
use crate::services::Services;
use crate::store::{self, Opened};
use crate::zpages::Zpages;
use crate::{
    Config, OwnDefinition, Pki, ProgramParts, aggregation, consistency, descriptors, own_objects, own_service, repair,
    serving, traces,
};

/// How many bytes of other encodings of stored objects are kept in memory: enough for a list of 100,000 pods as JSON.
const RENDITION_BUDGET_BYTES: usize = 512 * 1024 * 1024;

/// Why a server does not start: one sentence for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the data directory {path} cannot be used: {why}; name another with --data-dir{instead}")]
    DataDir { path: PathBuf, why: String, instead: &'static str },
    #[error("cannot open the store: {0}")]
    Store(String),
    #[error("cannot listen on {address}: {why}")]
    Listen { address: SocketAddr, why: String },
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Definition(#[from] crd::OwnDefinitionError),
}

impl StartError {
    fn data_dir(config: &Config, why: impl std::fmt::Display) -> StartError {
        let instead = match config.store.etcd_servers.is_empty() {
            true => "",
            false => {
                ". None is needed if --client-ca-file, --tls-cert-file, --tls-private-key-file and \
                 --service-account-signing-key-file are given"
            }
        };
        StartError::DataDir { path: config.data_dir.clone(), why: why.to_string(), instead }
    }
}

/// A server that is serving. It ends when this is dropped; [`Running::stop`] lets requests finish first.
pub struct Running {
    /// Where it listens, or would if it were to: `listens` of its configuration.
    pub address: SocketAddr,
    pub pki: Pki,
    pub api: Arc<Api>,
    /// Answers requests of the same process, which need no listener.
    pub server: Arc<Server>,
    /// None if it is off.
    pub console: Option<Arc<Console>>,
    timeouts: ShutdownTimeouts,
    background: Background,
    store: Opened,
}

/// What goes on beside requests.
struct Background {
    loops: Vec<standalone::Loops>,
    own_service: Option<Arc<OwnService>>,
    peering: Peering,
    tasks: JoinSet<()>,
    /// The listener, if there is one.
    serving: JoinSet<()>,
}

impl Running {
    /// The address that signs a browser in to the console at this URL, once; None if it is off.
    pub fn console_link(&self, url: &str) -> Option<String> {
        self.console.as_ref().map(|console| own_console::link(console, url))
    }

    /// Fails readiness, leaves the `kubernetes` Service, waits for `delay`, lets requests finish, and returns when everything
    /// is over.
    pub fn stop(mut self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let timeouts = ShutdownTimeouts { delay, ..self.timeouts.clone() };
            let (own_service, peering) = (self.background.own_service.clone(), &self.background.peering);
            let leave = async {
                tokio::join!(peering.leave(), async {
                    if let Some(own_service) = &own_service {
                        own_service.leave().await;
                    }
                });
            };
            self.server.lifecycle.shut_down(&timeouts, leave).await;
            for loops in self.background.loops.drain(..) {
                loops.stop().await;
            }
            self.background.tasks.shutdown().await;
            while let Some(ended) = self.background.serving.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "the listener did not end well");
                }
            }
            if let Some(auditor) = &self.server.auditor {
                auditor.shut_down().await;
            }
            self.store.close().await;
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.lifecycle.end();
    }
}

/// Starts a server and returns as soon as it is ready.
pub fn start(config: Config) -> BoxFuture<'static, Result<Running, StartError>> {
    start_with(config, ProgramParts::default())
}

/// Starts a server with parts of the program it runs in.
pub fn start_with(mut config: Config, extensions: ProgramParts) -> BoxFuture<'static, Result<Running, StartError>> {
    Box::pin(async move {
        config.settle().map_err(StartError::Setting)?;
        if config.allows_everything() {
            tracing::warn!(
                "AnonymousAuth is not allowed with the AlwaysAllow authorizer, which allows everything to everyone who is \
                 authenticated. You should use a different authorizer"
            );
        }
        let mut fresh = None;
        let keeps_store = extensions.store.is_none() && config.store.etcd_servers.is_empty();
        if config.needs_data_dir(keeps_store) {
            let failed = |error: std::io::Error| StartError::data_dir(&config, error);
            fresh = Some(Fresh::directory(&config.data_dir).map_err(failed)?);
        }
        let signing_key = SigningKeySource::open(&config, fresh.clone());
        let egress = match extensions.egress.clone() {
            Some(egress) => egress,
            None => config.egress().map_err(StartError::Setting)?,
        };
        config.store.kms_v1 = config.features().map_err(StartError::Setting)?.enabled("KMSv1");
        // Both wait for the disk, so they wait at the same time.
        let store = store::open(&config.store, &config.data_dir, extensions.store.clone(), egress.etcd.clone());
        let (pki, opened) = tokio::join!(open_pki(&config), store);
        let opened = opened?;
        let (store, is_own) = (opened.store.clone(), opened.is_own);
        let running = match pki.and_then(|own| own.settle(&mut config)) {
            Ok(pki) => match assemble(&config, extensions, Begun { pki, opened, egress, signing_key }).await {
                Ok(assembled) => assembled.run(&config).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        if running.is_err() && is_own {
            // The next start should not find a file that looks like the victim of a crash.
            store.close().await;
        }
        let running = running?;
        if let Some(fresh) = fresh {
            fresh.keep();
        }
        Ok(running)
    })
}

/// What is there before the server is put together.
struct Begun {
    pki: Pki,
    opened: Opened,
    egress: Egress,
    signing_key: SigningKeySource,
}

async fn assemble(config: &Config, mut extensions: ProgramParts, begun: Begun) -> Result<Assembled, StartError> {
    let Begun { pki, mut opened, egress, signing_key } = begun;
    let console = OwnConsole::open(config, &mut extensions, &pki, &opened).map_err(StartError::Setting)?;
    let core = Core::open(config, &mut extensions, &pki, &opened, &egress, signing_key).await?;
    let Core { accounts, api, authentication, authorization, followers, host, kinds, store, timings } = core;
    let lifecycle = Lifecycle::default();
    let (health, hooks) = serving::health(config, &api.features, opened.checks(&config.store), &lifecycle);
    let metrics = opened.metrics(&config.store, &api, config.metrics.open().map_err(StartError::Setting)?);
    extensions.add_checks(&health);
    let (listener, address) = listener(config, &pki, &authentication.trust).await?;
    let advertised = own_service::advertised(config, address).map_err(StartError::Setting)?;
    host.services.connect(&api, address);
    let meters = crate::metrics::contribute(&metrics, &api, config.version(), timings, &kinds, &host);
    let aggregator = aggregation::open(config, &api, host.services.clone(), &egress, &metrics);
    let peering = Peering::open(config, &api, &advertised, store.clone(), &egress, &metrics);
    let peering = peering.map_err(StartError::Setting)?;
    let auditor = config.audit.open(&egress, &extensions.audit, &api.clock).map_err(StartError::Setting)?;
    crate::metrics::contribute_access(&metrics, &authentication, &authorization, &egress);
    let seats = config.serving.seats();
    let unfinished = crate::metrics::contribute_chain(&metrics, auditor.as_ref(), seats.flow());
    let impersonation = Impersonation::new(api.features.enabled("ConstrainedImpersonation"));
    crate::metrics::contribute_impersonation(&metrics, &impersonation);
    extensions.add_metrics(&metrics);
    // The program's paths come first, so that they can stand in front of what the server lists.
    let first = extensions.make_paths(&Built { api: &api, pki: &pki, address, prefix: config.store.prefix() });
    let own_host = own_host(config, &advertised);
    let discovery = Discovery::new(api.clone(), Some(aggregator.clone()), peering.peers.clone(), own_host.clone());
    let openid = OpenId::new(&accounts, &config.service_accounts.jwks_uri, &own_host);
    let mut paths = paths(config, &api, discovery, openid, &health, first);
    if let Some(console) = &console {
        paths.push(console.paths(&api, &authentication, auditor.as_ref(), &metrics, &seats, &unfinished));
    }
    let server = Arc::new(Server {
        api: api.clone(),
        authenticator: authentication.authenticator.clone(),
        authorizer: authorization.authorizer,
        impersonation,
        paths,
        pages: console.as_ref().map(OwnConsole::pages),
        observer: console.as_ref().map(OwnConsole::observer),
        health,
        metrics,
        version: config.version(),
        aggregator: Some(aggregator.clone()),
        peers: peering.peers.clone(),
        write_barrier: peering.write_barrier(),
        lifecycle,
        seats,
        unfinished,
        refusals: Sparing::default(),
        auditor,
        tracer: traces::tracer(config.tracing_file.as_deref(), &egress).map_err(StartError::Setting)?,
        cors: config.serving.cors().map_err(StartError::Setting)?,
        request_timeout: config.request_timeout,
        hsts: config.serving.hsts.clone(),
        limits_anonymous_http2: api.features.enabled("UnauthenticatedHTTP2DOSMitigation"),
        refuses_while_leaving: config.serving.connections.answer_while_leaving,
    });
    Ok(Assembled {
        definitions: std::mem::take(&mut extensions.definitions),
        webhooks: WebhookOptions::new(host.services.clone(), &egress),
        address,
        advertised,
        aggregator,
        api,
        authentication,
        console: console.map(OwnConsole::into_console),
        expressions: host.expressions.clone(),
        followers,
        hooks,
        kinds,
        listener,
        meters,
        opened,
        peering,
        pki,
        server,
        store,
    })
}

/// The served API, without the parts of the process around it.
struct Core {
    accounts: Accounts,
    api: Arc<Api>,
    authentication: Authentication,
    authorization: Authorization,
    followers: crd::Followers,
    host: Arc<Host>,
    kinds: kinds::KindOptions,
    /// The opened store, measured.
    store: Arc<dyn Store>,
    timings: Arc<Timings>,
}

impl Core {
    async fn open(
        config: &Config,
        extensions: &mut ProgramParts,
        pki: &Pki,
        opened: &Opened,
        egress: &Egress,
        signing_key: SigningKeySource,
    ) -> Result<Core, StartError> {
        let timings = Arc::new(Timings::under(&config.store.prefix()));
        let engine = if config.store.etcd_servers.is_empty() { "embedded" } else { "etcd3" };
        let store = Metered::over(opened.store.clone(), timings.clone(), engine);
        let features = config.features().map_err(StartError::Setting)?;
        let client = Arc::new(ApiClient::new(store.clone(), &config.store.prefix()));
        let kinds = kinds_options(config, client.clone())?;
        let mut catalog = catalog(config, &features, store.clone(), &kinds).await?;
        crate::history::serve(&mut catalog, opened);
        let accounts = Accounts::open(config, signing_key).await.map_err(StartError::Setting)?;
        let authentication =
            Authentication::open(config, &features, pki, &accounts, client.clone(), egress, extensions)
                .map_err(StartError::Setting)?;
        let own_authorizers = std::mem::take(&mut extensions.authorizers);
        let authorization = Authorization::open(&config.authorization, &catalog, &features, egress, own_authorizers)?;
        let authorizer = authorization.authorizer.clone();
        let actions = actions::all(authorizer.clone(), authentication.authenticator.clone(), accounts.tokens());
        let followers = crd::Followers::default();
        followers.wrap(&mut catalog);
        let dial = set_unstored(config, &mut catalog, &actions, opened.store.clone(), egress)?;
        let host = host(config, &authorizer);
        let mut admission = admission(config, &catalog, &features, &host, client.clone(), &authorization, egress)?;
        for (plugin, sees) in extensions.admission.drain(..) {
            admission.push(plugin, sees);
        }
        let api = api(config, catalog, admission, authorizer.clone(), features, dial, extensions);
        let api = Arc::new(Api { history: opened.history.clone(), ..api });
        client.connect(&api);
        Ok(Core { accounts, api, authentication, authorization, followers, host, kinds, store, timings })
    }
}

/// The listener and its address, or the address that there would be one at.
async fn listener(config: &Config, pki: &Pki, trust: &Trust) -> Result<(Option<Listener>, SocketAddr), StartError> {
    match config.listens {
        true => listen(config, pki, trust).await.map(|(listener, address)| (Some(listener), address)),
        false => Ok((None, config.address())),
    }
}

/// A server that is put together and does nothing yet.
struct Assembled {
    address: SocketAddr,
    advertised: Advertised,
    aggregator: Arc<Aggregator>,
    api: Arc<Api>,
    authentication: Authentication,
    console: Option<Arc<Console>>,
    definitions: Vec<OwnDefinition>,
    /// Compiled CEL expressions of the whole server.
    expressions: Arc<cel::Pool>,
    followers: crd::Followers,
    hooks: Vec<Arc<Hook>>,
    kinds: kinds::KindOptions,
    listener: Option<Listener>,
    meters: Arc<crd::ConversionMeters>,
    opened: Opened,
    peering: Peering,
    pki: Pki,
    server: Arc<Server>,
    /// The opened store, measured.
    store: Arc<dyn Store>,
    webhooks: WebhookOptions,
}

impl Assembled {
    /// Creates the server's own objects, begins what goes on beside requests, and serves.
    async fn run(self, config: &Config) -> Result<Running, StartError> {
        let Assembled { address, aggregator, api, console, listener, opened, peering, pki, server, store, .. } = self;
        own_objects::create(&api, &self.authentication.trust.published()).await;
        let mut tasks = repair::start(self.kinds.allocation, api.clone(), &config.hostname);
        tasks.spawn(own_objects::keep(api.clone()));
        consistency::start(&api, &server.metrics, &mut tasks);
        begin_tasks(config, &api, self.authentication, &pki, &mut tasks)?;
        let mut loops = vec![start_own(config, &api, &peering, &server.seats)];
        let own_service = own_service(config, &api, self.advertised, store.clone()).await?;
        let custom = CustomNeeds { webhooks: self.webhooks, meters: self.meters, expressions: self.expressions };
        definitions::start(config, &aggregator, &store, custom, &self.followers, self.definitions, &mut tasks).await?;
        loops.extend(standalone_loops(config, &pki, &aggregator).await?);
        if let Some(own_service) = &own_service {
            own_service.begin(&mut tasks).await;
        }
        peering.begin(&mut tasks).await;
        peering.finish(self.hooks, &mut tasks);
        let mut serving = JoinSet::new();
        if let Some(listener) = listener {
            serving.spawn(listener.serve(server.clone()));
        }
        let background = Background { loops, own_service, peering, tasks, serving };
        let timeouts = serving::shutdown_timeouts(config);
        Ok(Running { address, pki, api, server, console, timeouts, background, store: opened })
    }
}

/// Begins what follows files, certificates and sockets beside requests.
fn begin_tasks(
    config: &Config,
    api: &Arc<Api>,
    authentication: Authentication,
    pki: &Pki,
    tasks: &mut JoinSet<()>,
) -> Result<(), StartError> {
    authentication.follow(api, tasks);
    if pki.is_used() {
        tasks.spawn(pki.clone().keep_renewed(config.data_dir.join("kubeconfig")));
    }
    config.debugging.listen(tasks).map_err(StartError::Setting)
}

fn api(
    config: &Config,
    catalog: Catalog,
    admission: ::admission::Chain,
    authorizer: Arc<dyn Authorizer>,
    features: Features,
    dial: Arc<Dialer>,
    extensions: &mut ProgramParts,
) -> Api {
    Api {
        history: None,
        catalog: LiveCatalog::new(catalog),
        admission,
        authorizer,
        clock: extensions.clock.clone(),
        randomness: extensions.randomness.clone(),
        features: Arc::new(features),
        limits: limits(config),
        describe_column: descriptions::column,
        meters: WatchMeters::default(),
        dial: Some(dial),
        streams: Arc::default(),
        recent: rest::Recent::default(),
        answers: Arc::default(),
        definitions: Default::default(),
        writes: extensions.writes.take(),
    }
}

/// What admission asks the server for.
fn host(config: &Config, authorizer: &Arc<dyn Authorizer>) -> Arc<Host> {
    let services = Services::new(config.aggregation.to_endpoints);
    Arc::new(Host::new(authorizer.clone(), services, &Identity::lease_name_on(&config.hostname)))
}

/// The admission chain; with RBAC it ends with the check that users grant no more than they have.
fn admission(
    config: &Config,
    catalog: &Catalog,
    features: &Features,
    host: &Arc<Host>,
    client: Arc<dyn OwnClient>,
    authorization: &Authorization,
    egress: &Egress,
) -> Result<::admission::Chain, StartError> {
    let chain = crate::admission::chain(config, catalog, features, host.clone(), client, egress);
    let mut chain = chain.map_err(StartError::Setting)?;
    if let Some(rbac) = authorization.rbac.clone() {
        let check = EscalationCheck { rbac, authorizer: authorization.authorizer.clone() };
        chain.push(Arc::new(check), EscalationCheck::SEES);
    }
    Ok(chain)
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

/// The `kubernetes` Service and its range, which are there when this returns. None where there is nothing that it could lead to, or no
/// Services.
async fn own_service(
    config: &Config,
    api: &Arc<Api>,
    advertised: Advertised,
    store: Arc<dyn Store>,
) -> Result<Option<Arc<OwnService>>, StartError> {
    if !config.listens || api.catalog.load().stored("", "services").is_none() {
        return Ok(None);
    }
    let reconciler = config.own_service.endpoint_reconciler().map_err(StartError::Setting)?;
    let own_service = OwnService::new(api.clone(), advertised, reconciler, store, &config.store.prefix());
    own_service.prepare().await;
    Ok(Some(Arc::new(own_service)))
}

fn kinds_options(config: &Config, client: Arc<dyn OwnClient>) -> Result<kinds::KindOptions, StartError> {
    let ranges = config.own_service.ranges().map_err(StartError::Setting)?;
    let allocation = Arc::new(Allocation::new(&ranges, config.own_service.node_port_range, client));
    Ok(kinds::KindOptions { event_ttl: config.event_ttl, allocation, ..kinds::KindOptions::default() })
}

/// Binds the listener. The address it gets has the port that was picked, if the configuration leaves that open.
async fn listen(config: &Config, pki: &Pki, trust: &Trust) -> Result<(Listener, SocketAddr), StartError> {
    let certificates = serving::certificates(config, pki).map_err(StartError::Setting)?;
    let authorities = trust.named().map_err(StartError::Setting)?;
    if let Some(path) = &config.client_ca_file {
        let (own, given) = (pki.ca.display(), path.display());
        match pki.own.clients {
            true => tracing::info!(%own, %given, "client certificates of both authorities are accepted"),
            false if config.has_earlier_authority() => {
                tracing::warn!(%own, %given, "client certificates of the own authority are not accepted beside --client-ca-file; --own-authority accepts them");
            }
            false => {}
        }
    }
    let tls = Handshake::new(certificates, &config.serving.protocols, &authorities).map_err(StartError::Setting)?;
    trust.connect(&tls);
    let address = config.address();
    let failed = |error: std::io::Error| StartError::Listen { address, why: error.to_string() };
    let mut options = config.serving.connections.clone();
    options.max_connections = options.max_connections.min(descriptors::for_clients());
    let listener = Listener::bind(address, tls, options).await.map_err(failed)?;
    let address = listener.address().map_err(failed)?;
    Ok((listener, address))
}

/// What is not stored is carried out (reviews, bindings), connected to (exec, proxies) or made when it is asked for.
fn set_unstored(
    config: &Config,
    catalog: &mut Catalog,
    actions: &Actions,
    store: Arc<dyn storage::Store>,
    egress: &Egress,
) -> Result<Arc<Dialer>, StartError> {
    let dial = Dialer::new(&config.serving.kubelet, &egress.to_cluster()).map_err(StartError::Setting)?;
    for ((group, resource, subresource), action) in actions {
        catalog.set_action(group, resource, subresource, action);
    }
    let ranges = config.own_service.ranges().map_err(StartError::Setting)?;
    let is_ipv6 = ranges.first().is_some_and(|range| range.contains(':'));
    let options = kinds::core::ConnectOptions {
        address_types: config.serving.kubelet.address_types.clone(),
        kubelet_port: config.serving.kubelet.port,
        primary_family: if is_ipv6 { "IPv6" } else { "IPv4" },
    };
    for (resource, subresource, connect) in kinds::core::connects(&options) {
        catalog.set_connect("", resource, subresource, &connect);
    }
    let components: Arc<dyn Report> = Arc::new(Components { store, dial: dial.clone() });
    catalog.set_report("", "componentstatuses", &components);
    Ok(dial)
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What every server does beside requests.
fn start_own(config: &Config, api: &Arc<Api>, peering: &Peering, seats: &Seats) -> standalone::Loops {
    let (identity, versions) = (peering.identity.clone(), peering.storage_versions.clone());
    standalone::start_own(api.clone(), identity, seats.flow().cloned(), config.leadership, versions)
}

/// What a controller manager would do, if there is none.
async fn standalone_loops(
    config: &Config,
    pki: &Pki,
    aggregator: &Arc<Aggregator>,
) -> Result<Option<standalone::Loops>, StartError> {
    if !config.standalone {
        return Ok(None);
    }
    let authority = pki.authority().map_err(|error| StartError::Setting(error.to_string()))?;
    Ok(Some(standalone::start(aggregator.clone(), authority).await))
}

/// The host in URLs that others are told.
fn own_host(config: &Config, advertised: &Advertised) -> String {
    match config.external_hostname.as_str() {
        "" => SocketAddr::new(advertised.address, advertised.port).to_string(),
        host if host.contains(':') => host.to_string(),
        host => format!("{host}:{}", advertised.port),
    }
}

/// Who answers for paths that are not resources: the given ones, and then the server's own.
fn paths(
    config: &Config,
    api: &Arc<Api>,
    discovery: Discovery,
    openid: Option<OpenId>,
    health: &Health,
    mut paths: Vec<Arc<dyn Paths>>,
) -> Vec<Arc<dyn Paths>> {
    paths.push(Arc::new(DiscoveryPaths(discovery)));
    paths.extend(openid.map(|openid| Arc::new(openid) as Arc<dyn Paths>));
    paths.extend(config.debugging.paths());
    paths.extend(crate::history::paths(api));
    let mut listed: Vec<String> = paths.iter().flat_map(|paths| paths.listed()).chain(health.paths()).collect();
    listed.extend(["/metrics", "/metrics/slis", "/version"].map(str::to_string));
    paths.push(Arc::new(Zpages::new(api.clone(), config.versions, config.flags.clone(), listed)));
    paths
}

/// What the server made for itself.
struct OwnPki {
    pki: Pki,
    /// For a server used alone that was not told about another.
    front_proxy: Option<FrontProxy>,
}

impl OwnPki {
    fn settle(mut self, config: &mut Config) -> Result<Pki, StartError> {
        if let Some(own) = &self.front_proxy {
            aggregation::use_certificate(config, own).map_err(StartError::Setting)?;
        }
        let (certificate, _) = serving::serving_files(config, &self.pki).map_err(StartError::Setting)?;
        if certificate != self.pki.serving_cert {
            self.pki.given = std::iter::once(certificate).chain(config.client_ca_file.clone()).collect();
        }
        Ok(self.pki)
    }
}

/// Names and addresses that the server's own serving certificate is made out to.
pub(crate) fn hosts(config: &Config) -> Hosts {
    let names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    for address in [Some(config.bind_address), config.advertise_address].into_iter().flatten() {
        if !address.is_unspecified() && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Hosts { names: names.map(str::to_string).to_vec(), addresses }
}

async fn open_pki(config: &Config) -> Result<OwnPki, StartError> {
    let (folder, own, hosts) = (config.data_dir.join("pki"), config.own_pki(), hosts(config));
    let with_proxy = own.clients && aggregation::needs_certificate(config);
    let opened = tokio::task::spawn_blocking(move || -> Result<OwnPki, PkiError> {
        let pki = Pki::open(&folder, own, hosts)?;
        let front_proxy = if with_proxy { Some(pki.front_proxy()?) } else { None };
        Ok(OwnPki { pki, front_proxy })
    });
    let opened = opened.await.map_err(|error| StartError::data_dir(config, error))?;
    opened.map_err(|error| match error {
        PkiError::Write(..) | PkiError::Read(..) => StartError::data_dir(config, error),
        other => StartError::Setting(other.to_string()),
    })
}

async fn catalog(
    config: &Config,
    features: &Features,
    store: Arc<dyn Store>,
    kinds: &kinds::KindOptions,
) -> Result<Catalog, StartError> {
    let strategies = kinds::strategies_with(kinds)
        .into_iter()
        .map(|(group, resource, strategy)| ((group, resource), strategy))
        .collect();
    let lifecycle = config.versions.lifecycle(config.serve_removed);
    let served = Served::new(config, lifecycle).map_err(StartError::Setting)?;
    let budget = Budget::new(RENDITION_BUDGET_BYTES);
    tokio::spawn(budget.drop_unused());
    let setup = Setup {
        store,
        prefix: config.store.prefix(),
        budget,
        strategies,
        conversions: kinds::conversions()
            .into_iter()
            .map(|(group, version, resource, c)| ((group, version, resource), c))
            .collect(),
        encoding: config.store.encoding,
        names_unreadable: features.enabled("AllowUnsafeMalformedObjectDeletion"),
        enabled: Box::new(move |resource, default| served.has(resource, default)),
        lifecycle,
    };
    let mut catalog = setup.catalog().await.map_err(|error| StartError::Store(error.to_string()))?;
    // Upstream has removed this version, so only its own name brings it back.
    if config.runtime_config.iter().any(|(name, on)| name == "apiextensions.k8s.io/v1beta1" && *on) {
        kinds::apiextensions::serve_v1beta1(&mut catalog);
    }
    Ok(catalog)
}
