//! [`Assembled`]: an API and the server around it, which do nothing yet.

use std::sync::Arc;

use server::{Hook, Server};
use standalone::Advertised;
use tokio::task::JoinSet;

use super::StartError;
use super::completed::StartSettings;
use super::opened::BoundSocket;
use super::running::{Background, Running};
use crate::authentication::Authentication;
use crate::own_console::Console;
use crate::peering::Peering;
use crate::served_api::{ApiSurroundings, ServedApi};
use crate::store::OpenedStore;
use crate::{Pki, serving};

/// A server that is put together.
pub struct Assembled {
    pub settings: StartSettings,
    pub served: ServedApi,
    pub server: Arc<Server>,
    pub authentication: Authentication,
    pub peering: Peering,
    /// Checks that pass once it runs.
    pub hooks: Vec<Arc<Hook>>,
    pub advertised: Advertised,
    pub console: Option<Arc<Console>>,
    pub pki: Pki,
    pub store: OpenedStore,
    pub socket: BoundSocket,
}

impl Assembled {
    /// Creates the server's own objects, begins what goes on beside requests, and serves.
    pub async fn run(self) -> Result<Running, StartError> {
        let Assembled { settings, served, server, authentication, peering, hooks, pki, socket, .. } = self;
        let (config, api) = (&settings.config, served.api.clone());
        let mut tasks = JoinSet::new();
        config.debugging.run(&mut tasks).map_err(StartError::Setting)?;
        if pki.is_used() {
            tasks.spawn(pki.clone().keep_renewed(config.data_dir.join("kubeconfig")));
        }
        let surroundings = ApiSurroundings {
            advertised: self.advertised,
            authority: if config.standalone {
                Some(pki.authority().map_err(|error| StartError::Setting(error.to_string()))?)
            } else {
                None
            },
            flow: server.seats.flow().cloned(),
            identity: peering.identity.clone(),
            metrics: server.metrics.clone(),
            published: authentication.trust.published(),
            storage_versions: peering.storage_versions.clone(),
        };
        let served = served.run(config, surroundings).await?;
        authentication.run(&api, socket.handshake, &mut tasks);
        peering.run(hooks, &mut tasks).await;
        let mut serving = JoinSet::new();
        if let Some(listener) = socket.listener {
            serving.spawn(listener.run(server.clone()));
        }
        let background = Background { served, peering, tasks, serving };
        let timeouts = serving::shutdown_timeouts(config);
        let (address, console, store) = (socket.address, self.console, self.store);
        Ok(Running { address, pki, api, server, console, timeouts, background, store })
    }
}
