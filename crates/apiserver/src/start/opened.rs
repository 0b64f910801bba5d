//! [`Opened`]: what a server has of the world outside of it, and how it is put together around that.

use std::net::SocketAddr;
use std::sync::Arc;

use server::tls::Handshake;
use server::{Impersonation, Lifecycle, Listener, Server, Sparing, Unfinished};
use storage::Store;

use super::StartError;
use super::assembled::Assembled;
use super::completed::StartSettings;
use super::paths::ShownParts;
use crate::accounts::Accounts;
use crate::authentication::{Authentication, OwnMethods, Trust};
use crate::extensions::Built;
use crate::own_console::{self, Console, OwnConsole};
use crate::peering::Peering;
use crate::served_api::{ApiNeeds, ApiObjects, ServedApi};
use crate::store::OpenedStore;
use crate::{Config, Pki, ProgramParts, descriptors, own_service, serving, traces};

/// A server whose files, store and socket are open.
pub struct Opened {
    pub settings: StartSettings,
    /// The parts of the program that were not used yet.
    pub parts: ProgramParts,
    pub pki: Pki,
    pub store: OpenedStore,
    pub trust: Arc<Trust>,
    pub accounts: Accounts,
    /// None if it is off.
    pub console: Option<Arc<Console>>,
    pub socket: BoundSocket,
}

/// Where the server listens, or would if it were to.
pub struct BoundSocket {
    /// Has the port that was picked, if the configuration leaves that open.
    pub address: SocketAddr,
    pub handshake: Option<Arc<Handshake>>,
    pub listener: Option<Listener>,
}

impl BoundSocket {
    /// Takes the address. Connections wait in the kernel's queue until the server runs.
    pub async fn open(config: &Config, pki: &Pki, trust: &Trust) -> Result<BoundSocket, StartError> {
        let address = config.address();
        if !config.listens {
            return Ok(BoundSocket { address, handshake: None, listener: None });
        }
        let certificates = serving::certificates(config, pki).map_err(StartError::Setting)?;
        let authorities = trust.named().map_err(StartError::Setting)?;
        tell_authorities(config, pki);
        let tls = Handshake::new(certificates, &config.serving.protocols, &authorities).map_err(StartError::Setting)?;
        let failed = |error: std::io::Error| StartError::Listen { address, why: error.to_string() };
        let mut options = config.serving.connections.clone();
        options.max_connections = options.max_connections.min(descriptors::for_clients());
        let listener = Listener::bind(address, tls.clone(), options).await.map_err(failed)?;
        Ok(BoundSocket { address: listener.address().map_err(failed)?, handshake: Some(tls), listener: Some(listener) })
    }
}

/// Says in the log whose client certificates are accepted beside those of `--client-ca-file`.
fn tell_authorities(config: &Config, pki: &Pki) {
    let Some(path) = &config.client_ca_file else { return };
    let (own, given) = (pki.ca.display(), path.display());
    match pki.own.clients {
        true => tracing::info!(%own, %given, "client certificates of both authorities are accepted"),
        false if config.has_earlier_authority() => {
            tracing::warn!(%own, %given, "client certificates of the own authority are not accepted beside --client-ca-file; --own-authority accepts them");
        }
        false => {}
    }
}

impl Opened {
    /// The store, if it was opened for this server alone.
    pub fn own_store(&self) -> Option<Arc<dyn Store>> {
        self.store.is_own.then(|| self.store.store.clone())
    }

    /// Puts the API and the server together.
    pub async fn assemble(self) -> Result<Assembled, StartError> {
        let Opened { settings, mut parts, pki, mut store, trust, accounts, console, socket } = self;
        let StartSettings { config, features, egress } = &settings;
        let objects = ApiObjects::new(&settings, &parts, &store, socket.address);
        let own = OwnMethods::of(&mut parts, console.clone());
        let authentication = Authentication::open(&settings, trust, &accounts, objects.client.clone(), own)?;
        let needs = ApiNeeds::of(&mut parts, &authentication, accounts.tokens(), console.as_deref());
        let served = ServedApi::open(&settings, objects, &store, needs).await?;
        let lifecycle = Lifecycle::default();
        let (health, hooks) = serving::health(config, features, store.checks(&config.store), &lifecycle);
        parts.add_checks(&health);
        let metrics = config.metrics.open().map_err(StartError::Setting)?;
        let metrics = store.metrics(&config.store, &served.api, metrics);
        let advertised = own_service::advertised(config, socket.address).map_err(StartError::Setting)?;
        served.contribute(&metrics, config.version());
        let peering = Peering::open(config, &served, &advertised, egress, &metrics).map_err(StartError::Setting)?;
        let auditor = config.audit.open(egress, &parts.audit, &parts.clock).map_err(StartError::Setting)?;
        crate::metrics::contribute_access(&metrics, &authentication, &served.authorization, egress);
        let (seats, unfinished) = (config.serving.seats(), Unfinished::default());
        crate::metrics::contribute_chain(&metrics, &unfinished, auditor.as_ref(), seats.flow());
        let impersonation = Impersonation::new(features.enabled("ConstrainedImpersonation"));
        crate::metrics::contribute_impersonation(&metrics, &impersonation);
        parts.add_metrics(&metrics);
        let (prefix, aggregator) = (config.store.prefix(), &served.aggregator);
        let built = Built { api: &served.api, pki: &pki, address: socket.address, prefix, aggregator };
        let shown = ShownParts {
            settings: &settings,
            served: &served,
            peering: &peering,
            accounts: &accounts,
            health: &health,
        };
        let mut paths = shown.paths(&advertised, parts.make_paths(&built));
        if let Some(console) = &console {
            let own = OwnConsole { console, settings: &settings, pki: &pki, store: &store };
            paths.push(own.paths(&served.api, &authentication, auditor.as_ref(), &metrics, &seats, &unfinished));
        }
        let server = Arc::new(Server {
            api: served.api.clone(),
            authenticator: authentication.authenticator.clone(),
            authorizer: served.authorization.authorizer.clone(),
            impersonation,
            paths,
            pages: console.as_deref().map(|console| own_console::pages(console, &authentication)),
            observer: console.as_deref().map(own_console::observer),
            health,
            metrics,
            version: config.version(),
            aggregator: Some(served.aggregator.clone()),
            peers: peering.peers.clone(),
            write_barrier: peering.write_barrier(),
            lifecycle,
            seats,
            unfinished,
            refusals: Sparing::default(),
            auditor,
            tracer: traces::tracer(config.tracing_file.as_deref(), egress).map_err(StartError::Setting)?,
            cors: config.serving.cors().map_err(StartError::Setting)?,
            request_timeout: config.request_timeout,
            hsts: config.serving.hsts.clone(),
            limits_anonymous_http2: features.enabled("UnauthenticatedHTTP2DOSMitigation"),
            refuses_while_leaving: config.serving.connections.answer_while_leaving,
        });
        Ok(Assembled {
            settings,
            served,
            server,
            authentication,
            peering,
            hooks,
            advertised,
            console,
            pki,
            store,
            socket,
        })
    }
}
