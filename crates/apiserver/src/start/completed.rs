//! [`Completed`]: a configuration whose settings go together, and how files and sockets are opened by it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use outbound::Egress;
use registry::Features;

use super::StartError;
use super::opened::{BoundSocket, Opened};
use crate::accounts::{Accounts, SigningKeySource};
use crate::authentication::Trust;
use crate::fresh::Fresh;
use crate::pki::{FrontProxy, Hosts, PkiError};
use crate::{Config, Pki, ProgramParts, aggregation, own_console, serving, store};

/// A configuration with what follows from it.
pub struct Completed {
    pub(crate) settings: StartSettings,
    parts: ProgramParts,
}

/// The settings that every part of a server may be told.
pub(crate) struct StartSettings {
    pub config: Config,
    pub features: Arc<Features>,
    /// How other networks are reached.
    pub egress: Egress,
}

impl Completed {
    /// Refuses settings that do not go together.
    pub fn of(mut config: Config, mut parts: ProgramParts) -> Result<Completed, StartError> {
        config.settle().map_err(StartError::Setting)?;
        if config.allows_everything() {
            tracing::warn!(
                "AnonymousAuth is not allowed with the AlwaysAllow authorizer, which allows everything to everyone who is \
                 authenticated. You should use a different authorizer"
            );
        }
        let egress = match parts.egress.take() {
            Some(egress) => egress,
            None => config.egress().map_err(StartError::Setting)?,
        };
        let features = Arc::new(config.features().map_err(StartError::Setting)?);
        config.store.kms_v1 = features.enabled("KMSv1");
        Ok(Completed { settings: StartSettings { config, features, egress }, parts })
    }

    /// Makes the data directory, if something is to be kept in it. One that was made here goes again unless it is
    /// [kept](Fresh::keep).
    pub(crate) fn make_data_dir(&self) -> Result<Option<Arc<Fresh>>, StartError> {
        let config = &self.settings.config;
        let keeps_store = self.parts.store.is_none() && config.store.etcd_servers.is_empty();
        if !config.needs_data_dir(keeps_store) {
            return Ok(None);
        }
        let made = Fresh::directory(&config.data_dir);
        Ok(Some(made.map_err(|error| StartError::data_dir(config, error))?))
    }

    /// Opens what the server needs of the world outside of it.
    pub(crate) async fn open(self, directory: Option<Arc<Fresh>>) -> Result<Opened, StartError> {
        let Completed { mut settings, mut parts } = self;
        let StartSettings { config, features, egress } = &mut settings;
        let signing_key = SigningKeySource::open(config, directory);
        let console = own_console::open(config, &parts.clock).map_err(StartError::Setting)?;
        // Both wait for the disk, so they wait at the same time.
        let store = store::open(config, parts.store.take(), console.clone(), egress.etcd.clone());
        let (pki, store) = tokio::join!(open_pki(config), store);
        let store = store?;
        let opened = async {
            let pki = pki?.settle(config)?;
            let trust = Trust::open(config, &pki, features).map_err(StartError::Setting)?;
            let accounts = Accounts::open(config, signing_key).await.map_err(StartError::Setting)?;
            let socket = BoundSocket::open(config, &pki, &trust).await?;
            Ok((pki, trust, accounts, socket))
        };
        match opened.await {
            Ok((pki, trust, accounts, socket)) => {
                Ok(Opened { settings, parts, pki, store, trust, accounts, console, socket })
            }
            Err(error) => {
                if store.is_own {
                    store.close().await;
                }
                Err(error)
            }
        }
    }
}

/// The keys and certificates that the server made for itself.
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
