//! Who answers for paths that are not resources.

use std::net::SocketAddr;
use std::sync::Arc;

use discovery::Discovery;
use server::{Health, Paths};
use standalone::Advertised;

use super::completed::StartSettings;
use crate::accounts::Accounts;
use crate::discovery_paths::DiscoveryPaths;
use crate::openid::OpenId;
use crate::peering::Peering;
use crate::served_api::ServedApi;
use crate::zpages::Zpages;

/// The parts of the server that paths show.
pub struct ShownParts<'a> {
    pub settings: &'a StartSettings,
    pub served: &'a ServedApi,
    pub peering: &'a Peering,
    pub accounts: &'a Accounts,
    pub health: &'a Health,
}

impl ShownParts<'_> {
    /// The paths of the program come first, so that they can stand in front of what the server lists.
    pub fn paths(&self, advertised: &Advertised, mut paths: Vec<Arc<dyn Paths>>) -> Vec<Arc<dyn Paths>> {
        let (config, api) = (&self.settings.config, &self.served.api);
        let own_host = self.own_host(advertised);
        let (aggregator, peers) = (self.served.aggregator.clone(), self.peering.peers.clone());
        let discovery = Discovery::new(api.clone(), Some(aggregator), peers, own_host.clone());
        paths.push(Arc::new(DiscoveryPaths(discovery)));
        let openid = OpenId::new(self.accounts, &config.service_accounts.jwks_uri, &own_host);
        paths.extend(openid.map(|openid| Arc::new(openid) as Arc<dyn Paths>));
        paths.extend(config.debugging.paths());
        paths.extend(crate::history::paths(api));
        let mut listed: Vec<String> =
            paths.iter().flat_map(|paths| paths.listed()).chain(self.health.paths()).collect();
        listed.extend(["/metrics", "/metrics/slis", "/version"].map(str::to_string));
        paths.push(Arc::new(Zpages::new(api.clone(), config.versions, config.flags.clone(), listed)));
        paths
    }

    /// The host in URLs that others are told.
    fn own_host(&self, advertised: &Advertised) -> String {
        match self.settings.config.external_hostname.as_str() {
            "" => SocketAddr::new(advertised.address, advertised.port).to_string(),
            host if host.contains(':') => host.to_string(),
            host => format!("{host}:{}", advertised.port),
        }
    }
}
